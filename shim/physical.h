// Counts the references to physical device memory. Handles, mappings, pins and exported descriptors of this process can
// keep such memory allocated. The charge is refunded with the last reference. Any thread.
#pragma once
#include <pthread.h>

#include "shim/charge.h"

struct shim_physical {
	uint64_t bytes; // bytes charged to this process
	enum vg_ledger_kind kind;
	// number of handles, mappings, pins and calls in progress that use the memory, plus 1 if it is exported
	unsigned int references;
	bool is_exported;  // a descriptor was exported; all such descriptors together hold one reference
	bool is_evictable; // the memory was charged by shim_charge_evictable()
	uint8_t device;	   // ordinal of the device whose ledger has the charge
	bool has_pins;	   // a multicast object: it keeps references (pins) to the memory bound to it
	// Members for memory that is a shared allocation (ledger/shared.h, shim/shared.h):
	uint32_t shared; // number of the shared allocation in the ledger; 0: the memory is not shared
	bool is_joined;	 // another process owns the shared allocation and has the charge
	uint64_t mark;	 // mark (shim/mark.h) on the memory's descriptors; 0: none
	char *guest_of;	 // name of the vGPU whose ledger has the shared allocation; NULL: this process's vGPU
	struct shim_physical *next_shared;
	// Removes this object from its shared allocation. Returns how many bytes this process must refund. This pointer
	// is set while `shared` is not 0. Call the function with the lock held.
	uint64_t (*leave_shared)(struct shim_physical *physical);
};

// Guards all objects of this type, the mappings, the records of handles, and the references that multicast objects keep
// to the memory bound to them (pins).
extern pthread_mutex_t shim_physical_lock;

// Allocates an object with one reference. `bytes` are charged for its memory already. NULL: out of host memory.
struct shim_physical *shim_physical_create(enum vg_ledger_kind kind, uint64_t bytes);
// Adds a reference.
void shim_physical_ref(struct shim_physical *physical);
// Drops a reference. Dropping the last one refunds the charge. Accepts NULL.
void shim_physical_unref(struct shim_physical *physical);
// Drops a reference and returns how many bytes the caller must refund.
uint64_t shim_physical_detach(struct shim_physical *physical);
// Returns the object (struct shim_physical) of the allocation at an address, with a new reference, and stores the
// allocation's bytes. The first call creates the object and moves the allocation's charge into it. A small allocation
// shares a block of 2 MiB with others, so its object has the charge of the whole block. NULL: no such allocation.
struct shim_physical *shim_physical_of_allocation(CUdeviceptr address, uint64_t *ret_bytes);
// Sets whether the memory can move to the host (shim/evict.h). Returns the memory's bytes if that changes, or else 0.
uint64_t shim_physical_set_evictable(struct shim_physical *physical, bool is_evictable);
// Sets whether the memory has exported descriptors, which together hold one reference.
void shim_physical_set_exported(struct shim_physical *physical, bool is_exported);

// Pins the memory for `owner` (a sparse array or a multicast object) at `offset`: keeps it allocated until it is
// unpinned. Takes over the caller's reference.
void shim_physical_pin(struct shim_physical *physical, uint64_t owner, uint64_t offset);
void shim_unpin(uint64_t owner, uint64_t offset);
void shim_unpin_all(uint64_t owner);

// Adds a reference. Call it with the lock held.
void shim_physical_ref_locked(struct shim_physical *physical);
void shim_physical_unref_locked(struct shim_physical *physical);
// Sets the number of charged bytes that the object stores. Does not change the charge in the ledger.
void shim_physical_resize(struct shim_physical *physical, uint64_t bytes);
