// Memory pools: each holds the charge for what the driver says it has reserved. Any thread.
#pragma once
#include "shim/charge.h"

// A pool's allocation was freed. `record` becomes what is left to refund: nothing, or, with
// the last allocation of a destroyed pool, all that the pool held.
void shim_pool_freed(struct shim_record *record);
// Others may import it by the descriptor from now on.
void shim_pool_exported(CUmemoryPool pool, int descriptor);
// It was imported; `physical` is its owner's share, or NULL: nobody knows it. Takes over the hold.
struct shim_physical;
void shim_pool_imported(CUmemoryPool pool, struct shim_physical *physical);
// That share with one holder more; NULL: there is none.
struct shim_physical *shim_pool_hold(CUmemoryPool pool);
void shim_pools_settle(void);
void shim_pools_trim(void);
