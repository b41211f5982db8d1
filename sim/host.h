// Declares pinned and managed memory (host.c, managed.c). Any thread; the functions take their own lock.
#pragma once

#include "memory.h"

enum sim_host_kind {
	SIM_HOST_ALLOCATED,
	SIM_HOST_REGISTERED,
	SIM_HOST_MANAGED,
	SIM_HOST_POOL, // an allocation of a managed pool
};

struct sim_host {
	uintptr_t base;
	size_t size; // as requested
	enum sim_host_kind kind;
	unsigned flags;
	struct sim_context *context;
	unsigned long long buffer_id;
	bool read_mostly;
	CUmemLocation preferred, prefetched;
	uint32_t accessed_by; // a bit for each device that CU_MEM_ADVISE_SET_ACCESSED_BY named; bit 31: the host
};

CUresult sim_managed_alloc(struct sim_context *context, size_t size, unsigned flags, CUdeviceptr *ret_address);
CUresult sim_host_free(uintptr_t base, enum sim_host_kind kind);
void sim_host_context_finish(struct sim_context *context);
bool sim_host_find(uintptr_t address, struct sim_pointer *ret_pointer);
bool sim_host_has_managed(void); // whether managed memory of any kind exists
// Calls `change` with the managed memory that contains [address, address + size). Returns false if no memory was found.
bool sim_host_update(uintptr_t address, size_t size, void (*change)(struct sim_host *host, void *data), void *data);
// Adds an allocation from a managed pool, so that cuMemAdvise works on it as on other managed memory.
CUresult sim_host_pool_add(uintptr_t base, size_t size);
void sim_host_pool_remove(uintptr_t base);
// Translates an address of pinned or managed memory for kernels. The PTX interpreter calls it as the member `other` of
// struct ptx_space.
void *sim_host_translate(void *device, uint64_t address, size_t length, bool write);

enum sim_host_cover {
	SIM_HOST_NONE,	// the range begins in pageable memory; its end may be in registered memory (cuMemHostRegister)
	SIM_HOST_WHOLE, // the range is inside one allocation, or inside one registered range
	SIM_HOST_PART,	// the range begins inside an allocation or a registered range, and ends outside of it
};
enum sim_host_cover sim_host_cover(uintptr_t first, size_t length);
