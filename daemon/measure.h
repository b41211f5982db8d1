// Measures the memory that tenants use, and updates their figures. Main thread only.
#pragma once
#include "daemon/authority.h"
#include "daemon/node.h"

// Charges to tenants the memory that they use beyond what they charged themselves. Call it after a scan.
void measure_device(struct node *node, size_t device);
void measure_all(struct node *node);
// Updates the figures of the vGPU before it is listed.
void measure_for_listing(struct node *node, struct vgpu *vgpu);
// Updates the figures of all vGPUs for a listing. If the peer may not see the tenants of a vGPU, only checks the vGPU's
// ledger. Reading the slots would use the owner's part of the loop's time.
void measure_for_list(struct node *node, const struct authority_peer *peer);
