// Reads GPUs and vGPUs from the node's daemon, on a thread of its own: the daemon may answer late, and the kubelet must
// not wait for it. The functions are for the main thread.
#pragma once
#include <virgate/vgpu.h>

#include "loop.h"

enum { NODE_PERIOD_MS = 300, NODE_PROBLEM = 512 };

struct node_reading {
	struct vg_device_list *devices; // NULL: the daemon does not answer
	struct vg_vgpu_list *vgpus;
	char problem[NODE_PROBLEM]; // why it does not
};

struct node;
// Takes the lists of the reading.
typedef void node_read(void *user, struct node_reading *reading);
typedef void node_created(void *user, const char *vgpu);

// Starts to read. In the loop, it calls `read` after each reading, and `created` after each new vGPU, also if that is
// gone before the next reading. Returns 0 or -errno.
int node_start(struct loop *loop, struct vg_node *daemon, node_read *read, node_created *created, void *user,
	       struct node **ret_node);
// Accepts NULL.
void node_stop(struct node *node);
