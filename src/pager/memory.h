// Evictable allocations by address. Each is a range of reserved addresses with physical memory mapped at it, in chunks
// that can be released and made again. Whoever allocates or frees is inside the gate (pager/gate.h), so that the pager
// moves nothing meanwhile; find functions are for any thread at any time.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "pager/driver.h"

enum { PAGER_CHUNK = 128 << 20 };

struct pager_chunk {
	CUmemGenericAllocationHandle handle; // while on the device
	void *host;			     // where its bytes are in the host; NULL: on the device alone
	bool on_device;
};

struct pager_allocation {
	CUdeviceptr base;
	size_t asked; // bytes
	size_t size;  // a multiple of 2 MiB
	CUcontext context;
	uint64_t number; // CU_POINTER_ATTRIBUTE_BUFFER_ID
	bool sync_memops;
	struct pager_allocation *next; // to be freed later
	size_t chunk_count;
	struct pager_chunk chunks[];
};

// What the driver would tell about an allocation.
struct pager_range {
	CUdeviceptr base;
	size_t asked;
	CUcontext context;
	uint64_t number;
	bool sync_memops;
};

// The context is current. CUDA_SUCCESS, CUDA_ERROR_OUT_OF_MEMORY, or what the driver says.
CUresult pager_memory_allocate(size_t bytes, CUcontext context, CUdeviceptr *ret_address);
// Frees the allocation that begins at `address`; false: there is none. Waits for the work of its context first, as
// cuMemFree does, unless `wait` is false. While a stream is being captured nothing may wait: pass `later`, and
// pager_memory_free_rest() frees it.
bool pager_memory_free(CUdeviceptr address, bool wait, bool later);
// Frees what had to be freed later, and returns how many bytes that were. No stream is being captured.
uint64_t pager_memory_free_rest(void);
bool pager_memory_find(CUdeviceptr address, struct pager_range *ret_range);
// Remembers CU_POINTER_ATTRIBUTE_SYNC_MEMOPS. False: no such allocation.
bool pager_memory_set_sync(CUdeviceptr address, bool sync);
// Of all memory that can leave, with that of handles (pager/handle.h).
uint64_t pager_memory_bytes(void);

// For the pager, with the gate closed. Sorted by address; valid until the gate opens.
struct pager_allocation **pager_memory_list(size_t *ret_count);
static inline size_t pager_chunk_bytes(size_t size, size_t index)
{
	size_t begin = index * PAGER_CHUNK;

	return size - begin < PAGER_CHUNK ? size - begin : PAGER_CHUNK;
}
static inline size_t pager_chunk_size(const struct pager_allocation *allocation, size_t index)
{
	return pager_chunk_bytes(allocation->size, index);
}
CUresult pager_chunk_create(const struct pager_allocation *allocation, size_t index,
			    CUmemGenericAllocationHandle *ret_handle);
// Makes what is mapped at the allocation accessible.
CUresult pager_allocation_open(const struct pager_allocation *allocation);
