// Evictable vGPUs: their options, and what their processes say of memory that moves to the host (pager/page.h). What a
// process says is shown, and used for nobody but its own vGPU. One thread.
#pragma once
#include "daemon/request.h"
#include "pager/page.h"

// Reads "evictable" of a request, before the GPU is chosen.
bool eviction_is_asked(const struct request *request);
// Reads "evictable", "swap" and "fixed" of a request, for a vGPU whose memory is known. NULL, or a refusal.
json_t *eviction_take(const struct request *request, struct vgpu *wanted);
// The same fields of a file. False: invalid.
void eviction_write(json_t *object, const struct vgpu *vgpu);
bool eviction_read(const json_t *object, struct vgpu *ret_vgpu);
// Takes them from a ledger that no file mentions, as far as the machine's memory goes.
void eviction_adopt(const struct vg_ledger *ledger, struct vgpu *ret_vgpu);

// The words of one process, each read once.
struct eviction {
	enum pager_state state;	  // PAGER_STATE_COUNT: invalid
	enum pager_reason reason; // PAGER_REASON_COUNT: invalid
	uint32_t row, waiting, moves;
	uint64_t bytes, host, missing; // at most the vGPU's limit, and `host` and `missing` at most `bytes`
	uint64_t since_ns, moved_ns, waited_ns;
	bool is_out;	 // the process shall leave the device, by its own wish or by that of its vGPU
	bool is_pending; // it has not answered the last wish
	bool is_evicted; // it shall leave to make room, and not by a user's wish
	uint64_t active_ns; // 0: not known
};
void eviction_look(const struct vgpu *vgpu, unsigned int slot, struct eviction *ret_eviction);
// Whether wishes go to the process: no guest, no host, and not one that has ended.
bool eviction_concerns(const struct tenant *tenant);
// Whether the vGPU as a whole is suspended.
bool eviction_is_suspended(const struct vgpu *vgpu);

// Writes the wish for the whole vGPU, as its user and residence.c have it, and rings for all of its processes.
void eviction_apply(struct vgpu *vgpu, uint32_t drain_ms);
// Tells its programs which vGPU has the device; "": none.
void eviction_name_holder(struct vgpu *vgpu, const char *holder);
// How often the processes report whether they use the device; 0: never.
void eviction_set_ask(struct vgpu *vgpu, uint32_t ms);

void eviction_ring(struct pager_slot *slot);

// For listings: null if the vGPU is not evictable, or nothing is known.
json_t *eviction_list_tenant(const struct tenant *tenant);
json_t *eviction_list_vgpu(const struct vgpu *vgpu);

// suspend.c
json_t *answer_suspend(const struct request *request);
json_t *answer_resume(const struct request *request);
