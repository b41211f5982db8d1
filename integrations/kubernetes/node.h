// Reads GPUs and vGPUs from the node's daemon in a thread of its own. The daemon may answer late, and the kubelet must
// not have to wait for it. The functions are for the main thread.
#pragma once
#include <virgate/vgpu.h>

#include "loop.h"

enum { NODE_PERIOD_MS = 300, NODE_PROBLEM = 512 };

struct node_reading {
	struct vg_device_list *devices; // NULL: the daemon does not answer
	struct vg_vgpu_list *vgpus;
	char problem[NODE_PROBLEM]; // why the daemon does not answer
};

struct node;
// Receives a reading, and takes over both of its lists.
typedef void node_read(void *user, struct node_reading *reading);
typedef void node_created(void *user, const char *vgpu);

// Starts to read. The loop then calls `read` after each reading. It calls `created` for each new vGPU, also for one
// that is removed before the next reading. Returns 0 or -errno.
int node_start(struct loop *loop, struct vg_node *daemon, node_read *read, node_created *created, void *user,
	       struct node **ret_node);
// Accepts NULL.
void node_stop(struct node *node);
