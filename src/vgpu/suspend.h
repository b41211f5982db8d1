// Requests to suspend or resume an evictable vGPU, or one process of it. Any thread.
#pragma once
#include <jansson.h>

#include "virgate/vgpu.h"

struct vg_suspend_target {
	const char *vgpu; // NULL: only the process `pid`
	int64_t pid;	  // pid in the daemon's namespace
};

// A process to which the daemon sent the request.
struct vg_suspend_process {
	int64_t pid;
	double started; // start time of the process; together with `pid`, it identifies the process in a listing
	const char *command;
	uint64_t bytes, host; // before the request: memory that can move, and how much of it was in the host
};

struct vg_suspend_list {
	const char *vgpu;
	size_t count;
	const struct vg_suspend_process *processes;
	json_t *reply; // owns the strings of the list
};

// Ask the daemon to suspend or resume processes. Both functions return once the daemon has sent its requests to the
// processes; listings show the progress. `drain_ms`: how long a process waits for its threads and the GPU, in
// milliseconds; 0 means 10 s. Fails with NOT_FOUND, DENIED, UNSUPPORTED (the vGPU is not evictable), BUSY (the vGPU is
// suspended or resumed already), INVALID, NO_DAEMON or NO_MEMORY.
enum vg_status vg_suspend_request(struct vg_node *node, const struct vg_suspend_target *target, unsigned drain_ms,
				  struct vg_suspend_list **ret_list);
enum vg_status vg_resume_request(struct vg_node *node, const struct vg_suspend_target *target,
				 struct vg_suspend_list **ret_list);
void vg_suspend_list_free(struct vg_suspend_list *list);
