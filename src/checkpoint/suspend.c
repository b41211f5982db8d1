// Suspends and resumes processes of vGPUs. The daemon asks their pagers to move the memory. With --deep, this process
// then has the driver take the processes off the GPU. If the driver fails, the processes return to the GPU. Those that
// the daemon has suspended stay suspended by their pagers; the others run.
#include "base/status.h"
#include "checkpoint/process/refusal.h"
#include "checkpoint/suspend/deep.h"
#include "checkpoint/suspend/nccl.h"
#include "checkpoint/suspend/wait.h"
#include "core/object.h"
#include "virgate/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRAIN_MS = 10000 };

// The result for the caller, and the data that its strings point to.
struct block {
	struct vg_suspend_result result; // must be the first member: the caller gets a pointer to it
	struct vg_suspended_process *processes;
	struct vg_vgpu_list *before;
	struct suspend_wait wait;
};

struct suspension {
	struct vg_suspend_options options;
	bool is_out;
	struct vg_node *node, *own_node;
	struct phase phase;
	struct vg_checkpoint_result times; // duration of each phase
	struct block *block;
	const struct vg_vgpu_info *vgpu; // the vGPU as it was listed before the operation
	pid_t *pids;			 // pids of the processes to move
	size_t count;
};

void vg_suspend_result_free(struct vg_suspend_result *result)
{
	struct block *block = (struct block *)result;

	if (!block)
		return;
	suspend_wait_finish(&block->wait);
	vg_vgpu_list_free(block->before);
	free(block->processes);
	free(block);
}

// ---- selection of processes -------------------------------------------------------------------------------

static bool is_asked(const struct suspension *suspension, const struct vg_tenant_info *tenant)
{
	const struct vg_suspend_options *options = &suspension->options;

	return !tenant->guest && !tenant->ended && tenant->pid > 0 && (options->vgpu || tenant->pid == options->pid);
}

static bool has_process(const struct suspension *suspension, const struct vg_vgpu_info *vgpu)
{
	for (size_t i = 0; i < vgpu->tenant_count; i++)
		if (is_asked(suspension, &vgpu->tenants[i]))
			return true;
	return false;
}

// Finds a vGPU that has a process chosen by the options. If there are several, prefers an evictable one, as the daemon
// does. NULL: not found.
static const struct vg_vgpu_info *find_vgpu(const struct suspension *suspension)
{
	const struct vg_vgpu_list *list = suspension->block->before;
	const struct vg_vgpu_info *found = NULL;

	for (size_t i = 0; i < list->count; i++)
		if (has_process(suspension, &list->vgpus[i]) && (!found || list->vgpus[i].evictable))
			found = &list->vgpus[i];
	return found;
}

static enum vg_status list_pids(struct suspension *suspension)
{
	const struct vg_vgpu_info *vgpu = suspension->vgpu;

	suspension->pids = calloc((vgpu ? vgpu->tenant_count : 0) + 1, sizeof *suspension->pids);
	if (!suspension->pids)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of processes");
	for (size_t i = 0; vgpu && i < vgpu->tenant_count; i++)
		if (is_asked(suspension, &vgpu->tenants[i]))
			suspension->pids[suspension->count++] = (pid_t)vgpu->tenants[i].pid;
	return VG_OK;
}

static enum vg_status find_processes(struct suspension *suspension)
{
	const struct vg_suspend_options *options = &suspension->options;
	struct block *block = suspension->block;

	enum vg_status status = phase_begin(&suspension->phase, VG_CHECKPOINT_FIND);
	if (status == VG_OK)
		status = options->vgpu ? vg_vgpu_inspect(suspension->node, options->vgpu, &block->before)
				       : vg_vgpu_list(suspension->node, &block->before);
	if (status)
		return status;
	suspension->vgpu = options->vgpu ? block->before->vgpus : find_vgpu(suspension);
	return list_pids(suspension);
}

// ---- memory that pagers move -------------------------------------------------------------------------------

static enum vg_status ask_pagers(struct suspension *suspension)
{
	const struct vg_suspend_options *options = &suspension->options;
	struct suspend_wait *wait = &suspension->block->wait;

	*wait = (struct suspend_wait){
		.is_out = suspension->is_out,
		.target = {options->vgpu, options->pid},
		.drain_ms = options->drain_ms ? options->drain_ms : DRAIN_MS,
	};
	enum vg_status status =
		phase_begin(&suspension->phase, suspension->is_out ? VG_CHECKPOINT_EVICT : VG_CHECKPOINT_DEVICE_IN);
	return status ? status : suspend_wait_run(wait, suspension->node, &suspension->phase);
}

static const struct vg_tenant_info *find_before(const struct suspension *suspension, int64_t pid)
{
	for (size_t i = 0; suspension->vgpu && i < suspension->vgpu->tenant_count; i++)
		if (suspension->vgpu->tenants[i].pid == pid && is_asked(suspension, &suspension->vgpu->tenants[i]))
			return &suspension->vgpu->tenants[i];
	return NULL;
}

static enum vg_status report_asked(struct suspension *suspension)
{
	struct block *block = suspension->block;
	const struct suspend_wait *wait = &block->wait;
	struct vg_suspended_process *processes = calloc(wait->asked->count + 1, sizeof *processes);

	if (!processes)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of processes");
	for (size_t i = 0; i < wait->asked->count; i++) {
		const struct vg_suspend_process *asked = &wait->asked->processes[i];
		const struct vg_tenant_info *before = find_before(suspension, asked->pid);
		struct vg_suspended_process *process = &processes[i];
		*process = (struct vg_suspended_process){.pid = asked->pid,
							 .command = asked->command,
							 .charged = before ? before->charged : 0,
							 .host_before = asked->host};
		process->outcome = suspend_wait_judge(wait, asked, &process->eviction);
		block->result.failed += process->outcome > VG_SUSPEND_ENDED;
	}
	block->processes = processes;
	block->result.processes = processes;
	block->result.count = wait->asked->count;
	block->result.vgpu = wait->asked->vgpu;
	return VG_OK;
}

// Reports all processes as not moved because they have no pager.
static enum vg_status report_all(struct suspension *suspension)
{
	struct block *block = suspension->block;
	struct vg_suspended_process *processes = calloc(suspension->count + 1, sizeof *processes);

	if (!processes)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of processes");
	for (size_t i = 0; i < suspension->count; i++) {
		const struct vg_tenant_info *before = find_before(suspension, suspension->pids[i]);
		processes[i] = (struct vg_suspended_process){.pid = before->pid,
							     .command = before->command,
							     .charged = before->charged,
							     .host_before = before->eviction.host,
							     .eviction = before->eviction};
	}
	block->processes = processes;
	block->result.processes = processes;
	block->result.count = suspension->count;
	block->result.vgpu = suspension->vgpu->name;
	block->result.by_driver = !suspension->vgpu->evictable;
	return VG_OK;
}

static enum vg_status move_memory(struct suspension *suspension)
{
	enum vg_status status = ask_pagers(suspension);

	if (status == VG_OK)
		status = report_asked(suspension);
	if (status || !suspension->block->result.failed)
		return status;
	return vg_fail(VG_NOT_READY, 0, "%zu of %zu processes of vGPU %s could not be %s",
		       suspension->block->result.failed, suspension->block->result.count,
		       suspension->block->result.vgpu, suspension->is_out ? "suspended" : "resumed");
}

// ---- memory that the driver moves ---------------------------------------------------------------------------

// Returns an upper bound for what the driver has to move: all that is charged to the process, except what its pager
// moves.
static uint64_t resident_bytes(const struct vg_tenant_info *tenant)
{
	const struct vg_eviction_info *eviction = &tenant->eviction;

	return tenant->charged > eviction->bytes ? tenant->charged - eviction->bytes : 0;
}

// Removes the pids of processes that the driver need not move. A suspension moves processes that are still on the GPU.
// A resumption moves those that are off the GPU or are leaving it. Returns the bytes that a suspension moves.
static uint64_t choose_for_driver(struct suspension *suspension)
{
	uint64_t bytes = 0;
	size_t count = 0;

	for (size_t i = 0; i < suspension->count; i++) {
		const struct vg_tenant_info *tenant = find_before(suspension, suspension->pids[i]);
		if (suspension->is_out ? tenant->deep == VG_DEEP_DONE : tenant->deep == VG_DEEP_NONE)
			continue;
		suspension->pids[count++] = suspension->pids[i];
		bytes += suspension->is_out ? resident_bytes(tenant) : 0;
	}
	suspension->count = count;
	return bytes;
}

static void mark_deep(struct suspension *suspension, const struct deep *deep)
{
	struct block *block = suspension->block;

	for (size_t i = 0; i < block->result.count; i++)
		for (size_t k = 0; k < deep->tree.count; k++)
			if (block->processes[i].pid == deep->tree.processes[k].pid)
				block->processes[i].deep = 1;
}

static enum vg_status refuse_deep(const struct suspension *suspension)
{
	const struct vg_vgpu_info *vgpu = suspension->vgpu;
	const struct vg_suspend_options *options = &suspension->options;

	if (!vgpu)
		return vg_fail(VG_NOT_FOUND, 0,
			       "process %lld does not run in a vGPU of yours, or has not used CUDA yet",
			       (long long)options->pid);
	if (!vgpu->tenants_known)
		return vg_fail(VG_DENIED, 0, "who runs inside vGPU %s is for its owner and root to see, and to suspend",
			       vgpu->name);
	if (vgpu->mode == VG_MODE_MPS)
		return refuse(REFUSE_MPS, 0,
			      "vGPU %s is in the mode mps, and the driver does not take clients of MPS off the GPU: "
			      "suspend it "
			      "without --deep",
			      vgpu->name);
	if (!vgpu->evictable && !suspension->count && options->vgpu)
		return vg_fail(VG_NOT_FOUND, 0,
			       "no process runs in vGPU %s, and it is not evictable: there is nothing to suspend",
			       vgpu->name);
	return VG_OK;
}

static bool is_suspended(const struct suspension *suspension)
{
	const struct vg_tenant_info *tenant =
		suspension->options.vgpu ? NULL : find_before(suspension, suspension->options.pid);

	return suspension->vgpu->suspended || (tenant && tenant->eviction.known && tenant->eviction.suspended &&
					       strcmp(tenant->eviction.state, "suspended") == 0);
}

static enum vg_status refuse_repetition(const struct suspension *suspension)
{
	if (suspension->options.vgpu)
		return vg_fail(VG_BUSY, 0, "vGPU %s is suspended with --deep already", suspension->vgpu->name);
	return vg_fail(VG_BUSY, 0, "process %lld of vGPU %s is suspended with --deep already",
		       (long long)suspension->options.pid, suspension->vgpu->name);
}

// Has the pagers move the memory that they can move, before the driver moves the rest.
static enum vg_status move_first(struct suspension *suspension)
{
	if (!suspension->vgpu->evictable || is_suspended(suspension))
		return report_all(suspension);
	return move_memory(suspension);
}

static enum vg_status leave_deep(struct suspension *suspension)
{
	const struct vg_suspend_options *options = &suspension->options;
	struct deep deep = {.phase = &suspension->phase};
	size_t before = suspension->count;

	enum vg_status status = refuse_deep(suspension);
	if (status)
		return status;
	deep.vgpu = suspension->vgpu->name;
	uint64_t bytes = choose_for_driver(suspension);
	if (!suspension->count && before)
		return refuse_repetition(suspension);
	if (suspension->count)
		status = deep_find(&deep, suspension->pids, suspension->count);
	if (status)
		goto finish;
	if (suspension->count)
		status = deep_check_leaving(&deep, bytes);
	if (status)
		goto finish;
	status = move_first(suspension);
	if (status)
		goto finish;
	if (suspension->count)
		status = deep_leave(&deep, options->drain_ms ? options->drain_ms : DRAIN_MS);
	if (status)
		goto finish;
	mark_deep(suspension, &deep);
finish:
	deep_finish(&deep);
	return status;
}

// Resumes the processes that the driver took off the GPU. *ret_any: there was at least one such process.
static enum vg_status return_deep(struct suspension *suspension, struct deep *deep, bool *ret_any)
{
	choose_for_driver(suspension);
	*ret_any = suspension->count > 0;
	if (!*ret_any)
		return VG_OK;
	deep->vgpu = suspension->vgpu->name;
	enum vg_status status = deep_find(deep, suspension->pids, suspension->count);
	if (status)
		return status;
	status = deep_check_return(deep);
	if (status)
		return status;
	status = phase_begin(&suspension->phase, VG_CHECKPOINT_DEVICE_IN);
	return status ? status : deep_return(deep);
}

// ---- the public functions --------------------------------------------------------------------------------------

static void add_warnings(struct suspension *suspension)
{
	struct vg_suspend_result *result = &suspension->block->result;
	pid_t *pids = calloc(result->count + 1, sizeof *pids);

	for (size_t i = 0; i < result->count && pids; i++)
		pids[i] = (pid_t)result->processes[i].pid;
	if (pids)
		nccl_warn(pids, result->count, result->warning, sizeof result->warning);
	free(pids);
}

static enum vg_status suspend_processes(struct suspension *suspension)
{
	enum vg_status status = suspension->options.deep ? find_processes(suspension) : VG_OK;

	if (status == VG_OK)
		status = suspension->options.deep ? leave_deep(suspension) : move_memory(suspension);
	add_warnings(suspension);
	return status;
}

// Returns whether the operation is for the whole vGPU. The daemon refuses to resume one process of a vGPU that is
// suspended as a whole.
static bool is_for_vgpu(const struct suspension *suspension)
{
	return !suspension->options.vgpu && suspension->vgpu && suspension->vgpu->evictable &&
	       suspension->vgpu->suspended;
}

static enum vg_status resume_processes(struct suspension *suspension)
{
	struct deep deep = {.phase = &suspension->phase};
	bool was_deep = false;

	enum vg_status status = find_processes(suspension);
	if (status == VG_OK && suspension->vgpu && !is_for_vgpu(suspension))
		status = return_deep(suspension, &deep, &was_deep);
	if (status == VG_OK)
		status = was_deep && !is_suspended(suspension) ? report_all(suspension) : move_memory(suspension);
	if (status == VG_OK || status == VG_NOT_READY)
		mark_deep(suspension, &deep);
	deep_finish(&deep);
	return status;
}

static enum vg_status open_node(struct suspension *suspension)
{
	const struct vg_suspend_options *options = &suspension->options;

	if (!options->vgpu == !options->pid)
		return vg_fail(VG_INVALID, 0, "%s: name one of them",
			       options->vgpu ? "both a vGPU and a process are named"
					     : "neither a vGPU nor a process is named");
	suspension->node = options->node;
	if (suspension->node)
		return VG_OK;
	enum vg_status status = vg_node_open(NULL, &suspension->own_node);
	suspension->node = suspension->own_node;
	return status;
}

static enum vg_status run_operation(struct suspension *suspension,
				    enum vg_status (*work)(struct suspension *suspension),
				    struct vg_suspend_result **ret_result)
{
	const struct vg_suspend_options *options = &suspension->options;
	struct block *block = calloc(1, sizeof *block);

	*ret_result = NULL;
	if (!block)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for the result");
	suspension->block = block;
	suspension->phase =
		(struct phase){.progress = options->progress, .user = options->user, .result = &suspension->times};
	enum vg_status status = open_node(suspension);
	if (status == VG_OK)
		status = work(suspension);
	phase_end(&suspension->phase);
	memcpy(block->result.seconds, suspension->times.seconds, sizeof block->result.seconds);
	free(suspension->pids);
	vg_node_close(suspension->own_node);
	if (block->result.processes)
		*ret_result = &block->result;
	else
		vg_suspend_result_free(&block->result);
	return status;
}

enum vg_status vg_checkpoint_suspend(const struct vg_suspend_options *options, struct vg_suspend_result **ret_result)
{
	VG_ENTRY();
	struct suspension suspension = {.is_out = true};

	CORE_NEEDED(options);
	CORE_NEEDED(ret_result);
	CORE_OPTIONS(suspension.options, options);
	return run_operation(&suspension, suspend_processes, ret_result);
}

enum vg_status vg_checkpoint_resume(const struct vg_suspend_options *options, struct vg_suspend_result **ret_result)
{
	VG_ENTRY();
	struct suspension suspension = {0};

	CORE_NEEDED(options);
	CORE_NEEDED(ret_result);
	CORE_OPTIONS(suspension.options, options);
	return run_operation(&suspension, resume_processes, ret_result);
}
