// Where the memory of handles (pager/handle.h) is mapped, by address. Callers are inside the gate, but any thread may
// call pager_mapping_find() and pager_mapping_can_leave() at any time.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pager/driver.h"

struct pager_handle;

struct pager_mapping {
	CUdeviceptr address;
	size_t size, offset;
	uint64_t number; // CU_POINTER_ATTRIBUTE_BUFFER_ID
	struct pager_handle *handle; // which it holds
	struct pager_mapping *next;  // of the same handle
	bool is_mapped;		     // false while the memory is away, or after a removal that failed half-way
	unsigned long long access;   // of the device, kept for that time: CUmemAccess_flags
};

// One mapping, as callers see it.
struct pager_mapped {
	CUdeviceptr begin;
	size_t size;
	uint64_t number;
};

// These do what the driver's calls do, with its results. The handle is a number. If the driver unmaps memory, but does
// not release it, the mapping stays, and pager_mapping_remove() can be called again.
CUresult pager_mapping_add(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
			   unsigned long long flags);
CUresult pager_mapping_remove(CUdeviceptr address, size_t size);
// Finds the first mapping that ends behind `address` and begins before `end`, describes it in *ret_mapped, and keeps
// its memory until pager_handle_drop(). Returns NULL if no mapping is found.
struct pager_handle *pager_mapping_hold(CUdeviceptr address, CUdeviceptr end, struct pager_mapped *ret_mapped);
bool pager_mapping_find(CUdeviceptr address, struct pager_mapped *ret_mapped);
// Returns whether any memory mapped between two addresses can leave the device.
bool pager_mapping_can_leave(CUdeviceptr address, CUdeviceptr end);
// For the pager, before and after it reads and writes handles and mappings without their locks. The gate orders that
// already, but the thread sanitizer does not see the gate's assembly code. It sees the locks that this takes and gives.
void pager_mapping_order(void);
