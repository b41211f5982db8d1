// Finds and watches the tenants of vGPUs: reads the slots of ledgers, watches the processes, and reaps those that have
// ended. Main thread only.
#pragma once
#include "daemon/node.h"

// Reads the slots of the vGPU's ledger. If the ledger's contents are damaged, keeps the tenants that were known before.
void tenant_scan(struct node *node, struct vgpu *vgpu);
void tenant_scan_all(struct node *node);
// Continues the scan of all vGPUs for a short time, so that requests are answered in between. Returns whether the scan
// has ended.
bool tenant_scan_some(struct node *node);
// Reaps tenants whose memory the driver has released.
void tenant_reap(struct node *node);
// Notes the result of the search for the tenant's process; pid 0: the process does not exist.
void tenant_prove(struct node *node, struct tenant *tenant, pid_t pid, uint64_t start_time, bool has_mapped);
// Returns whether the daemon has checked, for each tenant of the vGPU, that its process really is a tenant. If a check
// is missing, begins a search.
bool tenant_are_proven(struct node *node, struct vgpu *vgpu);
// Returns whether the process is the one that `owner` names by its pid in its own pid namespace.
bool tenant_is_process(pid_t pid, const struct vg_ledger_owner *owner);
void tenant_drop_all(struct node *node, struct vgpu *vgpu);
