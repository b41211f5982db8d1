// Memory pools (pool*.c). All functions need the memory lock, except where a comment says otherwise. A pool is one
// range of addresses, cut into segments. The range consists of parts of 32 MiB. A part gets physical memory, called a
// chunk, when a used segment touches the part.
#pragma once

#include "memory.h"

#define SIM_CHUNK (32 * SIM_MIB)
enum { SIM_POOL_MAGIC = 0x504f4f32 };

struct sim_segment {
	CUdeviceptr base;
	size_t size, asked;
	unsigned long long id;
	bool used;
	// In a free segment: the mark for which streams other than `stream` must wait before they use the segment; or
	// NULL.
	struct sim_mark *busy;
	unsigned long long stream;
	struct sim_segment *next, *previous; // neighbours by address, without gaps
};

struct sim_pool {
	uint32_t magic;
	struct sim_device *device; // NULL: the pool is in host memory
	int memory;		   // descriptor of all memory of a pool in host memory; -1: none yet
	CUmemPoolProps properties;
	struct sim_range *range;
	struct sim_segment *segments;
	struct sim_mapping **chunks; // one for each 32 MiB; NULL: the part has no memory
	size_t chunk_count;
	cuuint64_t threshold, used, used_high, reserved, reserved_high;
	int reuse_events, reuse_opportunistic, reuse_internal;
	unsigned char access[SIM_DEVICES];
	bool destroyed, dirty;
	struct sim_pool_location *location; // location of a default pool in host memory
	unsigned imports; // number of imports of the pool, each of which must be destroyed; 0: a pool of this process
	int exported;	  // descriptor that tells importers where the chunks are; or -1
	uint64_t uid;
	struct sim_pool *next;
};

CUresult sim_pool_get(CUmemoryPool handle, struct sim_pool **ret_pool);
CUresult sim_pool_new(struct sim_device *device, const CUmemPoolProps *properties, size_t size,
		      struct sim_pool **ret_pool);
// Frees unused chunks until at most `keep` bytes are reserved.
void sim_pool_trim(struct sim_pool *pool, size_t keep);
// Destroys the handle. The pool is freed with its last allocation.
void sim_pool_retire(struct sim_pool *pool);
// Allocates memory. *ret_wait: a reference to the mark to wait for before the memory is used, or NULL.
CUresult sim_pool_alloc(struct sim_pool *pool, size_t size, unsigned long long stream, CUdeviceptr *ret_address,
			struct sim_mark **ret_wait);
// Returns the used segment at exactly this address, or NULL.
struct sim_segment *sim_pool_find_segment(CUdeviceptr address, struct sim_pool **ret_pool);
void sim_pool_free_segment(struct sim_pool *pool, struct sim_segment *segment, struct sim_mark *busy,
			   unsigned long long stream);
// Returns this process's struct for an imported pool, or NULL.
struct sim_pool *sim_pool_find_imported(uint64_t uid);
// Marks the segment at an offset of the range as used, when a pointer is imported.
CUresult sim_pool_mark_used(struct sim_pool *pool, size_t offset, size_t size);
// Returns memory for a chunk: memory of the device, or a part of the pool's host memory.
CUresult sim_pool_chunk_memory(struct sim_pool *pool, size_t chunk, struct sim_physical **ret_physical);
// Maps memory as a chunk.
CUresult sim_pool_map_chunk(struct sim_pool *pool, size_t chunk, struct sim_physical *physical);
struct sim_pool *sim_pool_default(struct sim_device *device); // NULL: no addresses are left
// Creates the descriptor of a pool in host memory, unless it exists. CUDA_ERROR_OUT_OF_MEMORY.
CUresult sim_pool_create_descriptor(struct sim_pool *pool);
// Checks that memory of a type can be at a location. Returns the location with id 0 if its id means nothing.
CUresult sim_pool_check_location(const CUmemLocation *location, CUmemAllocationType type, CUmemLocation *ret_location);
enum sim_pool_role { SIM_POOL_DEFAULT, SIM_POOL_CURRENT };
CUresult sim_pool_get_of_device(CUmemoryPool *ret_pool, CUdevice device, enum sim_pool_role role);
CUresult sim_pool_set_device(CUdevice device, CUmemoryPool pool);
bool sim_pool_is_managed(const struct sim_pool *pool);
// Makes the pool no longer the current pool of any location in host memory. Defined in pool_location.c.
void sim_pool_leave_locations(struct sim_pool *pool);
bool sim_pool_find_pointer(struct sim_range *range, CUdeviceptr address, struct sim_pointer *ret_pointer);
CUmemoryPool sim_pool_handle_of(struct sim_range *range);

// ---- without the memory lock ----

// Frees a pool's pointer for cuMemFree. Returns false if no allocation starts there.
bool sim_pool_free_pointer(CUdeviceptr address);
// Frees all unused chunks of the device's pools, because memory is short.
CUresult sim_pool_trim_all(struct sim_device *device);
// Frees the memory that the release thresholds do not keep. Called after the host has waited for work of the context.
void sim_pool_apply_thresholds(struct sim_context *context);
