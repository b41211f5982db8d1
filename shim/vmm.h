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

// Memory that has no handle, and what is charged for it already. NULL: no memory here.
struct shim_physical *shim_physical_new(enum vg_ledger_kind kind, uint64_t bytes);
// One holder more, of memory of so many bytes, and one fewer. NULL: not memory that we charge for.
struct shim_physical *shim_physical_hold(CUmemGenericAllocationHandle handle, uint64_t *ret_bytes);
void shim_physical_hold_again(struct shim_physical *physical);
void shim_physical_drop(struct shim_physical *physical);
// The memory that is mapped at all of a range, if it is one piece, with one holder more.
struct shim_physical *shim_physical_hold_range(CUdeviceptr address, uint64_t size, uint64_t *ret_bytes);
// The same of the allocation at an address (a small one's block), which from now on is one holder of its memory. NULL:
// there is none.
struct shim_physical *shim_physical_lend(CUdeviceptr address, uint64_t *ret_bytes);
// One holder fewer, whose charge the caller refunds: what is returned.
uint64_t shim_physical_return(struct shim_physical *physical);
// Stores what a successful create or import gave, `bytes` of which are charged; undoes both where it cannot.
CUresult shim_physical_keep(CUmemGenericAllocationHandle handle, enum vg_ledger_kind kind, uint64_t bytes);
// The same of what others hold as well; takes over the hold.
CUresult shim_physical_keep_held(CUmemGenericAllocationHandle handle, struct shim_physical *physical);
// shim_pin for memory that is held; takes over the hold.
void shim_physical_pin(struct shim_physical *physical, uint64_t owner, uint64_t offset);
// The owner of what is bound to a multicast object, which is let go with the object's last holder: not its handle,
// whose number may come to mean another object while mappings of this one are there.
uint64_t shim_binder(CUmemGenericAllocationHandle multicast);
// Whether the memory can move to the host (shim/evict.h), so that its charge does not count as fixed. Returns its bytes if
// that changes, or 0.
uint64_t shim_physical_set_evictable(struct shim_physical *physical, bool is_evictable);
// Whether one of the holders stands for all of its descriptors.
void shim_physical_exported(struct shim_physical *physical, bool now);
