// Keeps track of memory that a tenant exported and that open descriptors keep allocated. Main thread only.
#pragma once
#include "daemon/node.h"

// Takes the descriptor `offered` for the tenant, or closes it. Returns 0 or -errno; -EPROTO: the descriptor is not an
// epoll instance.
int exports_accept(const struct node *node, struct tenant *tenant, int offered);
void exports_drop(struct tenant *tenant);
// Finds out how many of the tenant's `most` exported bytes stay allocated because descriptors of them are open. If that
// cannot be found out, the result is all of them. A thread reads the epoll instance for this: until it has finished,
// the function returns false, and afterwards tenant_reap() is called again. *ret_keep is valid until the next call.
bool exports_find_kept(struct tenant *tenant, uint64_t most, struct vg_ledger_keep *ret_keep);
