#include "manager/operation.h"
#include "manager/memory.h"
#include "manager/unit.h"

#include <stdlib.h>

// ---- scratch memory -----------------------------------------------------------------------------------------

// Drops a reference to a workspace, on any thread. Does not free the workspace, because freeing may wait for the
// device: the next operation frees it.
static void release_workspace(struct vg_virtual_gpu *vgpu, struct manager_workspace *workspace)
{
	if (!workspace || atomic_fetch_sub(&workspace->references, 1) != 1)
		return;
	vg_mutex_lock(&vgpu->lock);
	workspace->next = vgpu->unused;
	vgpu->unused = workspace;
	vg_mutex_unlock(&vgpu->lock);
}

static void free_unused(struct vg_virtual_gpu *vgpu)
{
	vg_mutex_lock(&vgpu->lock);
	struct manager_workspace *workspace = vgpu->unused;
	vgpu->unused = NULL;
	vg_mutex_unlock(&vgpu->lock);
	while (workspace) {
		struct manager_workspace *next = workspace->next;
		(void)memory_free(vgpu, workspace->address); // if this fails, memory_end() frees the block
		free(workspace);
		workspace = next;
	}
}

static struct manager_workspace *find_workspace(struct vg_virtual_gpu *vgpu, unsigned stream, size_t size)
{
	vg_mutex_lock(&vgpu->lock);
	struct manager_workspace *workspace = vgpu->workspaces ? vgpu->workspaces[stream] : NULL;
	if (workspace && workspace->size >= size)
		atomic_fetch_add(&workspace->references, 1);
	else
		workspace = NULL;
	vg_mutex_unlock(&vgpu->lock);
	return workspace;
}

// Replaces the stream's workspace by a larger one. Returns false if out of memory.
static bool install_workspace(struct vg_virtual_gpu *vgpu, unsigned stream, struct manager_workspace *workspace)
{
	vg_mutex_lock(&vgpu->lock);
	if (!vgpu->workspaces)
		vgpu->workspaces = calloc(vgpu->streams, sizeof(struct manager_workspace *));
	bool installed = vgpu->workspaces != NULL;
	struct manager_workspace *before = installed ? vgpu->workspaces[stream] : NULL;
	if (installed)
		vgpu->workspaces[stream] = workspace;
	vg_mutex_unlock(&vgpu->lock);
	release_workspace(vgpu, before);
	return installed;
}

static enum vg_status acquire_workspace(struct vg_virtual_gpu *vgpu, unsigned stream, size_t size,
					struct manager_workspace **ret_workspace)
{
	free_unused(vgpu);
	*ret_workspace = size ? find_workspace(vgpu, stream, size) : NULL;
	if (!size || *ret_workspace)
		return VG_OK;
	struct manager_workspace *workspace = calloc(1, sizeof *workspace);
	if (!workspace)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for an operation");
	enum vg_status status = memory_allocate(vgpu, size, 0, &workspace->address);
	if (status) {
		free(workspace);
		return status;
	}
	workspace->size = size;
	atomic_init(&workspace->references, 2); // one for the stream, one for the operation
	if (!install_workspace(vgpu, stream, workspace)) {
		atomic_init(&workspace->references, 1);
		release_workspace(vgpu, workspace);
		return vg_fail(VG_NO_MEMORY, 0, "no memory for an operation");
	}
	*ret_workspace = workspace;
	return VG_OK;
}

void operations_end(struct vg_virtual_gpu *vgpu)
{
	for (unsigned i = 0; vgpu->workspaces && i < vgpu->streams; i++)
		release_workspace(vgpu, vgpu->workspaces[i]);
	free(vgpu->workspaces);
	vgpu->workspaces = NULL;
	free_unused(vgpu);
}

// ---- the manager's kernels and libraries ------------------------------------------------------------------------

// Returns the manager's set of operations. Creates it when the first operation needs it, because loading the libraries
// takes long.
static enum vg_status get_operations(struct vg_manager *manager, struct operation_set **ret_set)
{
	enum vg_status status = VG_OK;

	pthread_mutex_lock(&manager->creating);
	if (!manager->operations)
		status = operation_set_create(manager->context, &manager->operations);
	*ret_set = manager->operations;
	pthread_mutex_unlock(&manager->creating);
	return status;
}

void operations_destroy(struct vg_manager *manager)
{
	operation_set_destroy(manager->operations);
}

// ---- one operation ------------------------------------------------------------------------------------------------

struct operation_job {
	struct vg_virtual_gpu *vgpu;
	struct operation_plan *plan;
	struct manager_workspace *workspace; // NULL: the operation needs none
};

static enum vg_status check_ranges(const struct operation_job *job)
{
	struct operation_ranges ranges;
	enum vg_status status = VG_OK;

	operation_plan_ranges(job->plan, &ranges);
	for (unsigned i = 0; i < ranges.count && status == VG_OK; i++)
		status = memory_check(job->vgpu, ranges.range[i].address, ranges.range[i].bytes, ranges.range[i].name);
	return status;
}

// Runs an operation when the scheduler reaches it in the queue. Checks the memory ranges again, because the program may
// have freed memory meanwhile.
static enum vg_status run_job(void *user, struct vg_stream *stream, bool *ret_more)
{
	const struct operation_job *job = user;

	*ret_more = false;
	enum vg_status status = check_ranges(job);
	return status ? status : operation_plan_run(job->plan, stream, job->workspace ? job->workspace->address : 0);
}

static void free_job(void *user)
{
	struct operation_job *job = user;

	operation_plan_destroy(job->plan);
	release_workspace(job->vgpu, job->workspace);
	free(job);
}

// Submits a plan to the compute unit. Consumes the plan, also on failure.
static enum vg_status submit_plan(struct vg_virtual_gpu *vgpu, struct operation_plan *plan, const char *name,
				  unsigned stream, struct vg_execution **ret_execution)
{
	struct operation_job *job = calloc(1, sizeof *job);
	const struct compute_job work = {name, run_job, free_job, job, stream, 0};

	if (!job) {
		operation_plan_destroy(plan);
		return vg_fail(VG_NO_MEMORY, 0, "no memory for an operation");
	}
	*job = (struct operation_job){vgpu, plan, NULL};
	enum vg_status status = check_ranges(job);
	if (status)
		goto fail;
	status = acquire_workspace(vgpu, stream, operation_plan_workspace(plan), &job->workspace);
	if (status)
		goto fail;
	status = compute_submit(vgpu->unit, &work, ret_execution);
	if (status)
		goto fail;
	return VG_OK;
fail:
	free_job(job);
	return status;
}

// ---- public functions ---------------------------------------------------------------------------------------------

static struct operation_rules get_rules(struct vg_virtual_gpu *vgpu)
{
	return (struct operation_rules){.no_tensor_cores = atomic_load(&vgpu->no_tensor_cores),
					.no_mixed_precision = atomic_load(&vgpu->no_mixed_precision)};
}

enum kind { MATRIX_MULTIPLY, CONVOLUTION, ACTIVATION };
static const char *const kinds[] = {"matrix multiply", "convolution", "activation"}; // names of executions

static enum vg_status make_plan(struct vg_virtual_gpu *vgpu, enum kind kind, const void *operation,
				struct operation_rules rules, struct operation_plan **ret_plan)
{
	struct operation_set *set;
	enum vg_status status = get_operations(vgpu->manager, &set);

	if (status)
		return status;
	switch (kind) {
	case MATRIX_MULTIPLY:
		return operation_plan_matrix_multiply(set, operation, rules, ret_plan);
	case CONVOLUTION:
		return operation_plan_convolution(set, operation, rules, ret_plan);
	default:
		return operation_plan_activation(set, operation, rules, ret_plan);
	}
}

// If the vGPU has no room for scratch memory, plans again without it.
static enum vg_status plan_and_submit(struct vg_virtual_gpu *vgpu, enum kind kind, const void *operation,
				      unsigned stream, struct vg_execution **ret_execution)
{
	struct operation_rules rules = get_rules(vgpu);
	struct operation_plan *plan;

	enum vg_status status = make_plan(vgpu, kind, operation, rules, &plan);
	if (status)
		return status;
	bool needs_room = operation_plan_workspace(plan) > 0;
	status = submit_plan(vgpu, plan, kinds[kind], stream, ret_execution);
	if (status == VG_INSUFFICIENT && needs_room) {
		rules.no_workspace = true;
		status = make_plan(vgpu, kind, operation, rules, &plan);
		if (status == VG_OK)
			status = submit_plan(vgpu, plan, kinds[kind], stream, ret_execution);
	}
	return status == VG_INSUFFICIENT ? budget_refused(&vgpu->budget) : status;
}

static enum vg_status run_operation(struct vg_virtual_gpu *vgpu, enum kind kind, const void *operation, unsigned stream,
				    struct vg_execution **ret_execution)
{
	enum vg_status status = manager_enter(vgpu);

	if (status)
		return status;
	if (!operation)
		return manager_leave(vgpu, vg_fail(VG_INVALID, 0, "operation is NULL"));
	status = unit_begin_submit(vgpu, stream);
	if (status)
		return manager_leave(vgpu, status);
	status = unit_end_submit(vgpu, stream, plan_and_submit(vgpu, kind, operation, stream, ret_execution));
	return manager_leave(vgpu, status);
}

enum vg_status vg_virtual_gpu_matrix_multiply(struct vg_virtual_gpu *vgpu, const struct vg_matrix_multiply *operation,
					      unsigned stream, struct vg_execution **ret_execution)
{
	VG_ENTRY();
	return run_operation(vgpu, MATRIX_MULTIPLY, operation, stream, ret_execution);
}

enum vg_status vg_virtual_gpu_convolution(struct vg_virtual_gpu *vgpu, const struct vg_convolution *operation,
					  unsigned stream, struct vg_execution **ret_execution)
{
	VG_ENTRY();
	return run_operation(vgpu, CONVOLUTION, operation, stream, ret_execution);
}

enum vg_status vg_virtual_gpu_activation(struct vg_virtual_gpu *vgpu, const struct vg_activation *operation,
					 unsigned stream, struct vg_execution **ret_execution)
{
	VG_ENTRY();
	return run_operation(vgpu, ACTIVATION, operation, stream, ret_execution);
}
