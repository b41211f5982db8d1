// Physical device memory that several objects of this process can keep: handles, mappings, pins and exported
// descriptors. Its charge is refunded with the last reference. Any thread.
#pragma once
#include <pthread.h>

#include "shim/charge.h"

struct shim_physical {
	uint64_t bytes; // charged to this process
	enum vg_ledger_kind kind;
	unsigned int references; // handles + mappings + pins + calls in progress + 1 if exported
	bool is_exported;	 // one reference stands for all its descriptors
	bool is_evictable;	 // charged by shim_charge_evictable()
	bool has_pins;		 // a multicast object: other memory is pinned in its name
	// A shared allocation (ledger/share.h, shim/shared.h):
	uint32_t shared;   // its number in the ledger; 0: not shared
	bool is_joined;	   // it was opened here, and its owner has the charge
	uint64_t size;	   // if joined: its bytes
	uint64_t mark;	   // on its descriptors; 0: none
	char *guest_of;	   // the vGPU whose ledger has it; NULL: this one
	struct shim_physical *next_shared;
	// Leaves the shared allocation, with the lock held. Returns how many bytes this process must refund. Set while
	// `shared` is not 0.
	uint64_t (*leave_shared)(struct shim_physical *physical);
};

// Guards all shim_physical, the pins, the mappings, and handle records together with their physical memory.
extern pthread_mutex_t shim_physical_lock;

// Allocates an object with one reference, for memory of which `bytes` are charged already. NULL: out of host memory.
struct shim_physical *shim_physical_create(enum vg_ledger_kind kind, uint64_t bytes);
// Adds a reference.
void shim_physical_ref(struct shim_physical *physical);
// Drops a reference. The last one refunds the charge. Accepts NULL.
void shim_physical_unref(struct shim_physical *physical);
// Drops a reference and returns how many bytes the caller must refund.
uint64_t shim_physical_detach(struct shim_physical *physical);
// Moves the charge of the allocation at an address (or of a small one's block) into a shim_physical, to which the
// record then refers. Returns it with a new reference and stores its bytes. NULL: no such allocation.
struct shim_physical *shim_physical_of_allocation(CUdeviceptr address, uint64_t *ret_bytes);
// Sets whether the memory can move to the host (shim/evict.h). Returns its bytes if that changes, or else 0.
uint64_t shim_physical_set_evictable(struct shim_physical *physical, bool is_evictable);
// Sets whether one of the references stands for all its descriptors.
void shim_physical_set_exported(struct shim_physical *physical, bool is_exported);

// Keeps the memory for `owner` (a sparse array, a multicast object) at `offset` until it is unpinned. Takes over the
// caller's reference.
void shim_physical_pin(struct shim_physical *physical, uint64_t owner, uint64_t offset);
void shim_unpin(uint64_t owner, uint64_t offset);
void shim_unpin_all(uint64_t owner);

// With the lock held.
void shim_physical_ref_locked(struct shim_physical *physical);
void shim_physical_unref_locked(struct shim_physical *physical);
// Sets how many bytes are charged; changes no charge.
void shim_physical_resize(struct shim_physical *physical, uint64_t bytes);
