// Manages evictable allocations, and finds them by address. An allocation is a range of reserved addresses. Physical
// memory is mapped at the range in chunks that can be released and created again. Allocate and free inside the gate
// (pager/gate.h), so that the pager moves nothing meanwhile. Any thread may call the find functions at any time.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "pager/driver.h"
#include "pager/room.h"

enum { PAGER_CHUNK = 128 << 20 };

struct pager_chunk {
	CUmemGenericAllocationHandle handle; // 0: the chunk has no memory on the device
	bool is_mapped, is_open;	     // is_open: accessible
	// True: the chunk's bytes are in the host; the device memory, if any, is not valid.
	bool is_away;
	struct pager_room room;
};

struct pager_allocation {
	CUdeviceptr base;
	size_t asked; // bytes that the program requested
	size_t size;  // size of the range, a multiple of 2 MiB
	CUcontext context;
	uint64_t number; // CU_POINTER_ATTRIBUTE_BUFFER_ID
	bool sync_memops;
	struct pager_allocation *next; // the next one in the list of allocations to free later
	size_t chunk_count;
	struct pager_chunk chunks[];
};

// The properties of an allocation that the driver's query functions return.
struct pager_range {
	CUdeviceptr base;
	size_t asked;
	CUcontext context;
	uint64_t number;
	bool sync_memops;
};

// Allocates memory in `context`, which must be current. Returns CUDA_SUCCESS, CUDA_ERROR_OUT_OF_MEMORY, or the driver's
// error.
CUresult pager_memory_allocate(size_t bytes, CUcontext context, CUdeviceptr *ret_address);
// Frees the allocation that begins at `address`. Returns CUDA_ERROR_INVALID_VALUE if no allocation begins there. After
// any other error of the driver, the allocation still exists. `wait`: first waits for the work of the context, as
// cuMemFree does. `later`: only adds the allocation to the list for pager_memory_free_rest(), because the caller must
// not wait while a stream is being captured.
CUresult pager_memory_free(CUdeviceptr address, bool wait, bool later);
// Frees the allocations that were to be freed later, and returns their bytes. No stream may be under capture.
uint64_t pager_memory_free_rest(void);
bool pager_memory_find(CUdeviceptr address, struct pager_range *ret_range);
// Sets the attribute CU_POINTER_ATTRIBUTE_SYNC_MEMOPS of an allocation to `sync`. Returns false if there is no such
// allocation.
bool pager_memory_set_sync(CUdeviceptr address, bool sync);
// Returns the bytes of all memory that can leave the device, including handles (pager/handle.h).
uint64_t pager_memory_bytes(void);
// Returns how many bytes that can leave have no room in the host. Only the pager's thread calls this.
uint64_t pager_memory_roomless(void);
// Gives back the rooms of memory that is on the device, including handles. Only the pager's thread calls this.
void pager_memory_forget_copies(void);

// Returns all allocations, sorted by address. For the pager, while the gate is closed; valid until the gate opens.
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
// Create or map the memory of a chunk. They do nothing for a chunk that has memory on the device, or is mapped.
CUresult pager_chunk_create(struct pager_allocation *allocation, size_t index);
CUresult pager_chunk_map(struct pager_allocation *allocation, size_t index);
// Unmaps and releases the memory of a chunk, as far as it was created and mapped.
CUresult pager_chunk_release(struct pager_allocation *allocation, size_t index);
// Makes the mapped memory of a chunk accessible.
CUresult pager_chunk_open(struct pager_allocation *allocation, size_t index);

// The location of device memory in driver calls: the only device of the vGPU.
extern const CUmemLocation pager_location __attribute__((visibility("hidden")));
// Sets the access rights of the device to mapped addresses.
CUresult pager_set_access(CUdeviceptr address, size_t size, CUmemAccess_flags flags);
