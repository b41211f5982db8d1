// Has the daemon ask processes of an evictable vGPU to move their memory, and waits until they have. One thread.
#pragma once
#include "checkpoint/process/phase.h"
#include "vgpu/suspend.h"

struct suspend_wait {
	bool is_out; // to the host
	struct vg_suspend_target target;
	unsigned drain_ms;
	struct vg_suspend_list *asked;
	struct vg_vgpu_list *now; // the vGPU as last listed; NULL: it was removed, and its processes have ended
	uint64_t begin_ns;
};
// Counts bytes in the phase. STATE: the phase wants to stop; the request to the processes stays. Other errors as
// vg_suspend_request() and vg_vgpu_inspect(). suspend_wait_finish() is needed after every outcome.
enum vg_status suspend_wait_run(struct suspend_wait *wait, struct vg_node *node, struct phase *phase);
// Returns the outcome of a process in the list `asked`. *ret_eviction: its last state, all 0 if it has ended.
enum vg_suspend_outcome suspend_wait_judge(const struct suspend_wait *wait, const struct vg_suspend_process *asked,
					   struct vg_eviction_info *ret_eviction);
void suspend_wait_finish(struct suspend_wait *wait);
