// Has the daemon ask processes of an evictable vGPU to move their memory, and waits until the memory was moved. One
// thread.
#pragma once
#include "checkpoint/process/phase.h"
#include "vgpu/suspend.h"

struct suspend_wait {
	bool is_out; // move to the host; false: move to the GPU
	struct vg_suspend_target target;
	unsigned drain_ms;
	struct vg_suspend_list *asked;
	// The vGPU as the daemon listed it last; NULL: the vGPU was removed after its processes ended.
	struct vg_vgpu_list *now;
	uint64_t begin_ns;
};
// Sends the request and waits. Counts the bytes in the phase. The caller must call suspend_wait_finish() after every
// outcome. STATE: the progress function asked to stop; the request to the processes stays. Other errors: see
// vg_suspend_request() and vg_vgpu_inspect().
enum vg_status suspend_wait_run(struct suspend_wait *wait, struct vg_node *node, struct phase *phase);
// Returns the outcome of a process in the list `asked`. *ret_eviction: the last state of the process, all 0 if it has
// ended.
enum vg_suspend_outcome suspend_wait_judge(const struct suspend_wait *wait, const struct vg_suspend_process *asked,
					   struct vg_eviction_info *ret_eviction);
void suspend_wait_finish(struct suspend_wait *wait);
