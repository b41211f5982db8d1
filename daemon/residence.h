// Moves the memory of evictable vGPUs between device and host, on devices that cannot hold all of it at once
// (residence/residence.h). Main thread only.
#pragma once
#include "daemon/node.h"

// Notes that the user resumed a vGPU. If the vGPU does not fit beside the others, it stays in the host until there is
// room.
void residence_resume(struct node *node, struct vgpu *vgpu);
// Reads the words of the processes, decides which vGPUs are on each device, and writes the orders. Lowers *deadline to
// the time of the next call.
void residence_keep(struct node *node, uint64_t now, uint64_t *deadline);
// Sets the state of a vGPU that was created, or taken over from a previous daemon. The vGPU starts in the host if other
// vGPUs fill the device.
void residence_begin(struct node *node, struct vgpu *vgpu);
