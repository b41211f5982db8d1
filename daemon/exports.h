// Keeps track of memory that a tenant exported and that open descriptors keep allocated. Main thread only.
#pragma once
#include "daemon/node.h"

// Takes the descriptor `offered` for the tenant, or closes it. Returns 0 or -errno; -EPROTO: the descriptor is not an
// epoll instance.
int exports_accept(const struct node *node, struct tenant *tenant, int offered);
void exports_drop(struct tenant *tenant);
// Finds out how many of the tenant's exported bytes stay allocated because descriptors of them are open. `most` is the
// number of all exported bytes; it is also the result if the open ones cannot be found out. A thread reads the epoll
// instance. Until the thread has finished, this function returns false; then tenant_reap() is called again. *ret_keep
// is valid until the next call.
bool exports_find_kept(struct tenant *tenant, uint64_t most, struct vg_ledger_keep *ret_keep);
