// Implements memory pools: cuts their range of addresses into segments, and allocates physical memory in chunks of 32
// MiB.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "context.h"
#include "host.h"
#include "mark.h"
#include "pool.h"
#include "process.h"

static struct sim_pool *pools;
static atomic_int dirty_pools; // number of pools that may have memory to free after a synchronization

CUresult sim_pool_get(CUmemoryPool handle, struct sim_pool **ret_pool)
{
	struct sim_pool *pool = (struct sim_pool *)handle;

	if ((uintptr_t)handle < 4096 || (uintptr_t)handle % sizeof(void *) || pool->magic != SIM_POOL_MAGIC ||
	    pool->destroyed)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_pool = pool;
	return CUDA_SUCCESS;
}

CUresult sim_pool_new(struct sim_device *device, const CUmemPoolProps *properties, size_t size,
		      struct sim_pool **ret_pool)
{
	static uint64_t uids;
	struct sim_pool *pool = calloc(1, sizeof *pool);
	struct sim_segment *whole = calloc(1, sizeof *whole);

	size = sim_round_up(size, SIM_CHUNK);
	if (pool && whole)
		pool->chunks = calloc(size / SIM_CHUNK, sizeof *pool->chunks);
	if (!pool || !whole || !pool->chunks || sim_range_reserve(size, SIM_GRANULE, 0, SIM_RANGE_POOL, &pool->range)) {
		if (pool)
			free(pool->chunks);
		free(pool);
		free(whole);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pool->magic = SIM_POOL_MAGIC;
	pool->device = device;
	pool->properties = *properties;
	pool->range->owner = pool;
	pool->range->device = device;
	pool->chunk_count = size / SIM_CHUNK;
	pool->reuse_events = pool->reuse_opportunistic = pool->reuse_internal = 1;
	// At first, only the pool's own device has access to the pool. But a managed pool is accessible to all devices,
	// and a pool in host memory only to the host.
	for (int i = 0; i < sim_process.device_count; i++)
		if (device ? device->ordinal == i : sim_pool_is_managed(pool))
			pool->access[i] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	pool->memory = -1;
	pool->exported = -1;
	pool->uid = (uint64_t)getpid() << 32 | ++uids;
	whole->base = pool->range->base;
	whole->size = size;
	pool->segments = whole;
	pool->next = pools;
	pools = pool;
	*ret_pool = pool;
	return CUDA_SUCCESS;
}

struct sim_pool *sim_pool_default(struct sim_device *device)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal}};

	if (!device->default_pool &&
	    sim_pool_new(device, &properties, sim_process.config.memory, &device->default_pool) == CUDA_SUCCESS)
		device->current_pool = device->default_pool;
	return device->default_pool;
}

bool sim_pool_is_managed(const struct sim_pool *pool)
{
	return pool->properties.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
}

CUresult sim_pool_create_descriptor(struct sim_pool *pool)
{
	if (pool->memory >= 0)
		return CUDA_SUCCESS;
	pool->memory = memfd_create("virgate-sim-pool", MFD_CLOEXEC);
	if (pool->memory >= 0 && ftruncate(pool->memory, (off_t)pool->range->size) == 0)
		return CUDA_SUCCESS;
	if (pool->memory >= 0)
		close(pool->memory);
	pool->memory = -1;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static void publish_chunk(struct sim_pool *pool, size_t chunk)
{
	uint64_t id = pool->device && pool->chunks[chunk] ? pool->chunks[chunk]->physical->id : 0;

	if (pool->exported >= 0 && pool->chunks[chunk])
		pool->chunks[chunk]->physical->shared = true;
	if (pool->exported >= 0 && !pool->imports)
		(void)!pwrite(pool->exported, &id, sizeof id,
			      (off_t)(sizeof(struct region_export) + chunk * sizeof id));
}

static void free_chunk(struct sim_pool *pool, size_t chunk)
{
	sim_mapping_remove(pool->chunks[chunk]);
	pool->chunks[chunk] = NULL;
	pool->reserved -= SIM_CHUNK;
	if (!pool->device && !pool->imports)
		(void)fallocate(pool->memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(chunk * SIM_CHUNK),
				SIM_CHUNK);
	publish_chunk(pool, chunk);
}

CUresult sim_pool_map_chunk(struct sim_pool *pool, size_t chunk, struct sim_physical *physical)
{
	CUdeviceptr base = pool->range->base + chunk * SIM_CHUNK;

	SIM_TRY(sim_range_map(pool->range, base, physical));
	pool->chunks[chunk] = sim_mapping_find(base);
	if (!pool->device)
		SIM_TRY(sim_mapping_open_to_host(pool->chunks[chunk]));
	for (int i = 0; i < sim_process.device_count; i++)
		if (pool->access[i])
			sim_mapping_set_access(pool->chunks[chunk], &sim_process.devices[i], pool->access[i]);
	pool->reserved += SIM_CHUNK;
	if (pool->reserved > pool->reserved_high)
		pool->reserved_high = pool->reserved;
	publish_chunk(pool, chunk);
	return CUDA_SUCCESS;
}

static bool is_chunk_used(const struct sim_pool *pool, size_t chunk)
{
	CUdeviceptr base = pool->range->base + chunk * SIM_CHUNK;

	for (const struct sim_segment *segment = pool->segments; segment; segment = segment->next)
		if ((segment->used || segment->busy) && segment->base < base + SIM_CHUNK &&
		    base < segment->base + segment->size)
			return true;
	return false;
}

CUresult sim_pool_chunk_memory(struct sim_pool *pool, size_t chunk, struct sim_physical **ret_physical)
{
	if (pool->device)
		return sim_physical_create(pool->device, SIM_CHUNK, ret_physical);
	SIM_TRY(sim_pool_create_descriptor(pool));
	if (!pool->imports && posix_fallocate(pool->memory, (off_t)(chunk * SIM_CHUNK), SIM_CHUNK) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct sim_physical *physical = sim_physical_adopt(NULL, 0, SIM_CHUNK, pool->memory);
	if (!physical)
		return CUDA_ERROR_OUT_OF_MEMORY;
	physical->borrowed = true;
	physical->memory_offset = (off_t)(chunk * SIM_CHUNK);
	*ret_physical = physical;
	return CUDA_SUCCESS;
}

// Allocates physical memory for [base, base + size), a part of the pool's range. On failure, allocates none.
static CUresult alloc_chunks(struct sim_pool *pool, CUdeviceptr base, size_t size)
{
	size_t first = (base - pool->range->base) / SIM_CHUNK, last = (base + size - 1 - pool->range->base) / SIM_CHUNK;
	CUresult result = CUDA_SUCCESS;
	size_t i;

	for (i = first; i <= last && result == CUDA_SUCCESS; i++) {
		struct sim_physical *physical;
		if (pool->chunks[i])
			continue;
		result = sim_pool_chunk_memory(pool, i, &physical);
		if (result != CUDA_SUCCESS)
			break;
		result = sim_pool_map_chunk(pool, i, physical);
		sim_physical_unref(physical);
	}
	if (result != CUDA_SUCCESS) // on failure, free the chunks of this range that no allocation uses
		while (i-- > first)
			if (pool->chunks[i] && !is_chunk_used(pool, i))
				free_chunk(pool, i);
	return result;
}

// Merges the segment with the next one.
static void merge_next(struct sim_segment *segment)
{
	struct sim_segment *next = segment->next;

	segment->size += next->size;
	segment->next = next->next;
	if (segment->next)
		segment->next->previous = segment;
	sim_mark_unref(next->busy);
	free(next);
}

// Drops the marks (mark.h) of work that has ended. Merges neighbouring free segments that no work uses any more.
static void merge_free(struct sim_pool *pool)
{
	for (struct sim_segment *segment = pool->segments; segment; segment = segment->next) {
		if (segment->used)
			continue;
		if (segment->busy && sim_mark_is_done(segment->busy)) {
			sim_mark_unref(segment->busy);
			segment->busy = NULL;
		}
		struct sim_segment *before = segment->previous;
		if (before && !before->used && !before->busy && !segment->busy) {
			merge_next(before);
			segment = before;
		}
	}
}

void sim_pool_trim(struct sim_pool *pool, size_t keep)
{
	merge_free(pool);
	for (size_t i = pool->chunk_count; i-- > 0 && pool->reserved > keep;)
		if (pool->chunks[i] && !is_chunk_used(pool, i))
			free_chunk(pool, i);
	if (pool->destroyed && pool->reserved == 0 && pool->range) {
		if (pool->exported >= 0)
			close(pool->exported);
		if (pool->memory >= 0)
			close(pool->memory);
		pool->exported = pool->memory = -1;
		for (struct sim_segment *segment = pool->segments, *next; segment; segment = next) {
			next = segment->next;
			free(segment);
		}
		pool->segments = NULL;
		free(pool->chunks);
		pool->chunks = NULL;
		pool->chunk_count = 0;
		sim_range_free(pool->range);
		// the struct is not freed, so that a later use of the handle finds that the pool has ended
		pool->range = NULL;
	}
}

struct sim_pool *sim_pool_find_imported(uint64_t uid)
{
	for (struct sim_pool *pool = pools; pool; pool = pool->next)
		if (pool->imports && !pool->destroyed && pool->uid == uid)
			return pool;
	return NULL;
}

void sim_pool_retire(struct sim_pool *pool)
{
	pool->destroyed = true;
	if (pool->device && pool->device->current_pool == pool)
		pool->device->current_pool = pool->device->default_pool;
	if (!pool->device)
		sim_pool_leave_locations(pool);
	sim_pool_trim(pool, 0);
}

// Splits a free segment after `size` bytes.
static void split_segment(struct sim_segment *segment, size_t size)
{
	struct sim_segment *rest;

	if (segment->size == size)
		return;
	rest = calloc(1, sizeof *rest);
	if (!rest)
		abort();
	rest->base = segment->base + size;
	rest->size = segment->size - size;
	rest->busy = sim_mark_ref(segment->busy);
	rest->stream = segment->stream;
	rest->previous = segment;
	rest->next = segment->next;
	if (rest->next)
		rest->next->previous = rest;
	segment->next = rest;
	segment->size = size;
}

static size_t count_missing_chunks(const struct sim_pool *pool, CUdeviceptr base, size_t size)
{
	size_t missing = 0;

	for (size_t i = (base - pool->range->base) / SIM_CHUNK; i <= (base + size - 1 - pool->range->base) / SIM_CHUNK;
	     i++)
		missing += !pool->chunks[i];
	return missing;
}

enum reuse { REUSE_NOW, REUSE_AFTER_WAIT };

// Finds the free segment for which the fewest chunks must be allocated. If several need equally few, finds the first.
// REUSE_AFTER_WAIT: also considers segments that work in another stream still uses.
static struct sim_segment *find_room(struct sim_pool *pool, size_t size, unsigned long long stream, enum reuse reuse)
{
	struct sim_segment *best = NULL;
	size_t best_missing = SIZE_MAX;

	for (struct sim_segment *segment = pool->segments; segment && best_missing; segment = segment->next) {
		if (segment->used || segment->size < size ||
		    (segment->busy && segment->stream != stream && reuse == REUSE_NOW))
			continue;
		size_t missing = count_missing_chunks(pool, segment->base, size);
		if (missing < best_missing) {
			best = segment;
			best_missing = missing;
		}
	}
	return best;
}

CUresult sim_pool_alloc(struct sim_pool *pool, size_t size, unsigned long long stream, CUdeviceptr *ret_address,
			struct sim_mark **ret_wait)
{
	size_t rounded = sim_round_up(size, 512);
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	struct sim_segment *segment;

	if (rounded == 0 || rounded > pool->range->size)
		return CUDA_ERROR_OUT_OF_MEMORY;
	merge_free(pool);
	segment = find_room(pool, rounded, stream, REUSE_NOW);
	if (segment)
		result = alloc_chunks(pool, segment->base, rounded);
	// Instead of failing, use a segment for which the stream must wait until another stream's work has ended.
	if (result == CUDA_ERROR_OUT_OF_MEMORY && pool->reuse_internal) {
		segment = find_room(pool, rounded, stream, REUSE_AFTER_WAIT);
		if (segment)
			result = alloc_chunks(pool, segment->base, rounded);
	}
	SIM_TRY(result);
	if (sim_pool_is_managed(pool))
		SIM_TRY(sim_host_pool_add(segment->base, size));
	split_segment(segment, rounded);
	*ret_wait = segment->busy && segment->stream != stream ? sim_mark_ref(segment->busy) : NULL;
	sim_mark_unref(segment->busy);
	segment->busy = NULL;
	segment->used = true;
	segment->asked = size;
	segment->id = sim_new_buffer_id();
	pool->used += size;
	if (pool->used > pool->used_high)
		pool->used_high = pool->used;
	*ret_address = segment->base;
	return CUDA_SUCCESS;
}

CUresult sim_pool_mark_used(struct sim_pool *pool, size_t offset, size_t size)
{
	CUdeviceptr base = pool->range->base + offset;
	struct sim_segment *segment;

	merge_free(pool);
	for (segment = pool->segments; segment; segment = segment->next)
		if (base - segment->base < segment->size)
			break;
	size_t rounded = sim_round_up(size, 512);
	// The pointer was imported before. For a pool in device memory, both imports count as one allocation, and one
	// free ends it.
	if (pool->device && segment && segment->used && segment->base == base && segment->asked == size)
		return CUDA_SUCCESS;
	if (!segment || segment->used || rounded > segment->size - (base - segment->base))
		return CUDA_ERROR_ALREADY_MAPPED;
	if (base > segment->base) {
		split_segment(segment, base - segment->base);
		segment = segment->next;
	}
	split_segment(segment, rounded);
	// `busy` may be the mark (mark.h) of work that used an earlier import of the pointer. The new import does not
	// wait for it.
	sim_mark_unref(segment->busy);
	segment->busy = NULL;
	segment->used = true;
	segment->asked = size;
	segment->id = sim_new_buffer_id();
	pool->used += size;
	return CUDA_SUCCESS;
}

static struct sim_segment *find_segment(struct sim_pool *pool, CUdeviceptr address)
{
	for (struct sim_segment *segment = pool->segments; segment; segment = segment->next)
		if (address - segment->base < segment->size)
			return segment->used ? segment : NULL;
	return NULL;
}

struct sim_segment *sim_pool_find_segment(CUdeviceptr address, struct sim_pool **ret_pool)
{
	struct sim_range *range = sim_range_find(address);

	if (!range || range->kind != SIM_RANGE_POOL)
		return NULL;
	struct sim_segment *segment = find_segment(range->owner, address);
	if (!segment || segment->base != address)
		return NULL;
	*ret_pool = range->owner;
	return segment;
}

void sim_pool_free_segment(struct sim_pool *pool, struct sim_segment *segment, struct sim_mark *busy,
			   unsigned long long stream)
{
	if (sim_pool_is_managed(pool))
		sim_host_pool_remove(segment->base);
	segment->used = false;
	segment->busy = sim_mark_ref(busy);
	segment->stream = stream;
	pool->used -= segment->asked;
	if (!pool->dirty)
		atomic_fetch_add(&dirty_pools, 1);
	pool->dirty = true;
}

bool sim_pool_find_pointer(struct sim_range *range, CUdeviceptr address, struct sim_pointer *ret_pointer)
{
	struct sim_segment *segment = find_segment(range->owner, address);
	const struct sim_pool *pool = range->owner;

	if (!segment || address - segment->base >= segment->asked)
		return false;
	ret_pointer->host_access = !pool->device;
	ret_pointer->managed = sim_pool_is_managed(pool);
	if (!pool->device && !ret_pointer->managed)
		ret_pointer->type = CU_MEMORYTYPE_HOST;
	ret_pointer->base = segment->base;
	ret_pointer->size = segment->asked;
	ret_pointer->buffer_id = segment->id;
	return true;
}

CUmemoryPool sim_pool_handle_of(struct sim_range *range)
{
	return range->owner;
}

bool sim_pool_free_pointer(CUdeviceptr address)
{
	struct sim_pool *pool;

	sim_memory_lock();
	struct sim_segment *segment = sim_pool_find_segment(address, &pool);
	if (segment) {
		sim_pool_free_segment(pool, segment, NULL, 0);
		sim_pool_trim(pool, pool->threshold);
	}
	sim_memory_unlock();
	return segment != NULL;
}

CUresult sim_pool_trim_all(struct sim_device *device)
{
	for (struct sim_pool *pool = pools; pool; pool = pool->next)
		if (pool->device == device && pool->range)
			sim_pool_trim(pool, 0);
	return CUDA_SUCCESS;
}

void sim_pool_apply_thresholds(struct sim_context *context)
{
	if (atomic_load_explicit(&dirty_pools, memory_order_relaxed) == 0)
		return;
	sim_memory_lock();
	for (struct sim_pool *pool = pools; pool; pool = pool->next) {
		if (!pool->dirty || !pool->range)
			continue;
		bool busy = false;
		sim_pool_trim(pool, pool->destroyed ? 0 : pool->threshold);
		for (struct sim_segment *segment = pool->segments; segment && !busy; segment = segment->next)
			busy = segment->busy != NULL;
		if (!busy) {
			pool->dirty = false;
			atomic_fetch_sub(&dirty_pools, 1);
		}
	}
	sim_memory_unlock();
}
