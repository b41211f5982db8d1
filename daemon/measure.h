// Measures the memory that tenants use, and brings their figures up to date. Main thread only.
#pragma once
#include "daemon/node.h"

// Charge to tenants what they use beyond their own charges. To be called after a scan.
void measure_device(struct node *node, size_t device);
void measure_all(struct node *node);
// Bring what a listing shows of the vGPU up to date. The second one is for peers that may not see the tenants: it only
// checks the ledger, since reading its slots uses the owner's part of the loop's time.
void measure_for_listing(struct node *node, struct vgpu *vgpu);
void measure_for_summary(struct node *node, struct vgpu *vgpu);
