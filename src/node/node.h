// Connects to the daemon. struct vg_node says which daemon that is, and whether to start one. The struct does not
// change after it was opened, so several threads may use it at the same time.
#pragma once
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>

#include "virgate/vgpu.h"

struct vg_node {
	char runtime_dir[PATH_MAX];
	char socket[PATH_MAX];
	char simulate[1024]; // specification of the simulated GPU; "": a real GPU
	// If the system's daemon serves a simulated GPU: the directory of that GPU; otherwise "".
	char simulate_dir[PATH_MAX];
	char libdir[PATH_MAX]; // directory with Virgate's libraries; "": the usual places
	bool may_start;
	bool own; // this user's daemon owns the socket, not the system's daemon
	unsigned timeout;
};

// Returns INVALID from a public function if an argument is NULL.
#define VG_NEEDED(pointer)                                                     \
	do {                                                                   \
		if (!(pointer))                                                \
			return vg_fail(VG_INVALID, 0, "%s is NULL", #pointer); \
	} while (0)

// Sends a request and waits for the reply. Starts the daemon if node->may_start is true. Consumes `request`.
// *ret_reply: an object with "ok": true, which the caller frees.
enum vg_status vg_node_request(struct vg_node *node, json_t *request, json_t **ret_reply);
// Sends a request like vg_node_request(), and frees the reply.
enum vg_status vg_node_order(struct vg_node *node, json_t *request);

// Connects to the daemon. Returns the descriptor, or -errno; -ENOENT and -ECONNREFUSED: no daemon listens.
int vg_node_connect(const struct vg_node *node);
// Connects to the daemon, and starts one if node->may_start is true. The caller closes *ret_descriptor, which is
// negative after a failure.
enum vg_status vg_node_reach(const struct vg_node *node, int *ret_descriptor);
// vg_node_refused() sets the last error from a reply in which the daemon refuses the request. vg_node_unreached() sets
// it from `r`, the -errno of a failed connection or request.
enum vg_status vg_node_refused(const json_t *reply);
enum vg_status vg_node_unreached(const struct vg_node *node, int r);
// Starts a daemon of this user. Waits until that daemon answers, or another one that was started at the same time.
// Waits at most node->timeout.
enum vg_status vg_node_start(const struct vg_node *node);

// Checks the name of a vGPU or a publication. Fails with INVALID if the name is not allowed.
enum vg_status vg_check_name(const char *name);
