#include "checkpoint/suspend/wait.h"

#include "base/clock.h"
#include "base/status.h"

#include <poll.h>
#include <string.h>

enum {
	// How long to wait for an answer of a process, in addition to `drain_ms`, the time for its GPU work to end.
	ANSWER_MS = 2000,
	RETURN_MS = 10000,
	POLL_LEAST_MS = 10,
	POLL_MOST_MS = 200,
	MOVING = -1, // the process has no outcome yet
};
static const uint64_t COPY_RATE = 256 << 20; // bytes per second; a process that copies more slowly is late

static const struct vg_tenant_info *find_process(const struct suspend_wait *wait,
						 const struct vg_suspend_process *asked)
{
	const struct vg_vgpu_info *vgpu = wait->now ? wait->now->vgpus : NULL;

	for (size_t i = 0; vgpu && i < vgpu->tenant_count; i++) {
		const struct vg_tenant_info *tenant = &vgpu->tenants[i];
		if (tenant->pid == asked->pid && tenant->started == asked->started && !tenant->ended &&
		    tenant->eviction.known)
			return tenant;
	}
	return NULL;
}

// ---- time ----------------------------------------------------------------------------------------------

static uint64_t answer_ms(const struct suspend_wait *wait)
{
	return wait->is_out ? wait->drain_ms + (uint64_t)ANSWER_MS : RETURN_MS;
}

// Returns the longest time for the copies of all processes. Adds up their sizes, because the copies share the bus. A
// process can report any size, so the vGPU's limit is the maximum of the sum. Pinning host memory takes no longer than
// such a copy.
static uint64_t copy_ms(const struct suspend_wait *wait)
{
	uint64_t bytes = 0, most = wait->now->vgpus->memory;

	for (size_t i = 0; i < wait->asked->count && bytes < most; i++)
		bytes += wait->asked->processes[i].bytes;
	return (bytes < most ? bytes : most) / (COPY_RATE / 1000);
}

static uint64_t waited_ms(const struct suspend_wait *wait)
{
	return (vg_clock_monotonic_ns() - wait->begin_ns) / 1000000;
}

static bool is_in_state(const struct vg_eviction_info *eviction, const char *state)
{
	return strcmp(eviction->state, state) == 0;
}

// Returns whether the process has begun to move: it pins host memory or copies.
static bool is_on_its_way(const struct vg_eviction_info *eviction, bool is_out)
{
	return is_out ? is_in_state(eviction, "preparing") || is_in_state(eviction, "leaving")
		      : is_in_state(eviction, "returning");
}

// Decides whether a process that has not answered yet is late.
static int judge_delay(const struct suspend_wait *wait, const struct vg_eviction_info *eviction)
{
	uint64_t waited = waited_ms(wait);

	if (waited <= answer_ms(wait))
		return MOVING;
	if (is_in_state(eviction, "waiting") || is_in_state(eviction, "out"))
		return VG_SUSPEND_GAVE_UP;
	bool drains = is_in_state(eviction, "draining") && eviction->state_ns / 1000000 <= answer_ms(wait);
	if (!drains && !is_on_its_way(eviction, wait->is_out))
		return VG_SUSPEND_SILENT;
	// Allow the time of the copy twice: before the copy, the process pins host memory, which takes no longer.
	return waited <= answer_ms(wait) + 2 * copy_ms(wait) ? MOVING : VG_SUSPEND_LATE;
}

// ---- results -------------------------------------------------------------------------------------------

static int judge_process(const struct suspend_wait *wait, const struct vg_tenant_info *tenant)
{
	const struct vg_eviction_info *eviction = tenant ? &tenant->eviction : NULL;

	if (!eviction)
		return VG_SUSPEND_ENDED;
	if (!eviction->suspended == wait->is_out)
		return VG_SUSPEND_REVERSED;
	if (strcmp(eviction->state, "broken") == 0)
		return VG_SUSPEND_GAVE_UP;
	if (strcmp(eviction->state, "none") == 0)
		return VG_SUSPEND_DONE;
	if (eviction->pending || is_in_state(eviction, "waiting") || (!wait->is_out && is_in_state(eviction, "out")))
		return judge_delay(wait, eviction);
	return strcmp(eviction->state, wait->is_out ? "suspended" : "running") == 0 ? VG_SUSPEND_DONE
										    : VG_SUSPEND_GAVE_UP;
}

enum vg_suspend_outcome suspend_wait_judge(const struct suspend_wait *wait, const struct vg_suspend_process *asked,
					   struct vg_eviction_info *ret_eviction)
{
	const struct vg_tenant_info *tenant = find_process(wait, asked);
	int outcome = judge_process(wait, tenant);

	*ret_eviction = tenant ? tenant->eviction : (struct vg_eviction_info){0};
	return outcome == MOVING ? VG_SUSPEND_LATE : (enum vg_suspend_outcome)outcome;
}

static bool is_moving(const struct suspend_wait *wait)
{
	for (size_t i = 0; i < wait->asked->count; i++)
		if (judge_process(wait, find_process(wait, &wait->asked->processes[i])) == MOVING)
			return true;
	return false;
}

static void count_bytes(const struct suspend_wait *wait, struct phase *phase)
{
	uint64_t done = 0, total = 0;

	for (size_t i = 0; i < wait->asked->count; i++) {
		const struct vg_tenant_info *tenant = find_process(wait, &wait->asked->processes[i]);
		total += tenant ? tenant->eviction.bytes : 0;
		if (tenant)
			done += wait->is_out ? tenant->eviction.host : tenant->eviction.bytes - tenant->eviction.host;
	}
	phase->total = total;
	phase->bytes = done;
}

static enum vg_status update_states(struct suspend_wait *wait, struct vg_node *node, struct phase *phase)
{
	struct vg_vgpu_list *now = NULL;

	enum vg_status status = vg_vgpu_inspect(node, wait->asked->vgpu, &now);
	if (status && status != VG_NOT_FOUND)
		return status;
	vg_vgpu_list_free(wait->now);
	wait->now = now;
	count_bytes(wait, phase);
	phase_tick(phase);
	return VG_OK;
}

enum vg_status suspend_wait_run(struct suspend_wait *wait, struct vg_node *node, struct phase *phase)
{
	wait->begin_ns = vg_clock_monotonic_ns();
	enum vg_status status = wait->is_out ? vg_suspend_request(node, &wait->target, wait->drain_ms, &wait->asked)
					     : vg_resume_request(node, &wait->target, &wait->asked);
	if (status == VG_OK)
		status = update_states(wait, node, phase);
	while (status == VG_OK && is_moving(wait)) {
		if (phase->stop)
			return vg_fail(VG_STATE, 0, "stopped while memory moved, as asked: the request to %s stands",
				       wait->is_out ? "suspend" : "resume");
		// Pause for an eighth of the time waited so far. So the wait is at most an eighth longer than the
		// move.
		uint64_t pause_ms = waited_ms(wait) / 8;
		pause_ms = pause_ms < POLL_LEAST_MS ? POLL_LEAST_MS : pause_ms;
		poll(NULL, 0, pause_ms > POLL_MOST_MS ? POLL_MOST_MS : (int)pause_ms);
		status = update_states(wait, node, phase);
	}
	return status;
}

void suspend_wait_finish(struct suspend_wait *wait)
{
	vg_suspend_list_free(wait->asked);
	vg_vgpu_list_free(wait->now);
	wait->asked = NULL;
	wait->now = NULL;
}
