// Makes the metrics of a node. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include <virgate/vgpu.h>

struct metrics_options {
	bool is_public;	      // only what `virgate ps` shows of other users' vGPUs
	bool lists_ephemeral; // a row for each ephemeral vGPU, instead of one for each GPU and owner
};

// Asks the daemon, and makes the text. The caller frees *ret_text. After a failure vg_last_error() says why.
enum vg_status metrics_collect(struct vg_node *node, const struct metrics_options *options, char **ret_text);
// Makes the text for a node whose daemon does not answer. NULL: no memory. The caller frees the text.
char *metrics_without_daemon(void);
