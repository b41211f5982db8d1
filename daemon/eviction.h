// Reads and writes the words that the daemon shares with the processes of evictable vGPUs (pager/page.h). A process can
// write any value into them, so what the daemon reads affects only the vGPU of that process. Main thread only.
#pragma once
#include "daemon/node.h"
#include "pager/page.h"

// A copy of the words that one process shares with the daemon (struct pager_slot).
struct eviction {
	enum pager_state state;	  // PAGER_STATE_COUNT: invalid
	enum pager_reason reason; // PAGER_REASON_COUNT: invalid
	uint32_t row, waiting, moves;
	// The figures of struct pager_slot, with bounds: `bytes` is at most the vGPU's limit, and the other figures are
	// at most `bytes`.
	uint64_t bytes, host, missing, unchanged;
	uint32_t hash_result;
	uint64_t since_ns, moved_ns, waited_ns;
	bool is_out;	    // the process was asked to leave the device, alone or with its vGPU
	bool is_pending;    // the process has not answered the last request to leave or to return
	bool is_evicted;    // the process was asked to leave to make room for others, not by a user
	uint64_t active_ns; // when the process last used the device; 0: unknown
};
// Returns whether the process is suspended with --deep, or is about to be: then the driver removes it from the device.
bool eviction_is_deep(const struct tenant *tenant);
void eviction_read_slot(const struct vgpu *vgpu, unsigned int slot, struct eviction *ret_eviction);
// Returns whether the process can be suspended. Three kinds cannot: ended processes, guests (processes that have opened
// memory of this vGPU), and processes with memory of several vGPUs (hosts, ledger/ledger.h).
bool eviction_concerns(const struct tenant *tenant);
// Returns whether the vGPU as a whole is suspended.
bool eviction_is_suspended(const struct vgpu *vgpu);

// Finds the next slot of a process that can be suspended. Set *cursor to 0 before the first call; each call stores
// there how far it got. Reads the ledger, because the last scan may have missed a process. Returns false after the last
// slot.
bool eviction_next_slot(const struct vgpu *vgpu, unsigned int *cursor, unsigned int *ret_slot);
// Wakes the pager of the process that owns this slot.
void eviction_ring(struct pager_slot *slot);
// Writes whether the whole vGPU must leave the device, as its user and residence.c decide, and wakes all of its pagers.
// Sets the processes' time limit for draining, unless `drain_ms` is 0.
void eviction_apply(struct vgpu *vgpu, uint32_t drain_ms);
// Writes into the ledger which vGPU has the device now. Waiting programs show its name in messages. "": no vGPU.
void eviction_name_holder(struct vgpu *vgpu, const char *holder);
// Writes into the ledger whether other vGPUs are releasing the room that this vGPU's processes wait for.
void eviction_set_room_comes(struct vgpu *vgpu, bool comes);
// Sets how often the processes report whether they use the device; 0: never.
void eviction_set_ask(struct vgpu *vgpu, uint32_t ms);
