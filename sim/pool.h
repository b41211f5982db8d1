// Memory pools from inside. Under the memory lock.
//
// A pool is one range of addresses, cut into segments. Physical memory comes in chunks of
// 32 MiB at fixed places of the range, when a segment in use touches them.
#pragma once

#include "memory.h"

#define SIM_CHUNK (32 * SIM_MIB)
enum { SIM_POOL_MAGIC = 0x504f4f32 };

struct sim_segment {
	CUdeviceptr base;
	size_t size, asked;
	unsigned long long id;
	bool used;
	// A free segment: what must be done before anybody but `stream` may have it; NULL: free for all.
	struct sim_mark *busy;
	unsigned long long stream;
	struct sim_segment *next, *previous; // by address, without gaps
};

struct sim_pool {
	uint32_t magic;
	struct sim_device *device; // NULL: in host memory
	int memory; // of a pool in host memory: the descriptor of all of it, once there is some, -1
	CUmemPoolProps properties;
	struct sim_range *range;
	struct sim_segment *segments;
	struct sim_mapping **chunks; // one a place, NULL: no memory there
	size_t chunk_count;
	cuuint64_t threshold, used, used_high, reserved, reserved_high;
	int reuse_events, reuse_opportunistic, reuse_internal;
	unsigned char access[SIM_DEVICES];
	bool destroyed, dirty;
	struct sim_pool_place *place; // of a default pool in host memory
	unsigned imports; // how often it was imported, and is to be destroyed; 0: a pool of our own
	int exported; // the descriptor that tells importers where the chunks are, -1
	uint64_t uid;
	struct sim_pool *next;
};

CUresult sim_pool_get(CUmemoryPool handle, struct sim_pool **ret_pool);
CUresult sim_pool_new(struct sim_device *device, const CUmemPoolProps *properties, size_t size,
		      struct sim_pool **ret_pool);
// Gives back chunks that nothing uses until at most `keep` bytes are reserved.
void sim_pool_trim(struct sim_pool *pool, size_t keep);
// No handle any more: goes with its last allocation.
void sim_pool_retire(struct sim_pool *pool);
// Finds room. *ret_wait: to be waited for before use (a reference), or NULL.
CUresult sim_pool_take(struct sim_pool *pool, size_t size, unsigned long long stream, CUdeviceptr *ret_address,
		       struct sim_mark **ret_wait);
// A used segment at exactly this address, or NULL.
struct sim_segment *sim_pool_segment(CUdeviceptr address, struct sim_pool **ret_pool);
void sim_pool_give(struct sim_pool *pool, struct sim_segment *segment, struct sim_mark *busy,
		   unsigned long long stream);
// What has been imported of this pool already, or NULL.
struct sim_pool *sim_pool_imported(uint64_t uid);
// Importing: the segment at this place of the range becomes used.
CUresult sim_pool_claim(struct sim_pool *pool, size_t offset, size_t size);
// Memory for a chunk: the device's, or a piece of the pool's in host memory.
CUresult sim_pool_chunk_memory(struct sim_pool *pool, size_t chunk, struct sim_physical **ret_physical);
// Puts memory behind one chunk.
CUresult sim_pool_chunk(struct sim_pool *pool, size_t chunk, struct sim_physical *physical);
struct sim_pool *sim_pool_default(struct sim_device *device); // NULL: no addresses left
// A pool in host memory: its descriptor, made when first needed. CUDA_ERROR_OUT_OF_MEMORY.
CUresult sim_pool_memory(struct sim_pool *pool);
// Checks where memory of a type can be; the location as pools know it: an id that means nothing is 0.
CUresult sim_pool_location(const CUmemLocation *location, CUmemAllocationType type, CUmemLocation *ret_location);
CUresult sim_pool_of_device(CUmemoryPool *ret_pool, CUdevice device, bool current);
CUresult sim_pool_set_device(CUdevice device, CUmemoryPool pool);
bool sim_pool_managed(const struct sim_pool *pool);
// The pool is no longer the current one of any place of host memory (pool_place.c).
void sim_pool_place_leave(struct sim_pool *pool);
