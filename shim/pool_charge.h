// Charges of memory pools. A pool is charged for what the driver reports as reserved by it. Any thread.
#pragma once
#include "shim/charge.h"

struct shim_physical;
struct shim_pool;

// Notes a pool. is_counted: its memory is on the device.
void shim_pool_note(CUmemoryPool handle, bool is_counted);
// Returns the pool, noting it if it is new. NULL: its memory is not charged here (in the host, or imported).
struct shim_pool *shim_pool_find_counted(CUmemoryPool handle);
// Before an allocation that may make the pool grow, for which the caller has charged `bytes`.
void shim_pool_begin_growth(struct shim_pool *pool, uint64_t bytes);
// After it: sets the pool's charge to what the driver reports and counts `allocated` bytes as live. `growth`: the bytes
// of shim_pool_begin_growth(). Returns how many bytes the limit has no room for.
uint64_t shim_pool_end_growth(struct shim_pool *pool, uint64_t growth, uint64_t allocated);
// Returns how many bytes a pool has reserved and does not use.
uint64_t shim_pool_unused(CUmemoryPool handle);
// Notes that an allocation of a pool was freed. Sets the record's bytes to what the caller must refund: nothing, or the
// pool's whole charge if it was the last allocation of a destroyed pool.
void shim_pool_note_free(struct shim_record *record);

// Makes the pool a shared allocation, because other processes may import it by the descriptor.
void shim_pool_note_export(CUmemoryPool handle, int descriptor);
// Notes an imported pool; `physical` is what this process has of its owner's shared allocation, or NULL if no vGPU is
// charged for it. Takes over the reference.
void shim_pool_note_import(CUmemoryPool handle, struct shim_physical *physical);
// Returns `physical` of an imported pool with a new reference, or NULL.
struct shim_physical *shim_pool_find_import(CUmemoryPool handle);

// Destroys a pool. The driver returns its memory with its last allocation, so until then it stays charged.
CUresult shim_pool_destroy(struct shim_pool *pool);
// Destroys a pool that is not counted: what an imported pool has open of its owner's memory ends here.
CUresult shim_pool_destroy_uncounted(CUmemoryPool handle);

// Sets the charges of all pools to what the driver reports.
void shim_pools_reconcile(void);
// Makes the pools return unused memory to the device.
void shim_pools_trim(void);
