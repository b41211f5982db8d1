// The words that the daemon shares with the processes of evictable vGPUs (pager/page.h). A process can write any value
// there, so the daemon uses them for the vGPU of that process only. Main thread only.
#pragma once
#include "daemon/node.h"
#include "pager/page.h"

// A copy of the words of one process.
struct eviction {
	enum pager_state state;	  // PAGER_STATE_COUNT: invalid
	enum pager_reason reason; // PAGER_REASON_COUNT: invalid
	uint32_t row, waiting, moves;
	// At most the vGPU's limit, and the others at most `bytes`.
	uint64_t bytes, host, missing, unchanged;
	uint32_t hash_result;
	uint64_t since_ns, moved_ns, waited_ns;
	bool is_out;	    // the process was asked to leave the device, alone or with its vGPU
	bool is_pending;    // it has not answered the last wish
	bool is_evicted;    // it was asked to leave to make room, not by a user
	uint64_t active_ns; // 0: unknown
};
// Returns whether the process is suspended with --deep, or is about to be: the driver takes it off the device.
bool eviction_is_deep(const struct tenant *tenant);
void eviction_read_slot(const struct vgpu *vgpu, unsigned int slot, struct eviction *ret_eviction);
// Returns whether the process can be suspended: it has not ended, and it is neither a guest nor a host.
bool eviction_concerns(const struct tenant *tenant);
// Returns whether the vGPU as a whole is suspended.
bool eviction_is_suspended(const struct vgpu *vgpu);

// Steps through the slots of all processes that can be suspended. It reads the ledger, because the last scan may have
// missed a process. `*cursor` starts at 0. Returns false after the last slot.
bool eviction_next_slot(const struct vgpu *vgpu, unsigned int *cursor, unsigned int *ret_slot);
// Wakes the pager of the process that has this slot.
void eviction_ring(struct pager_slot *slot);
// Writes the wish for the whole vGPU, which its user and residence.c decide, and rings for all of its processes. Sets
// their limit for draining, unless `drain_ms` is 0.
void eviction_apply(struct vgpu *vgpu, uint32_t drain_ms);
// Writes the name of the vGPU that has the device, for messages of the waiting programs; "": none.
void eviction_name_holder(struct vgpu *vgpu, const char *holder);
// Tells the processes whether others are releasing the room that they need.
void eviction_set_room_comes(struct vgpu *vgpu, bool comes);
// Sets how often the processes report whether they use the device; 0: never.
void eviction_set_ask(struct vgpu *vgpu, uint32_t ms);
