// Validates a description of work completely, then turns it into a queued execution.
#include "compute/engine.h"

#include "base/clock.h"
#include "base/hash.h"
#include "core/error.h"
#include "core/launch.h"

#include <alloca.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- rules for kernels ----------------------------------------------------------------------------

static enum vg_status check_trait(const struct vg_compute_unit *unit, const struct compute_entry *entry,
				  enum code_answer answer, const char *instruction, const char *what)
{
	if (answer == CODE_FOUND)
		return vg_fail(VG_POLICY, 0,
			       "kernel \"%s\" contains %s, and the unit \"%s\" may not use %s: allow it, or use "
			       "another kernel",
			       entry->name, instruction, unit->name, what);
	if (answer == CODE_UNKNOWN && unit->unknown_code == VG_UNKNOWN_CODE_REFUSE)
		return vg_fail(VG_POLICY, 0,
			       "cannot tell whether kernel \"%s\" uses %s, which the unit \"%s\" may not use: %s; "
			       "VG_UNKNOWN_CODE_ALLOW allows such kernels",
			       entry->name, what, unit->name, entry->report.reason);
	return VG_OK;
}

static enum vg_status check_traits(struct vg_compute_unit *unit, const struct compute_entry *entry)
{
	const struct code_report *report = &entry->report;
	enum vg_status status = VG_OK;

	pthread_mutex_lock(&unit->compute->lock);
	if (!unit->tensor)
		status = check_trait(unit, entry, report->tensor, report->tensor_instruction, "tensor cores");
	if (status == VG_OK && !unit->mixed)
		status = check_trait(unit, entry, report->mixed, report->mixed_instruction, "mixed precision");
	pthread_mutex_unlock(&unit->compute->lock);
	return status;
}

// ---- launches ---------------------------------------------------------------------------------------

static enum vg_status copy_values(struct vg_execution *execution, const struct vg_kernel *kernel, void *const *values)
{
	const uint16_t *offsets = core_kernel_offsets(kernel);
	unsigned char *parameters = execution->parameters;
	size_t count = kernel->parameter_count, bytes = kernel->parameter_bytes;

	if (bytes > COMPUTE_PARAMETERS || count > COMPUTE_PARAMETERS / 8) {
		bytes = (bytes + 63) / 64 * 64;
		execution->block = aligned_alloc(64, bytes + (count * sizeof *values + 63) / 64 * 64);
		if (!execution->block)
			return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu bytes of arguments", bytes);
		parameters = execution->block;
		execution->values = (void **)(parameters + bytes);
	}
	for (size_t i = 0; i < count; i++) {
		execution->values[i] = parameters + offsets[i];
		memcpy(execution->values[i], values[i], kernel->sizes[i]);
	}
	return VG_OK;
}

static enum vg_status check_limits(struct vg_execution *execution, struct core_launch *launch)
{
	struct vg_compute *compute = execution->origin->compute;
	const struct vg_kernel *kernel = execution->entry->kernel;
	const CUlaunchConfig *n = &launch->native;
	const unsigned shape[] = {n->gridDimX,	n->gridDimY,  n->gridDimZ,	 n->blockDimX,
				  n->blockDimY, n->blockDimZ, n->sharedMemBytes, n->numAttrs};

	// The key of the time estimate. The key contains the compute unit, because the duration depends on the unit's
	// data more than on the grid. Units and kernels are identified by serial numbers, because addresses are reused.
	const uint64_t keys[] = {execution->origin->serial, execution->entry->serial};
	execution->shape = vg_hash_add(vg_hash(keys, sizeof keys), shape, sizeof shape);
	pthread_mutex_lock(&compute->lock);
	bool known = compute_estimate_is_checked(compute, execution->shape);
	pthread_mutex_unlock(&compute->lock);
	if (known && !n->numAttrs)
		return VG_OK;
	enum vg_status status = core_launch_check_limits(launch, kernel, compute->device);
	if (status == VG_OK && launch->cooperative) {
		CORE_ENTER(scope, compute->context->handle);
		status = core_launch_check_cooperative(launch, kernel, compute->context);
	}
	if (status)
		return status;
	pthread_mutex_lock(&compute->lock);
	compute_estimate_checked(compute, execution->shape);
	pthread_mutex_unlock(&compute->lock);
	return VG_OK;
}

static enum vg_status fill_launch(struct vg_execution *execution, const struct vg_work *work)
{
	const struct vg_kernel *kernel = execution->entry->kernel;
	struct vg_device *device = execution->origin->compute->device;
	struct vg_launch_config config = work->config;
	struct core_launch launch;
	void **values = alloca((kernel->parameter_count + 1) * sizeof *values);

	config.size = sizeof config;
	enum vg_status status = core_launch_configure(&launch, &config, device);
	if (status)
		return status;
	status = core_launch_check_arguments(kernel, work->arguments, work->argument_count, values);
	if (status)
		return status;
	status = check_limits(execution, &launch);
	if (status)
		return status;
	status = copy_values(execution, kernel, values);
	if (status)
		return status;
	execution->native = launch.native;
	if (!launch.native.numAttrs)
		return VG_OK;
	execution->attributes = malloc(launch.native.numAttrs * sizeof *execution->attributes);
	if (!execution->attributes)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for launch attributes");
	memcpy(execution->attributes, launch.attributes, launch.native.numAttrs * sizeof *execution->attributes);
	return VG_OK;
}

// ---- queueing -----------------------------------------------------------------------------------------

// Frees an execution that was not queued, without calling its callback.
static void discard_execution(struct vg_execution *execution)
{
	compute_entry_release(execution->entry);
	execution->entry = NULL;
	compute_execution_release(execution);
}

static enum vg_status queue_execution(struct vg_execution *execution, struct vg_execution **ret_execution)
{
	struct vg_compute_unit *unit = execution->origin;
	struct vg_compute *compute = unit->compute;

	pthread_mutex_lock(&compute->lock);
	enum vg_status status = compute_open_for_work(unit);
	bool first = unit->queued == 0;
	if (status == VG_OK) {
		execution->id = ++compute->ids;
		execution->queued_ns = vg_clock_monotonic_ns();
		if (ret_execution)
			core_object_retain(&execution->object);
		compute_queue_add(execution);
	}
	pthread_mutex_unlock(&compute->lock);
	if (status) {
		discard_execution(execution);
		return status;
	}
	compute_ring(compute, first ? COMPUTE_RING_ALWAYS : COMPUTE_RING_ASLEEP);
	if (ret_execution)
		*ret_execution = execution;
	return VG_OK;
}

static enum vg_status create_execution(struct vg_compute_unit *unit, const char *name, unsigned stream, int priority,
				       struct vg_execution **ret_execution)
{
	enum vg_status status = compute_usable();

	if (status)
		return status;
	status = core_object_check(&unit->object, "unit");
	if (status)
		return status;
	if (!name)
		return vg_fail(VG_INVALID, 0, "the kernel's name is NULL");
	if (stream >= unit->stream_count)
		return vg_fail(VG_INVALID, 0, "stream %u: the unit \"%s\" has %u, counted from 0", stream, unit->name,
			       unit->stream_count);
	struct vg_execution *execution = compute_execution_allocate(unit);
	if (!execution)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for an execution");
	execution->stream = &unit->streams[stream];
	execution->priority = priority;
	execution->repeat = 1;
	snprintf(execution->name, sizeof execution->name, "%s", name);
	*ret_execution = execution;
	return VG_OK;
}

enum vg_status compute_execute(struct vg_compute_unit *unit, const struct vg_work *work, void (*ended)(void *user),
			       void *user, struct vg_execution **ret_execution)
{
	struct vg_execution *execution;
	struct vg_work w;

	if (!unit || !work)
		return vg_fail(VG_INVALID, 0, "%s is NULL", unit ? "work" : "unit");
	enum vg_status status = vg_options_copy(&w, sizeof w, work);
	if (status)
		return status;
	status = create_execution(unit, w.kernel, w.stream, w.priority, &execution);
	if (status)
		return status;
	execution->repeat = w.repeat ? w.repeat : 1;
	status = compute_registry_find(unit->compute->registry, w.kernel, &execution->entry);
	if (status)
		goto fail;
	status = check_traits(unit, execution->entry);
	if (status)
		goto fail;
	status = fill_launch(execution, &w);
	if (status)
		goto fail;
	execution->ended = ended;
	execution->ended_user = user;
	return queue_execution(execution, ret_execution);
fail:
	discard_execution(execution);
	return status;
}

enum vg_status vg_compute_unit_execute(struct vg_compute_unit *unit, const struct vg_work *work,
				       struct vg_execution **ret_execution)
{
	VG_ENTRY();
	return compute_execute(unit, work, NULL, NULL, ret_execution);
}

enum vg_status compute_submit(struct vg_compute_unit *unit, const struct compute_job *job,
			      struct vg_execution **ret_execution)
{
	struct vg_execution *execution;

	if (!unit || !job || !job->step)
		return vg_fail(VG_INVALID, 0, "%s is NULL", !unit ? "unit" : !job ? "job" : "job.step");
	enum vg_status status = create_execution(unit, job->name, job->stream, job->priority, &execution);
	if (status)
		return status;
	execution->job = *job;
	execution->shape =
		vg_hash_add(vg_hash(&unit->serial, sizeof unit->serial), execution->name, sizeof execution->name);
	return queue_execution(execution, ret_execution);
}
