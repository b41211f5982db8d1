// Keeps track of memory that a tenant exported and that open descriptors keep allocated. Main thread only.
#pragma once
#include "daemon/node.h"

// Takes the descriptor `offered` for the tenant, or closes it. Returns 0 or -errno; -EPROTO: the descriptor is not an
// epoll instance.
int exports_accept(const struct node *node, struct tenant *tenant, int offered);
void exports_drop(struct tenant *tenant);
// Finds out how many of `most` exported bytes are still allocated because descriptors are open; all, if that is
// unknown. *ret_keep is valid until the next call. Returns false while a thread is reading the items; after the
// reading, tenant_reap() is called again.
bool exports_find_kept(struct tenant *tenant, uint64_t most, struct vg_ledger_keep *ret_keep);
