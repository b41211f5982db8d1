// Keeps the list of vGPUs, and protects their mapped ledgers. Main thread only.
#pragma once
#include "daemon/node.h"

// Finds a vGPU by its name. Returns NULL if no vGPU has that name.
struct vgpu *registry_find(const struct node *node, const char *name);
// Returns whether the name can be that of a vGPU or a publication.
bool registry_name_is_valid(const char *name);
// Finds the GPU with the UUID. Returns false if this machine does not have it.
bool registry_find_device(const struct node *node, const uint8_t uuid[16], size_t *ret_device);
// Writes the path of the vGPU's ledger. Only this process can use it (path.h).
void registry_path(const struct node *node, const struct vgpu *vgpu, char path[PATH_MAX]);
// Installs a handler of SIGBUS that replaces a truncated ledger by empty memory, and marks its vGPU as damaged. For an
// address that is in no ledger, the handler calls `mend_other`. That function replaces the mapping with the address by
// empty memory, if it knows the mapping, and returns whether it does. It must be async-signal-safe.
void registry_guard(struct node *node, bool (*mend_other)(const struct node *node, const void *address));
// Lets the handler of registry_guard() also know a ledger that is not in the list of vGPUs yet; NULL: none.
void registry_guard_ledger(const struct vg_ledger *ledger);
