// Where the memory of handles (pager/handle.h) is mapped, by address. Whoever maps, unmaps or retains is inside the gate;
// pager_mapping_find() and pager_mapping_can_leave() are for any thread at any time.
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
	bool is_mapped;		     // false while the memory is away
	unsigned long long access;   // of the device, kept for that time: CUmemAccess_flags
};

// What is mapped at an address.
struct pager_mapped {
	CUdeviceptr begin;
	size_t size;
	uint64_t number;
};

// These do what the driver's calls do, with its results. The handle is a number.
CUresult pager_mapping_add(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
			   unsigned long long flags);
CUresult pager_mapping_remove(CUdeviceptr address, size_t size);
// Holds the memory of the first mapping that ends behind `address` and begins before `end`, and says where that is.
// NULL: there is none.
struct pager_handle *pager_mapping_hold(CUdeviceptr address, CUdeviceptr end, struct pager_mapped *ret_mapped);
bool pager_mapping_find(CUdeviceptr address, struct pager_mapped *ret_mapped);
// Whether any of the memory mapped between two addresses can leave the device.
bool pager_mapping_can_leave(CUdeviceptr address, CUdeviceptr end);
// For the pager, before and after it reads and writes handles and mappings without their locks. The gate orders that
// already, but the thread sanitizer does not see the gate's assembly code. It sees the locks that this takes and gives.
void pager_mapping_order(void);
