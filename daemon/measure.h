// Measures the memory that tenants use, and brings their figures up to date. Main thread only.
#pragma once
#include "daemon/node.h"

// Charge to tenants what they use beyond their own charges. To be called after a scan.
void measure_device(struct node *node, size_t device);
void measure_all(struct node *node);
// Brings what a listing shows of the vGPU up to date. `with_tenants`: reads its slots, which uses the owner's part of the
// loop's time; else only checks its ledger.
void measure_for_listing(struct node *node, struct vgpu *vgpu, bool with_tenants);
