// Declares memory pools (pool*.c). All functions need the memory lock, except where a comment says otherwise. A pool is
// a range of addresses. Its allocations and free gaps are segments. Physical memory is allocated in parts of 32 MiB,
// the chunks, for those parts of the range that an allocation uses.
#pragma once

#include "memory.h"

#define SIM_CHUNK (32 * SIM_MIB)
enum { SIM_POOL_MAGIC = 0x504f4f32 };

struct sim_segment {
	CUdeviceptr base;
	size_t size, asked;
	unsigned long long id;
	bool used;
	// For a free segment: the mark (mark.h) of work that may still use the memory. A stream other than `stream`
	// must wait for the mark before it uses the segment. NULL: no work uses the memory.
	struct sim_mark *busy;
	unsigned long long stream;
	struct sim_segment *next, *previous; // neighbours by address, without gaps
};

struct sim_pool {
	uint32_t magic;
	struct sim_device *device; // NULL: the pool is in host memory
	// for a pool in host memory: descriptor of the file that contains its memory; -1: none yet
	int memory;
	CUmemPoolProps properties;
	struct sim_range *range;
	struct sim_segment *segments;
	struct sim_mapping **chunks; // an element for each 32 MiB of the range; NULL: no physical memory
	size_t chunk_count;
	cuuint64_t threshold, used, used_high, reserved, reserved_high;
	int reuse_events, reuse_opportunistic, reuse_internal;
	unsigned char access[SIM_DEVICES];
	bool destroyed, dirty;
	// the location in host memory that has this pool as its default pool; or NULL
	struct sim_pool_location *location;
	unsigned imports; // how often this process has imported the pool; 0: the pool is its own
	int exported;	  // descriptor of the file that tells importers where the chunks are; or -1
	uint64_t uid;
	struct sim_pool *next;
};

CUresult sim_pool_get(CUmemoryPool handle, struct sim_pool **ret_pool);
CUresult sim_pool_new(struct sim_device *device, const CUmemPoolProps *properties, size_t size,
		      struct sim_pool **ret_pool);
// Frees unused chunks until at most `keep` bytes are reserved.
void sim_pool_trim(struct sim_pool *pool, size_t keep);
// Destroys the handle of a pool. The pool itself ends with its last allocation.
void sim_pool_retire(struct sim_pool *pool);
// Allocates memory from a pool for a stream. *ret_wait: a reference to the mark (mark.h) for which the stream must wait
// before it uses the memory; or NULL.
CUresult sim_pool_alloc(struct sim_pool *pool, size_t size, unsigned long long stream, CUdeviceptr *ret_address,
			struct sim_mark **ret_wait);
// Returns the allocation that begins at exactly this address. NULL: not found.
struct sim_segment *sim_pool_find_segment(CUdeviceptr address, struct sim_pool **ret_pool);
void sim_pool_free_segment(struct sim_pool *pool, struct sim_segment *segment, struct sim_mark *busy,
			   unsigned long long stream);
// Returns the struct of a pool that this process has imported. NULL: it has not imported the pool.
struct sim_pool *sim_pool_find_imported(uint64_t uid);
// Allocates the segment at this offset of the range, because the program imports a pointer to it.
CUresult sim_pool_mark_used(struct sim_pool *pool, size_t offset, size_t size);
// Returns memory for a chunk: memory of the device, or a part of the pool's host memory.
CUresult sim_pool_chunk_memory(struct sim_pool *pool, size_t chunk, struct sim_physical **ret_physical);
// Maps physical memory as a chunk of the pool.
CUresult sim_pool_map_chunk(struct sim_pool *pool, size_t chunk, struct sim_physical *physical);
struct sim_pool *sim_pool_default(struct sim_device *device); // NULL: no addresses are left
// For a pool in host memory: creates the file that contains the pool's memory, and stores its descriptor in
// pool->memory. Does nothing if the file exists. May return CUDA_ERROR_OUT_OF_MEMORY.
CUresult sim_pool_create_descriptor(struct sim_pool *pool);
// Checks that memory of a type can be at a location. Returns the location. Its id is 0 if the kind of location needs
// none.
CUresult sim_pool_check_location(const CUmemLocation *location, CUmemAllocationType type, CUmemLocation *ret_location);
enum sim_pool_role { SIM_POOL_DEFAULT, SIM_POOL_CURRENT };
CUresult sim_pool_get_of_device(CUmemoryPool *ret_pool, CUdevice device, enum sim_pool_role role);
CUresult sim_pool_set_device(CUdevice device, CUmemoryPool pool);
bool sim_pool_is_managed(const struct sim_pool *pool);
// Makes sure that the pool is not the current pool of a location in host memory any more. Defined in pool_location.c.
void sim_pool_leave_locations(struct sim_pool *pool);
bool sim_pool_find_pointer(struct sim_range *range, CUdeviceptr address, struct sim_pointer *ret_pointer);
CUmemoryPool sim_pool_handle_of(struct sim_range *range);

// ---- without the memory lock ----

// Frees an allocation of a pool for cuMemFree. Returns false if no pool has an allocation at the address.
bool sim_pool_free_pointer(CUdeviceptr address);
// Frees all unused chunks of the device's pools, because memory is short.
CUresult sim_pool_trim_all(struct sim_device *device);
// Frees unused memory of pools beyond their release thresholds. Call it after the host has waited for work of the
// context.
void sim_pool_apply_thresholds(struct sim_context *context);
