// Memory pools: each holds the charge for what the driver says it has reserved. Any thread.
#pragma once
#include "shim/charge.h"

// A pool's allocation was freed. `record` becomes what is left to refund: nothing, or, with
// the last allocation of a destroyed pool, all that the pool held.
void shim_pool_freed(struct shim_record *record);
void shim_pools_settle(void);
void shim_pools_trim(void);
