// Between vmm.c, physical.c and share.c.
#pragma once
#include <pthread.h>

#include "shim/share.h"
#include "shim/vmm.h"

struct shim_physical {
	uint64_t bytes; // charged to this process
	enum vg_ledger_kind kind;
	unsigned int holders; // handles + mappings + pins + descriptors (one for all) + calls on their way
	bool exported;	      // one of the holders is its descriptors
	bool evictable;	      // the charge is noted by shim_evict_note_charge(), too
	bool binds;	      // a multicast object: pins of others are in its name
	bool joined;	      // the charge is with others that hold it: see ledger/share.h
	uint32_t share;	      // 0: none
	uint64_t size;	      // of what was joined
	uint64_t mark;	      // that its descriptors carry; 0: none
	char *guest_of;	      // the vGPU that has the share; NULL: our own
	struct shim_physical *next_shared;
};

// Guards everything in these files, and handle records together with their physical memory.
extern pthread_mutex_t shim_physical_lock;

// With the lock held: one holder more, and fewer; the last one gives the memory's charge back.
void shim_physical_add(struct shim_physical *physical);
void shim_physical_drop_locked(struct shim_physical *physical, unsigned int count);
void shim_unpin_locked(uint64_t owner, bool all, uint64_t offset);
// What is charged becomes `bytes`.
void shim_physical_resize(struct shim_physical *physical, uint64_t bytes);

// share.c, with the lock held. It has no holder any more: what is left for this process to refund.
uint64_t shim_share_end(struct shim_physical *physical);
