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

// One holder more, of memory of so many bytes, and one fewer. NULL: not memory that we charge for.
struct shim_physical *shim_physical_hold(CUmemGenericAllocationHandle handle, uint64_t *ret_bytes);
void shim_physical_drop(struct shim_physical *physical);
// Whether one of the holders stands for all of its descriptors.
void shim_physical_exported(struct shim_physical *physical, bool now);
