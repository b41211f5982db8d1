// Makes the metrics of a node. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include <virgate/vgpu.h>

struct metrics_options {
	bool is_public;	      // show of other users' vGPUs only what `virgate ps` shows
	bool lists_ephemeral; // one row for each ephemeral vGPU; false: one row for each GPU and owner
};

// Asks the daemon, and makes the text. The caller frees *ret_text. After a failure vg_last_error() says why.
enum vg_status metrics_collect(struct vg_node *node, const struct metrics_options *options, char **ret_text);
// Makes the text for a node whose daemon does not answer. Returns NULL if memory runs out. The caller frees the text.
char *metrics_without_daemon(void);
