// The tenants of vGPUs: reads the slots of ledgers, watches their processes, and reaps those that have ended. Main
// thread only.
#pragma once
#include "daemon/node.h"

// Reads the slots of the vGPU's ledger. If its contents are damaged, keeps the tenants known before.
void tenant_scan(struct node *node, struct vgpu *vgpu);
void tenant_scan_all(struct node *node);
// Continues the scan of all vGPUs for a short time, so that requests are answered in between. Returns whether it has
// ended.
bool tenant_scan_some(struct node *node);
// Reaps tenants whose memory the driver has released.
void tenant_reap(struct node *node);
// Notes the result of a search for the tenant's process; pid 0: it does not exist.
void tenant_prove(struct node *node, struct tenant *tenant, pid_t pid, uint64_t start_time, bool has_mapped);
// Returns whether a search has determined for each tenant whether its process is one. Begins one otherwise.
bool tenant_are_proven(struct node *node, struct vgpu *vgpu);
// Returns whether the process is the one that calls itself `owner` in its own pid namespace.
bool tenant_is_process(pid_t pid, const struct vg_ledger_owner *owner);
void tenant_drop_all(struct node *node, struct vgpu *vgpu);
