// Keeps handles of physical memory (cuMemCreate), and the addresses at which the memory is mapped. Any thread.
#pragma once
#include "shim/physical.h"

// Stores the handle that a successful create or import returned. `bytes` are charged for its memory. On failure,
// releases the handle and refunds the charge.
CUresult shim_handle_store(CUmemGenericAllocationHandle handle, enum vg_ledger_kind kind, uint64_t bytes);
// Stores a handle of existing memory; takes over the caller's reference.
CUresult shim_handle_store_physical(CUmemGenericAllocationHandle handle, struct shim_physical *physical);
// Stores a handle of existing memory, but leaves the reference to the caller. Call it with shim_physical_lock held.
// Returns -ENOMEM on failure.
int shim_handle_store_locked(CUmemGenericAllocationHandle handle, struct shim_physical *physical);
// Returns the memory of a handle with a new reference, and stores its bytes. NULL: this process is not charged for the
// memory of the handle.
struct shim_physical *shim_handle_find(CUmemGenericAllocationHandle handle, uint64_t *ret_bytes);

// Stores a mapping; takes over the caller's reference. Returns false if host memory ran out.
bool shim_mapping_add(CUdeviceptr address, uint64_t size, struct shim_physical *physical);
struct shim_mapping {
	CUdeviceptr address;
	uint64_t size;
	struct shim_physical *physical; // the mapping holds a reference
};
// Removes the mappings that begin in a range. Returns their number; the caller frees the array.
size_t shim_mappings_remove(CUdeviceptr address, size_t size, struct shim_mapping **ret_removed);
// Stores removed mappings again, because the driver failed to unmap them.
void shim_mappings_restore(const struct shim_mapping *removed, size_t count);
// Returns the memory that is mapped at an address. Call it with shim_physical_lock held.
struct shim_physical *shim_mapping_at(CUdeviceptr address);
// Returns the memory of the mapping that covers a whole range, with a new reference. NULL: no single mapping covers the
// range.
struct shim_physical *shim_mapping_find(CUdeviceptr address, uint64_t size, uint64_t *ret_bytes);

// shim_pin() keeps the memory of a handle allocated while a sparse array or a multicast object uses it
// (shim_physical_pin()). shim_pin_address() does so for the memory that is mapped at an address. `owner` and `offset`
// identify the pin, so that it can be removed. Memory that is not charged to this process is ignored.
void shim_pin(CUmemGenericAllocationHandle handle, uint64_t owner, uint64_t offset);
void shim_pin_address(CUdeviceptr address, uint64_t owner, uint64_t offset);
// Returns the `owner` to pass to shim_pin() for memory that is bound to a multicast object. The pins end with the
// object's last reference. The owner is not the handle, because the driver may reuse the handle while mappings of the
// object still exist. If the handle has no record, returns the handle.
uint64_t shim_multicast_owner(CUmemGenericAllocationHandle multicast);
