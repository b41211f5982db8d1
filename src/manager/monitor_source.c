// Reads a manager's virtual GPUs and the device.
#include "manager/manager.h"
#include "manager/monitor.h"

#include <stdio.h>
#include <stdlib.h>

enum vg_status monitor_source_open(struct vg_manager *manager, struct monitor_source *ret_source)
{
	struct monitor_source source = {.manager = manager};

	enum vg_status status = manager_check(manager);
	if (status)
		return status;
	source.device = vg_manager_device(manager);
	source.interval_ms = manager->options.monitoring_interval_ms;
	if (vg_gpu_of_device(source.device, &source.gpu))
		source.gpu = NULL;
	core_object_retain(&manager->object);
	*ret_source = source;
	return VG_OK;
}

void monitor_source_close(struct monitor_source *source)
{
	if (source->manager)
		core_object_release(&source->manager->object);
	source->manager = NULL;
}

bool monitor_source_has(const struct monitor_source *source, int id)
{
	enum vg_virtual_gpu_status status = vg_manager_status(source->manager, id);

	return status != VG_VIRTUAL_GPU_NOT_FOUND && status != VG_VIRTUAL_GPU_DESTROYED;
}

static void read_unit(struct vg_virtual_gpu *vgpu, struct monitor_reading *reading)
{
	struct vg_sample *sample = &reading->sample;
	struct vg_compute_unit_info unit;

	if (vg_compute_unit_info(vgpu->unit, &unit))
		return; // the virtual GPU is being closed, so all figures are unknown
	if (!vgpu->manager->options.no_compute_virtualization)
		sample->compute_share = monitor_known(unit.share);
	sample->queue_length = monitor_known(unit.queue_length);
	sample->running = monitor_known(unit.running);
	sample->launches = monitor_known((double)unit.launches);
	sample->failures = monitor_known((double)unit.failures);
	sample->cancelled = monitor_known((double)unit.cancelled);
	reading->busy_known = unit.measured;
	reading->busy_ns = unit.busy_ns;
}

static void read_space(struct vg_virtual_gpu *vgpu, struct vg_sample *sample)
{
	struct vg_memory_space_info space;

	if (vg_virtual_gpu_memory(vgpu) && vg_memory_space_info(vg_virtual_gpu_memory(vgpu), &space) == VG_OK)
		sample->fragmentation = monitor_known(space.fragmentation);
}

// Reads one virtual GPU. Returns false if it is being closed.
static bool read_virtual_gpu(struct vg_virtual_gpu *vgpu, struct monitor_reading *reading)
{
	struct vg_virtual_gpu_info info;
	struct vg_sample *sample = &reading->sample;

	if (vg_virtual_gpu_info(vgpu, &info) || info.status == VG_VIRTUAL_GPU_DESTROYED)
		return false;
	*reading = (struct monitor_reading){.serial = vgpu->serial};
	snprintf(reading->name, sizeof reading->name, "%s", info.name);
	sample->id = info.id;
	sample->status = info.status;
	sample->memory_source = VG_MEMORY_SOURCE_LEDGER;
	sample->memory_held = monitor_known((double)info.memory_held);
	sample->memory_allocated = monitor_known((double)info.memory_allocated);
	sample->memory_limit = monitor_known((double)info.memory_limit);
	sample->memory_utilization = monitor_known(info.memory_utilization);
	read_unit(vgpu, reading);
	read_space(vgpu, sample);
	return true;
}

static enum vg_status read_virtual_gpus(struct vg_manager *manager, struct monitor_readings *readings)
{
	struct vg_virtual_gpu **vgpus;
	size_t count;

	enum vg_status status = manager_get_all(manager, &vgpus, &count);
	if (status)
		return status;
	readings->count = 0;
	if (count > readings->capacity) {
		free(readings->virtual_gpus);
		readings->virtual_gpus = calloc(count, sizeof *readings->virtual_gpus);
		readings->capacity = readings->virtual_gpus ? count : 0;
	}
	if (count > readings->capacity)
		status = vg_fail(VG_NO_MEMORY, 0, "no memory for readings of %zu virtual GPUs", count);
	for (size_t i = 0; status == VG_OK && i < count; i++)
		readings->count += read_virtual_gpu(vgpus[i], &readings->virtual_gpus[readings->count]);
	manager_release_all(vgpus, count);
	return status;
}

static void read_memory(const struct monitor_source *source, struct vg_sample *sample)
{
	struct vg_gpu_memory memory;
	size_t free, total;

	if (source->gpu && vg_gpu_memory(source->gpu, &memory) == VG_OK) {
		sample->memory_source = VG_MEMORY_SOURCE_NVML;
		sample->memory_held = monitor_known((double)memory.used);
		sample->memory_limit = monitor_known((double)memory.total);
	} else if (vg_device_memory_info(source->device, &free, &total) == VG_OK) {
		sample->memory_source = VG_MEMORY_SOURCE_DRIVER;
		sample->memory_held = monitor_known((double)(total - free));
		sample->memory_limit = monitor_known((double)total);
	}
	if (sample->memory_limit.known && sample->memory_limit.value > 0)
		sample->memory_utilization = monitor_known(sample->memory_held.value / sample->memory_limit.value);
}

// Reads the device's busy time: for how long each SM has run quanta, as the mean over all SMs.
static void read_busy(struct vg_manager *manager, struct monitor_reading *device)
{
	struct vg_compute_info compute;

	if (manager->options.no_compute_virtualization || vg_compute_info(manager->compute, &compute) || !compute.sms)
		return;
	device->busy_known = true;
	device->busy_ns = (uint64_t)(compute.sm_seconds / compute.sms * 1e9);
}

// Sums a metric over all virtual GPUs. The sum is unknown if one value is unknown.
static void sum_metric(const struct monitor_readings *readings, enum vg_metric_name metric, struct vg_sample *sample)
{
	struct vg_metric sum = monitor_known(0);

	for (size_t i = 0; i < readings->count; i++) {
		const struct vg_metric *one = monitor_metric(&readings->virtual_gpus[i].sample, metric);
		sum.known &= one->known;
		sum.value += one->value;
	}
	*(struct vg_metric *)monitor_metric(sample, metric) = sum.known ? sum : (struct vg_metric){0};
}

enum vg_status monitor_read(const struct monitor_source *source, struct monitor_readings *readings)
{
	static const enum vg_metric_name sums[] = {VG_METRIC_MEMORY_ALLOCATED, VG_METRIC_COMPUTE_SHARE,
						   VG_METRIC_QUEUE_LENGTH, VG_METRIC_RUNNING};
	struct monitor_reading *device = &readings->device;

	enum vg_status status = manager_check(source->manager);
	if (status)
		return status;
	status = read_virtual_gpus(source->manager, readings);
	if (status)
		return status;
	*device = (struct monitor_reading){.sample = {.status = VG_VIRTUAL_GPU_RUNNING}};
	snprintf(device->name, sizeof device->name, "%.*s", MONITOR_NAME - 1, vg_device_name(source->device));
	device->sample.virtual_gpus = monitor_known((double)readings->count);
	read_memory(source, &device->sample);
	read_busy(source->manager, device);
	for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
		sum_metric(readings, sums[i], &device->sample);
	return VG_OK;
}
