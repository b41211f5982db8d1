// Moves evictable vGPUs to the host and back on devices that cannot hold all of them at once (residence/residence.h).
// Main thread only.
#pragma once
#include "daemon/node.h"

// Notes that the user resumed a vGPU. If it does not fit beside the others, it is ordered out until there is room.
void residence_resume(struct node *node, struct vgpu *vgpu);
// Reads the words of the processes, decides which vGPUs are on each device, and writes the orders. Lowers *deadline to
// the time at which it must be called again.
void residence_keep(struct node *node, uint64_t now, uint64_t *deadline);
// Sets the state of a vGPU that was created, or taken over from a previous daemon. It is out if others have the device.
void residence_begin(struct node *node, struct vgpu *vgpu);
