// Memory pools: each holds the charge for what the driver says it has reserved. Any thread.
#pragma once
#include "shim/charge.h"

// A pool's allocation was freed. `record` becomes what is left to refund: nothing, or, with
// the last allocation of a destroyed pool, all that the pool held.
void shim_pool_freed(struct shim_record *record);
// Pointers of it are open to others from now on.
struct pool;
void shim_pool_exports(struct pool *pool);
// pool_share.c: such a pointer was freed, of a pool that is charged so much: what of that is a share's now.
uint64_t shim_pool_pointer_freed(uint64_t address, uint64_t charged);
void shim_pools_settle(void);
void shim_pools_trim(void);
