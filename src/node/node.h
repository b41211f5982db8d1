// A node as its client sees it. A node is not changed after it was opened, so any thread may
// use it at any time.
#pragma once
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>

#include "virgate/vgpu.h"

struct vg_node {
	char runtime_dir[PATH_MAX];
	char socket[PATH_MAX];
	char simulate[1024];	     // "": a real GPU
	char simulate_dir[PATH_MAX]; // directory of the simulated GPU that the system's daemon serves; else ""
	char libdir[PATH_MAX];	     // "": the usual places
	bool may_start;
	bool own; // the socket is of a daemon of this user, not of the system's daemon
	unsigned timeout;
};

// Returns INVALID from a public function if an argument is NULL.
#define VG_NEEDED(pointer)                                                     \
	do {                                                                   \
		if (!(pointer))                                                \
			return vg_fail(VG_INVALID, 0, "%s is NULL", #pointer); \
	} while (0)

// Sends a request and waits for the reply; starts the daemon if allowed. Consumes `request`. The reply is an object
// with "ok": true, and the caller's.
enum vg_status vg_node_request(struct vg_node *node, json_t *request, json_t **ret_reply);
// The same, and drops the reply.
enum vg_status vg_node_order(struct vg_node *node, json_t *request);

// Connects to the daemon. Returns the descriptor, or -errno; -ENOENT and -ECONNREFUSED: no daemon listens.
int vg_node_connect(const struct vg_node *node);
// The same; starts a daemon if allowed. *ret_descriptor is the caller's; it is negative after a failure.
enum vg_status vg_node_reach(const struct vg_node *node, int *ret_descriptor);
// Sets the last error from a reply that is a refusal, and from the -errno of a failed connection or request.
enum vg_status vg_node_refused(const json_t *reply);
enum vg_status vg_node_unreached(const struct vg_node *node, int r);
// Starts a daemon of this user and waits, at most node->timeout, until it or one that another process started answers.
enum vg_status vg_node_start(const struct vg_node *node);

// Checks a name of a vGPU or a publication. INVALID.
enum vg_status vg_check_name(const char *name);
