// Watches launchers: processes that keep a vGPU in use while they live. Main thread only.
#pragma once
#include "daemon/authority.h"
#include "daemon/node.h"

// Add a launcher. Return 0, or -errno if the process has ended or cannot be watched.
int launcher_adopt(struct node *node, struct vgpu *vgpu, pid_t pid, uint64_t start_time, bool has_mapped);
int launcher_add(struct node *node, struct vgpu *vgpu, const struct authority_peer *peer);
void launcher_drop_all(struct node *node, struct vgpu *vgpu);
// Returns whether the vGPU is about to be removed, because its programs ended a moment ago.
bool launcher_goes_soon(struct node *node, struct vgpu *vgpu);
// Returns whether a vGPU of the owner on the device is about to be removed.
bool launcher_frees_soon(struct node *node, size_t device, uid_t owner);
