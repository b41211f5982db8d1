// Charges memory pools. A pool is charged for the bytes that the driver reports as reserved by it. Any thread.
#pragma once
#include "shim/charge.h"

struct shim_physical;
struct shim_pool;

// Notes a pool. is_counted: the pool's memory is on the device.
void shim_pool_note(CUmemoryPool handle, bool is_counted);
// Returns the pool, and notes it if it is new. NULL: the pool is not charged here, because it is in host memory or
// imported.
struct shim_pool *shim_pool_find_counted(CUmemoryPool handle);
// Returns the ordinal of the device whose ledger has the charge of the pool.
unsigned int shim_pool_device(const struct shim_pool *pool);
// Notes an allocation that may make the pool grow. The caller has charged `bytes` for the growth. Call it before the
// driver call.
void shim_pool_begin_growth(struct shim_pool *pool, uint64_t bytes);
// Sets the pool's charge to what the driver reports, and counts `allocated` bytes as live. `growth`: the bytes passed
// to shim_pool_begin_growth(). Call it after the driver call. Returns how many bytes the limit has no room for.
uint64_t shim_pool_end_growth(struct shim_pool *pool, uint64_t growth, uint64_t allocated);
// Returns how many bytes a pool has reserved but does not use.
uint64_t shim_pool_unused(CUmemoryPool handle);
// Notes that an allocation of a pool was freed. Sets the record's bytes to what the caller must refund. That is 0, or
// the pool's whole charge if this was the last allocation of a destroyed pool.
void shim_pool_note_free(struct shim_record *record);

// Makes an exported pool a shared allocation, because other processes may import the pool by its descriptor.
void shim_pool_note_export(CUmemoryPool handle, int descriptor);
// Notes an imported pool. `physical` is this process's object for the shared allocation of the pool's owner, or NULL if
// no vGPU is charged for the pool. Takes over the caller's reference.
void shim_pool_note_import(CUmemoryPool handle, struct shim_physical *physical);
// Returns this process's object for the memory of an imported pool, with a new reference; NULL: it has none.
struct shim_physical *shim_pool_find_import(CUmemoryPool handle);

// Destroys a pool. The driver keeps its memory until its last allocation is freed, so the pool stays charged until
// then.
CUresult shim_pool_destroy(struct shim_pool *pool);
// Destroys a pool whose memory is not charged to this process. When the last import of an imported pool is destroyed,
// drops the reference to the shared allocation of the pool's owner.
CUresult shim_pool_destroy_uncounted(CUmemoryPool handle);

// Sets the charges of all pools to what the driver reports as reserved.
void shim_pools_reconcile(void);
// Makes the pools return unused memory to the device.
void shim_pools_trim(void);
