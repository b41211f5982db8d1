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
	char simulate_dir[PATH_MAX]; // of the simulated node if the system's daemon serves it; else ""
	char libdir[PATH_MAX];	     // "": the usual places
	bool may_start;
	bool own; // a daemon of ours may listen there (not the system's)
	unsigned timeout;
};

// Returns from a public function where an argument is missing.
#define VG_NEEDED(pointer)                                                     \
	do {                                                                   \
		if (!(pointer))                                                \
			return vg_fail(VG_INVALID, 0, "%s is NULL", #pointer); \
	} while (0)

// One request, one reply; starts the daemon where allowed. `request` is consumed. On VG_OK the
// reply is an object with "ok": true; otherwise the last error is set in `function`'s name.
enum vg_status vg_node_request(struct vg_node *node, json_t *request, json_t **ret_reply);
// The same for requests of whose reply nothing is wanted.
enum vg_status vg_node_order(struct vg_node *node, json_t *request);

// A connection to the daemon. The descriptor, -errno; -ENOENT and -ECONNREFUSED: nobody listens.
int vg_node_connect(const struct vg_node *node);
// The same, starting a daemon where allowed. *ret_descriptor is the caller's; it is negative after a failure.
enum vg_status vg_node_reach(const struct vg_node *node, int *ret_descriptor);
// What a daemon's reply refuses, and what -errno of speaking to it means, as the last error.
enum vg_status vg_node_refused(const json_t *reply);
enum vg_status vg_node_unreached(const struct vg_node *node, int r);
// Starts a daemon of our own and waits, at most node->timeout, until one answers (ours, or one
// that somebody else started meanwhile).
enum vg_status vg_node_start(const struct vg_node *node);

enum vg_status vg_check_name(const char *name);
