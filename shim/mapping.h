// Handles of physical memory (cuMemCreate), and where it is mapped. Any thread.
#pragma once
#include "shim/physical.h"

// Stores the handle that a successful create or import returned, for memory of which `bytes` are charged. If that
// fails, releases the handle and refunds the charge.
CUresult shim_handle_store(CUmemGenericAllocationHandle handle, enum vg_ledger_kind kind, uint64_t bytes);
// Stores the handle of existing memory; takes over the reference.
CUresult shim_handle_store_physical(CUmemGenericAllocationHandle handle, struct shim_physical *physical);
// With shim_physical_lock held: the same, but takes no reference over. Returns -ENOMEM on failure.
int shim_handle_store_locked(CUmemGenericAllocationHandle handle, struct shim_physical *physical);
// Returns the memory behind a handle with a new reference and stores its bytes. NULL: not memory that is charged here.
struct shim_physical *shim_handle_find(CUmemGenericAllocationHandle handle, uint64_t *ret_bytes);

// Stores a mapping; takes over the reference. Returns false if host memory ran out.
bool shim_mapping_add(CUdeviceptr address, uint64_t size, struct shim_physical *physical);
struct shim_mapping {
	CUdeviceptr address;
	uint64_t size;
	struct shim_physical *physical; // with a reference
};
// Removes the mappings that begin in a range. Returns their number; the caller frees the array.
size_t shim_mappings_remove(CUdeviceptr address, size_t size, struct shim_mapping **ret_removed);
// Puts removed mappings back, because the driver failed to unmap them.
void shim_mappings_restore(const struct shim_mapping *removed, size_t count);
// Returns the memory that is mapped at an address. With shim_physical_lock held.
struct shim_physical *shim_mapping_at(CUdeviceptr address);
// Returns the memory that is mapped in all of a range, if one mapping covers it, with a new reference.
struct shim_physical *shim_mapping_find(CUdeviceptr address, uint64_t size, uint64_t *ret_bytes);

// Pins the memory behind a handle, or the memory mapped at an address (shim_physical_pin). Does nothing for memory that
// is not charged here.
void shim_pin(CUmemGenericAllocationHandle handle, uint64_t owner, uint64_t offset);
void shim_pin_address(CUdeviceptr address, uint64_t owner, uint64_t offset);
// Returns the owner of what is bound to a multicast object; the object's last reference unpins that. The handle would
// not do: its number may come to mean another object while mappings of this one exist.
uint64_t shim_multicast_owner(CUmemGenericAllocationHandle multicast);
