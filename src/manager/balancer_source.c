// Connects the balancer with managers: reads the load of each virtual GPU (struct balancer_load), and executes actions
// on managers.
#include "compute/compute.h"
#include "manager/balancer_engine.h"
#include "manager/manager.h"
#include "manager/unit.h"

#include <stdio.h>
#include <stdlib.h>

enum vg_status balancer_retain_manager(struct vg_manager *manager)
{
	enum vg_status status = manager_check(manager);

	if (status)
		return status;
	core_object_retain(&manager->object);
	return VG_OK;
}

void balancer_release_manager(struct vg_manager *manager)
{
	core_object_release(&manager->object);
}

// ---- loads -----------------------------------------------------------------------------------------------------

// Reads the compute units only if the share is a whole number of units. Otherwise the balancer could not restore the
// exact share when it removes added units.
static void read_units(const struct vg_compute_unit_info *unit, struct balancer_load *load)
{
	double units = unit->share * unit->max_units, off = units - unit->compute_units;

	if (off > 1e-6 || off < -1e-6)
		return;
	load->units = unit->compute_units;
	load->max_units = unit->max_units;
}

static void read_utilization(const struct vg_compute_unit_info *unit, struct balancer_load *load)
{
	if (!unit->utilization_known || unit->share <= 0)
		return;
	load->utilization_known = true;
	load->utilization = unit->utilization < unit->share ? unit->utilization / unit->share : 1;
}

// Reads the load of a virtual GPU (struct balancer_load). Returns false if the virtual GPU is being closed.
static bool read_load(struct vg_virtual_gpu *vgpu, unsigned manager, struct balancer_load *load)
{
	struct vg_compute_unit_info unit;

	if (vg_compute_unit_info(vgpu->unit, &unit))
		return false;
	*load = (struct balancer_load){
		.key = {manager, vgpu->id, vgpu->serial},
		.status = manager_status_of(vgpu),
		.share = unit.share,
		.priority = unit.priority,
		.window = 2 * unit.max_concurrent_kernels,
		.waiting = unit.queue_length,
		.running = unit.running,
	};
	load->takes_work = load->status == VG_VIRTUAL_GPU_CREATED || load->status == VG_VIRTUAL_GPU_RUNNING;
	snprintf(load->name, sizeof load->name, "%s", vgpu->name);
	if (vgpu->manager->options.no_compute_virtualization) {
		load->share = 1; // without shares, each virtual GPU runs as if it were alone
		return true;
	}
	read_units(&unit, load);
	read_utilization(&unit, load);
	return true;
}

static enum vg_status read_manager(struct vg_manager *manager, unsigned number, struct balancer_load **loads,
				   size_t *count)
{
	struct vg_virtual_gpu **vgpus;
	size_t found;

	enum vg_status status = manager_get_all(manager, &vgpus, &found);
	if (status)
		return status;
	struct balancer_load *grown = reallocarray(*loads, *count + found + 1, sizeof *grown);
	if (grown)
		*loads = grown;
	else
		status = vg_fail(VG_NO_MEMORY, 0, "no memory for the loads of %zu virtual GPUs", found);
	for (size_t i = 0; grown && i < found; i++)
		*count += read_load(vgpus[i], number, &grown[*count]);
	manager_release_all(vgpus, found);
	return status;
}

enum vg_status balancer_read(struct vg_manager *const *managers, size_t count, struct balancer_load **ret_loads,
			     size_t *ret_count)
{
	struct balancer_load *loads = NULL;
	enum vg_status status = VG_OK;
	size_t found = 0;

	for (size_t i = 0; i < count && status == VG_OK; i++)
		if (!atomic_load(&managers[i]->object.closed))
			status = read_manager(managers[i], (unsigned)i, &loads, &found);
	if (status) {
		free(loads);
		return status;
	}
	*ret_loads = loads;
	*ret_count = found;
	return VG_OK;
}

// ---- executions ------------------------------------------------------------------------------------------------

// Returns a new reference to the virtual GPU, or NULL if it is closed.
static struct vg_virtual_gpu *get_vgpu(struct vg_manager *manager, struct balancer_key key)
{
	struct vg_virtual_gpu *vgpu = manager_get(manager, key.id);

	if (vgpu && vgpu->serial == key.serial && !atomic_load(&vgpu->object.closed))
		return vgpu;
	vg_virtual_gpu_destroy(vgpu);
	return NULL;
}

// Submits the work to a virtual stream. Begins with another stream at each call. An inactive stream fails with LIMIT if
// the manager has its maximum number of active streams. Then the next stream is tried, because it may be active.
static enum vg_status execute_work(struct vg_virtual_gpu *vgpu, struct vg_balanced *work,
				   struct vg_execution **ret_execution)
{
	static atomic_uint turns;
	unsigned first = atomic_fetch_add(&turns, 1);
	enum vg_status status = VG_LIMIT;
	struct vg_work all = {
		.size = sizeof all,
		.kernel = work->kernel,
		.config = work->config,
		.arguments = work->arguments,
		.argument_count = work->argument_count,
		.priority = work->priority,
		.repeat = work->repeat,
	};

	for (unsigned i = 0; i < vgpu->streams && status == VG_LIMIT; i++) {
		all.stream = (first + i) % vgpu->streams;
		status = unit_begin_submit(vgpu, all.stream);
	}
	if (status)
		return status;
	return unit_end_submit(vgpu, all.stream,
			       compute_execute(vgpu->unit, &all, balancer_notice, work, ret_execution));
}

static enum balancer_fate submit_to(struct vg_virtual_gpu *vgpu, struct vg_balanced *work,
				    struct vg_execution **ret_execution, enum vg_status *ret_status)
{
	if (atomic_load(&vgpu->paused))
		return BALANCER_LATER;
	if (work->bind) // this callback may close the virtual GPU, so it runs before manager_enter()
		*ret_status = work->bind(work->user, vgpu, work->values, work->argument_count);
	if (*ret_status)
		return BALANCER_FAILED;
	*ret_status = manager_enter(vgpu);
	if (*ret_status)
		// If `bind` was called, the arguments contain addresses of this virtual GPU, so no other one may run
		// the work. Without `bind`, another virtual GPU may run it.
		return work->bind ? BALANCER_FAILED : BALANCER_ELSEWHERE;
	*ret_status = manager_leave(vgpu, execute_work(vgpu, work, ret_execution));
	return *ret_status ? BALANCER_FAILED : BALANCER_BOUND;
}

enum balancer_fate balancer_submit(struct vg_manager *manager, struct balancer_key key, struct vg_balanced *work,
				   struct vg_execution **ret_execution, enum vg_status *ret_status)
{
	struct vg_virtual_gpu *vgpu = get_vgpu(manager, key);

	if (!vgpu)
		return BALANCER_ELSEWHERE;
	*ret_status = VG_OK;
	enum balancer_fate fate =
		atomic_load(&manager->lost) ? BALANCER_ELSEWHERE : submit_to(vgpu, work, ret_execution, ret_status);
	vg_virtual_gpu_destroy(vgpu);
	return fate;
}

enum vg_execution_state balancer_state(const struct vg_execution *execution)
{
	return vg_execution_state(execution);
}

enum vg_status balancer_failure(struct vg_execution *execution)
{
	return vg_execution_wait(execution, 0);
}

void balancer_stop(struct vg_execution *execution)
{
	(void)vg_execution_cancel(execution); // fails with STATE if the execution has ended
}

void balancer_retain(struct vg_execution *execution)
{
	core_object_retain((struct core_object *)execution);
}

void balancer_release(struct vg_execution *execution)
{
	vg_execution_destroy(execution);
}

// ---- actions ---------------------------------------------------------------------------------------------------

static enum vg_status fail_as_closed(struct balancer_key key)
{
	return vg_fail(VG_NOT_FOUND, 0, "virtual GPU %d of manager %u has gone", key.id, key.manager);
}

enum vg_status balancer_migrate(struct vg_manager *manager, struct balancer_key from, struct balancer_key to,
				size_t count, size_t *ret_moved)
{
	struct vg_virtual_gpu *a = get_vgpu(manager, from), *b = get_vgpu(manager, to);

	enum vg_status status =
		a && b ? compute_migrate(a->unit, b->unit, count, ret_moved) : fail_as_closed(a ? to : from);
	vg_virtual_gpu_destroy(a);
	vg_virtual_gpu_destroy(b);
	return status;
}

static enum vg_status add_share(struct vg_virtual_gpu *vgpu, double share)
{
	struct vg_compute_unit_info unit;

	enum vg_status status = vg_compute_unit_info(vgpu->unit, &unit);
	return status ? status : vg_virtual_gpu_set_compute_share(vgpu, unit.share + share);
}

// Moves a part of the share. Reduces the share of `from` first, so that the sum of shares never exceeds the device.
static enum vg_status move_share(struct vg_virtual_gpu *from, struct vg_virtual_gpu *to, double share)
{
	struct vg_kept_error kept;

	enum vg_status status = add_share(from, -share);
	if (status)
		return status;
	status = add_share(to, share);
	if (status == VG_OK)
		return VG_OK;
	vg_error_keep(&kept);
	(void)add_share(from, share);
	vg_error_restore(&kept);
	return status;
}

enum vg_status balancer_adjust(struct vg_manager *manager, struct balancer_key from, struct balancer_key to,
			       double share)
{
	struct vg_virtual_gpu *a = get_vgpu(manager, from), *b = get_vgpu(manager, to);

	enum vg_status status = a && b ? move_share(a, b, share) : fail_as_closed(a ? to : from);
	vg_virtual_gpu_destroy(a);
	vg_virtual_gpu_destroy(b);
	return status;
}

enum vg_status balancer_scale(struct vg_manager *manager, struct balancer_key key, int units)
{
	struct vg_virtual_gpu *vgpu = get_vgpu(manager, key);
	struct vg_compute_unit_info unit;

	if (!vgpu)
		return fail_as_closed(key);
	enum vg_status status = vg_compute_unit_info(vgpu->unit, &unit);
	if (status == VG_OK)
		status = vg_virtual_gpu_scale_compute_units(vgpu, (unsigned)((int)unit.compute_units + units));
	vg_virtual_gpu_destroy(vgpu);
	return status;
}

enum vg_status balancer_preempt(struct vg_manager *manager, struct balancer_key key, bool *ret_preempted)
{
	struct vg_virtual_gpu *vgpu = get_vgpu(manager, key);

	enum vg_status status = vgpu ? compute_preempt(vgpu->unit, ret_preempted) : fail_as_closed(key);
	vg_virtual_gpu_destroy(vgpu);
	return status;
}
