// Evictable vGPUs: their options, and the words that the daemon shares with their processes (pager/page.h). A process
// can write any value there, so the daemon shows these values and uses them for that process's vGPU only. One thread.
#pragma once
#include "daemon/request.h"
#include "pager/page.h"

// eviction_options.c

// Returns the field "evictable" of a request, which the choice of a GPU needs.
bool eviction_is_asked(const struct request *request);
// Reads "evictable", "swap", "fixed" and "idle_suspend" of a request, after the memory of the vGPU was set. Returns
// NULL or a refusal.
json_t *eviction_take(const struct request *request, struct vgpu *wanted);
// Writes the same fields into a JSON object.
void eviction_write(json_t *object, const struct vgpu *vgpu);
// Reads what eviction_write() wrote into a file. Returns false if a field is invalid.
bool eviction_read(const json_t *object, struct vgpu *ret_vgpu);
// Reads the options from a ledger for which there is no file. The swap is at most the memory of this machine.
void eviction_adopt(const struct vg_ledger *ledger, struct vgpu *ret_vgpu);

// eviction.c

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
// Whether the process is suspended with --deep, or is about to be: the driver has taken it off the device, or shall.
bool eviction_is_deep(const struct tenant *tenant);
void eviction_read_slot(const struct vgpu *vgpu, unsigned int slot, struct eviction *ret_eviction);
// Whether the process can be suspended: it has not ended, and it is neither a guest nor a host.
bool eviction_concerns(const struct tenant *tenant);
// Whether the vGPU as a whole is suspended.
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
// Tells the processes whether the room that they shall take is being released by others.
void eviction_tell_room_comes(struct vgpu *vgpu, bool comes);
// Sets how often the processes report whether they use the device; 0: never.
void eviction_set_ask(struct vgpu *vgpu, uint32_t ms);

// eviction_list.c

// Return JSON objects for listings, or JSON null if the vGPU is not evictable or its ledger is damaged.
json_t *eviction_list_tenant(const struct tenant *tenant);
// Returns "begun" or "done" for a process that is suspended with --deep; else JSON null.
json_t *eviction_list_deep(const struct tenant *tenant);
json_t *eviction_list_vgpu(const struct vgpu *vgpu);

// suspend.c
json_t *answer_suspend(const struct request *request);
json_t *answer_resume(const struct request *request);
