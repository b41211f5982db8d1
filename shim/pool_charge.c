// Charges pools. A pool grows and shrinks in steps that the driver chooses: it grows inside an allocation call, and
// shrinks at synchronization. So the rounded request is charged before the call. After the call, the charge is set to
// what the driver reports as reserved.
#include "shim/pool_charge.h"

#include <stdlib.h>

#include "ledger/shared.h"
#include "shim/mark.h"
#include "shim/reclaim.h"
#include "shim/shared.h"

struct shim_pool {
	CUmemoryPool handle;
	uint64_t charged;    // bytes charged in the ledger
	uint64_t live;	     // bytes of the pool's allocations that are not freed yet
	uint64_t growing;    // bytes that calls in progress have charged for growth of the pool
	unsigned int device; // ordinal of the device whose ledger has the charge
	bool is_counted;     // the pool is on the device and not imported
	// the program has destroyed the pool, but the driver keeps it until its last allocation is freed
	bool is_destroyed;
	// number of the shared allocation that the pool became when it was exported; 0: not exported. The size of such
	// a pool never shrinks (docs/hardware.md).
	uint32_t shared;
	uint64_t mark; // the mark on the pool's descriptors (shim/mark.h)
	// if the pool was imported: this process's reference to the shared allocation of the pool's owner; else NULL
	struct shim_physical *import;
	unsigned int imports; // number of imports; the program destroys the pool once for each
	struct shim_pool *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shim_pool *pools;

static struct shim_pool *find_or_add(CUmemoryPool handle, bool is_counted)
{
	struct shim_pool *pool;

	for (pool = pools; pool; pool = pool->next)
		if (pool->handle == handle && !pool->is_destroyed)
			return pool;
	pool = calloc(1, sizeof *pool);
	if (!pool)
		return NULL;
	pool->handle = handle;
	pool->device = shim_device();
	pool->is_counted = is_counted;
	pool->next = pools;
	pools = pool;
	return pool;
}

void shim_pool_note(CUmemoryPool handle, bool is_counted)
{
	pthread_mutex_lock(&lock);
	struct shim_pool *pool = find_or_add(handle, is_counted);
	if (pool)
		pool->is_counted = is_counted;
	pthread_mutex_unlock(&lock);
}

static uint64_t read_attribute(CUmemoryPool handle, CUmemPool_attribute which, uint64_t otherwise)
{
	SHIM_RELAXED;
	cuuint64_t value = 0;

	return REAL(cuMemPoolGetAttribute)(handle, which, &value) == CUDA_SUCCESS ? value : otherwise;
}

// Returns what the driver reports as reserved by the pool. For an exported pool, returns at least the bytes charged.
static uint64_t read_reserved(const struct shim_pool *pool)
{
	uint64_t reserved = read_attribute(pool->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, pool->charged);

	return pool->shared && reserved < pool->charged ? pool->charged : reserved;
}

// Adjusts the pool's charge to what the driver reports as reserved. The caller has charged `growth` for its own call.
// If the pool grew by less, the rest is refunded. What other calls in progress have charged stays charged until they
// call this function. Returns how many bytes the limit has no room for.
static uint64_t change_charge(struct shim_pool *pool, uint64_t growth)
{
	uint64_t reserved = read_reserved(pool);
	uint64_t grown = reserved > pool->charged ? reserved - pool->charged : 0;
	uint64_t others = __atomic_sub_fetch(&pool->growing, growth, __ATOMIC_RELAXED);
	uint64_t used = grown < growth ? grown : growth;

	if (reserved < pool->charged) {
		shim_refund(VG_LEDGER_POOL, pool->charged - reserved);
		pool->charged = reserved;
	}
	pool->charged += used;
	grown -= used;
	shim_refund(VG_LEDGER_POOL, growth - used);
	if (grown <= others)
		return 0;
	if (shim_charge_quietly(VG_LEDGER_POOL, grown - others) != CUDA_SUCCESS)
		return grown - others;
	pool->charged += grown - others;
	return 0;
}

// Calls change_charge(). If the pool was exported, adjusts the size of its shared allocation. Call it with the lock
// held.
static uint64_t reconcile_pool(struct shim_pool *pool, uint64_t growth)
{
	SHIM_ON_DEVICE(pool->device);
	uint64_t before = pool->charged, missing = change_charge(pool, growth);

	if (pool->shared && pool->charged != before)
		vg_ledger_shared_resize(shim_session_ledger(), pool->shared, pool->charged);
	return missing;
}

void shim_pools_reconcile(void)
{
	pthread_mutex_lock(&lock);
	for (struct shim_pool *pool = pools; pool; pool = pool->next)
		if (pool->is_counted && !pool->is_destroyed)
			reconcile_pool(pool, 0);
	pthread_mutex_unlock(&lock);
}

void shim_pools_trim(void)
{
	pthread_mutex_lock(&lock);
	for (struct shim_pool *pool = pools; pool; pool = pool->next)
		if (pool->is_counted && !pool->is_destroyed && pool->charged)
			REAL(cuMemPoolTrimTo)(pool->handle, 0);
	pthread_mutex_unlock(&lock);
}

static void unlink_pool(struct shim_pool *ended)
{
	for (struct shim_pool **link = &pools; *link; link = &(*link)->next) {
		if (*link == ended) {
			*link = ended->next;
			free(ended);
			return;
		}
	}
}

// Removes a destroyed pool that has no allocations from the list. Returns how many bytes the caller must refund. If
// other processes still have the exported pool open, the pool's shared allocation keeps the charge, and this process
// does not refund that part.
static uint64_t end_pool(struct shim_pool *pool)
{
	SHIM_ON_DEVICE(pool->device);
	uint64_t charged = pool->charged, passed = 0;

	if (pool->shared)
		vg_ledger_shared_leave(shim_session_ledger(), pool->shared, VG_LEDGER_POOL, charged, &passed);
	unlink_pool(pool);
	return charged - passed;
}

void shim_pool_note_free(struct shim_record *record)
{
	struct shim_pool *pool = record->data;
	uint64_t left = 0;

	pthread_mutex_lock(&lock);
	pool->live -= record->bytes;
	if (pool->is_destroyed && pool->live == 0)
		left = end_pool(pool);
	pthread_mutex_unlock(&lock);
	record->bytes = left;
	shim_needs_reconcile = true;
}

void shim_pool_begin_growth(struct shim_pool *pool, uint64_t bytes)
{
	__atomic_fetch_add(&pool->growing, bytes, __ATOMIC_RELAXED);
}

uint64_t shim_pool_end_growth(struct shim_pool *pool, uint64_t growth, uint64_t allocated)
{
	uint64_t missing;

	pthread_mutex_lock(&lock);
	missing = reconcile_pool(pool, growth);
	pool->live += allocated;
	pthread_mutex_unlock(&lock);
	return missing;
}

uint64_t shim_pool_unused(CUmemoryPool handle)
{
	uint64_t reserved = read_attribute(handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, 0);
	uint64_t used = read_attribute(handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, reserved);

	return reserved > used ? reserved - used : 0;
}

unsigned int shim_pool_device(const struct shim_pool *pool)
{
	return pool->device;
}

struct shim_pool *shim_pool_find_counted(CUmemoryPool handle)
{
	pthread_mutex_lock(&lock);
	struct shim_pool *pool = handle ? find_or_add(handle, true) : NULL;
	if (pool && !pool->is_counted)
		pool = NULL;
	pthread_mutex_unlock(&lock);
	return pool;
}

void shim_pool_note_export(CUmemoryPool handle, int descriptor)
{
	struct shim_pool *pool = shim_pool_find_counted(handle);
	if (!pool)
		return;
	SHIM_ON_DEVICE(pool->device);
	struct vg_ledger *ledger = shim_session_ledger();
	pthread_mutex_lock(&lock);
	if (!pool->shared &&
	    vg_ledger_shared_create(ledger, shim_round_granularity(pool->charged + 1), &pool->shared) == 0)
		vg_ledger_shared_resize(ledger, pool->shared, pool->charged);
	if (pool->shared)
		pool->mark = shim_mark_put(descriptor, pool->mark);
	if (pool->mark)
		vg_ledger_shared_add_name(ledger, pool->shared,
					  vg_ledger_key(SHIM_KEY_POOL, &pool->mark, sizeof pool->mark), true);
	pthread_mutex_unlock(&lock);
}

void shim_pool_note_import(CUmemoryPool handle, struct shim_physical *physical)
{
	pthread_mutex_lock(&lock);
	struct shim_pool *pool = find_or_add(handle, false);
	if (pool) {
		pool->is_counted = false;
		pool->imports++;
		if (!pool->import) {
			pool->import = physical;
			physical = NULL;
		}
	}
	pthread_mutex_unlock(&lock);
	shim_physical_unref(physical);
}

struct shim_physical *shim_pool_find_import(CUmemoryPool handle)
{
	struct shim_physical *physical = NULL;

	pthread_mutex_lock(&lock);
	for (struct shim_pool *pool = pools; pool; pool = pool->next)
		if (pool->handle == handle && !pool->is_destroyed && pool->import)
			physical = pool->import;
	if (physical)
		shim_physical_ref(physical);
	pthread_mutex_unlock(&lock);
	return physical;
}

static struct shim_pool *remove_pool(CUmemoryPool handle)
{
	struct shim_pool *pool = NULL;

	pthread_mutex_lock(&lock);
	struct shim_pool **link = &pools;
	while (*link && ((*link)->handle != handle || (*link)->is_destroyed))
		link = &(*link)->next;
	if (*link) {
		pool = *link;
		*link = pool->next;
	}
	pthread_mutex_unlock(&lock);
	return pool;
}

// Inserts a pool that is not charged to this process (imported, or in host memory) into the list again, because the
// driver still has it.
static void put_back(struct shim_pool *pool)
{
	pthread_mutex_lock(&lock);
	pool->next = pools;
	pools = pool;
	pthread_mutex_unlock(&lock);
}

CUresult shim_pool_destroy_uncounted(CUmemoryPool handle)
{
	struct shim_pool *pool = shim_counting() ? remove_pool(handle) : NULL;
	CUresult result = REAL(cuMemPoolDestroy)(handle);

	if (!pool)
		return result;
	if (result == CUDA_SUCCESS && pool->imports > 0)
		pool->imports--;
	if (result != CUDA_SUCCESS || pool->imports > 0) {
		put_back(pool);
		return result;
	}
	shim_physical_unref(pool->import);
	free(pool);
	return result;
}

CUresult shim_pool_destroy(struct shim_pool *pool)
{
	SHIM_ON_DEVICE(pool->device);
	uint64_t left = 0;
	CUresult result;

	pthread_mutex_lock(&lock);
	reconcile_pool(pool, 0);
	pool->is_destroyed = true; // set this before the call, because the driver may reuse the handle at once
	pool->live++;		   // keeps the pool in the list if another thread frees the last allocation meanwhile
	pthread_mutex_unlock(&lock);
	result = REAL(cuMemPoolDestroy)(pool->handle);
	pthread_mutex_lock(&lock);
	pool->live--;
	if (result != CUDA_SUCCESS)
		pool->is_destroyed = false;
	else if (pool->live == 0)
		left = end_pool(pool);
	pthread_mutex_unlock(&lock);
	shim_refund(VG_LEDGER_POOL, left);
	return result;
}
