// Keeps the mappings: the addresses at which the memory of handles (pager/handle.h) is mapped. Callers are inside the
// gate, but any thread may call pager_mapping_find() and pager_mapping_can_leave() at any time.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pager/driver.h"

struct pager_handle;

struct pager_mapping {
	CUdeviceptr address;
	size_t size, offset;
	uint64_t number;	     // CU_POINTER_ATTRIBUTE_BUFFER_ID
	struct pager_handle *handle; // the mapping is a holder of this handle
	struct pager_mapping *next;  // next mapping of the same handle
	// False: the driver has no mapping at this address, because the memory is in the host, or because the driver
	// unmapped the memory but failed to release it.
	bool is_mapped;
	unsigned long long access; // access rights of the device while the memory is in the host: CUmemAccess_flags
};

// One mapping, as callers see it.
struct pager_mapped {
	CUdeviceptr begin;
	size_t size;
	uint64_t number;
};

// Map and unmap memory like the driver's calls, with the same results. `handle` is a number of pager/handle.h. If the
// driver unmaps memory but fails to release it, the mapping stays, and pager_mapping_remove() can be called again.
CUresult pager_mapping_add(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
			   unsigned long long flags);
CUresult pager_mapping_remove(CUdeviceptr address, size_t size);
// Finds the first mapping that ends after `address` and begins before `end`. Describes the mapping in *ret_mapped, and
// holds its memory until pager_handle_drop(). Returns NULL if no mapping is found.
struct pager_handle *pager_mapping_hold(CUdeviceptr address, CUdeviceptr end, struct pager_mapped *ret_mapped);
bool pager_mapping_find(CUdeviceptr address, struct pager_mapped *ret_mapped);
// Returns whether any memory mapped between two addresses can leave the device.
bool pager_mapping_can_leave(CUdeviceptr address, CUdeviceptr end);
// Tells the thread sanitizer in which order threads access handles and mappings. The pager calls this before and after
// it accesses them without locks. The gate already orders these accesses, but the sanitizer does not see that, because
// the gate is partly in assembler. It sees the locks that this function takes.
void pager_mapping_order(void);
