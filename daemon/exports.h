// Memory that a tenant exported and that open descriptors keep. Main thread only.
#pragma once
#include "daemon/node.h"

// Makes `offered` the tenant's, or closes it. Returns 0, or -errno; -EPROTO: it is not an epoll instance.
int exports_accept(const struct node *node, struct tenant *tenant, int offered);
void exports_drop(struct tenant *tenant);
// Finds how much of `most` bytes open descriptors keep; all if that cannot be determined. *ret_keep is valid until the
// next call. Returns false while a thread looks; then another call of tenant_reap() follows.
bool exports_find_kept(struct tenant *tenant, uint64_t most, struct vg_ledger_keep *ret_keep);
