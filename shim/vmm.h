// Physical memory of the virtual memory management calls: it lives until the last of its
// handles, mappings and bindings has gone, and so does its charge. Any thread.
#pragma once
#include "shim/charge.h"

struct shim_physical;

// Holds the physical memory behind `handle` for `owner` (a sparse array, a multicast object)
// at `offset`, until shim_unpin. Handles we do not charge for are passed over.
void shim_pin(CUmemGenericAllocationHandle handle, uint64_t owner, uint64_t offset);
// The same for the memory mapped at `address`.
void shim_pin_address(CUdeviceptr address, uint64_t owner, uint64_t offset);
void shim_unpin(uint64_t owner, uint64_t offset);
void shim_unpin_all(uint64_t owner);
