// Writes the latest samples as JSON. The public header has the schema.
#include "manager/monitor.h"

#include <jansson.h>
#include <string.h>

static json_t *write_metric(enum vg_metric_name name, struct vg_metric metric)
{
	enum monitor_unit unit = monitor_metric_unit(name);

	if (!metric.known)
		return json_null();
	if (unit == MONITOR_RATIO || unit == MONITOR_RATE)
		return json_real(metric.value);
	return json_integer((json_int_t)(metric.value + 0.5));
}

// Adds a sample to `object`. If out of memory, frees `object` and returns NULL.
static json_t *add_sample(json_t *object, const struct vg_sample *sample)
{
	json_t *metrics = json_object();
	int r = object ? 0 : -1;

	for (enum vg_metric_name name = 0; name < VG_METRIC_COUNT; name++)
		r |= json_object_set_new(metrics, vg_metric_text(name),
					 write_metric(name, *monitor_metric(sample, name)));
	r |= json_object_set_new(object, "time_ns", json_integer((json_int_t)sample->time_ns));
	r |= json_object_set_new(object, "interval_ns", json_integer((json_int_t)sample->interval_ns));
	r |= json_object_set_new(object, "late_ns", json_integer((json_int_t)sample->late_ns));
	r |= json_object_set_new(object, "metrics", metrics);
	if (r == 0)
		return object;
	json_decref(object);
	return NULL;
}

static json_t *write_device(const struct vg_monitor *monitor)
{
	const struct vg_sample *sample = monitor_series_latest(monitor->device);
	const char *source = sample->memory_source == VG_MEMORY_SOURCE_NVML	? "nvml"
			     : sample->memory_source == VG_MEMORY_SOURCE_DRIVER ? "driver"
										: NULL;
	const struct vg_device *device = monitor->source.device;

	return add_sample(json_pack("{s:i, s:s, s:s, s:s?}", "ordinal", vg_device_ordinal(device), "name",
				    monitor->device->name, "uuid", vg_device_uuid(device), "memory_source", source),
			  sample);
}

static json_t *write_virtual_gpu(const struct monitor_series *series)
{
	const struct vg_sample *sample = monitor_series_latest(series);

	return add_sample(json_pack("{s:i, s:s, s:s}", "id", series->id, "name", series->name, "status",
				    vg_virtual_gpu_status_text(sample->status)),
			  sample);
}

static json_t *write_watch(const struct monitor_watch *watch)
{
	const struct vg_watch *asked = &watch->watch;
	json_t *beyond = json_array();
	int r = beyond ? 0 : -1;

	for (size_t i = 0; i < watch->count; i++)
		r |= json_array_append_new(beyond, json_integer(watch->beyond[i]));
	if (r) {
		json_decref(beyond);
		return NULL;
	}
	return json_pack("{s:I, s:i, s:s, s:s, s:f, s:f, s:o}", "watch", (json_int_t)watch->number, "id", asked->id,
			 "metric", vg_metric_text(asked->metric), "side",
			 asked->side == VG_WATCH_ABOVE ? "above" : "below", "threshold", asked->threshold, "hysteresis",
			 asked->hysteresis, "beyond", beyond);
}

// Makes the JSON object. Returns NULL if out of memory. Call with the lock held.
static json_t *write_snapshot(const struct vg_monitor *monitor)
{
	json_t *virtual_gpus = json_array(), *watches = json_array();
	const struct vg_monitor_info *info = &monitor->info;
	int r = virtual_gpus && watches ? 0 : -1;

	for (size_t i = 0; i < monitor->count; i++)
		r |= json_array_append_new(virtual_gpus, write_virtual_gpu(monitor->series[i]));
	for (const struct monitor_watch *watch = monitor->watches; watch; watch = watch->next)
		r |= json_array_append_new(watches, write_watch(watch));
	if (r) {
		json_decref(virtual_gpus);
		json_decref(watches);
		return NULL;
	}
	return json_pack("{s:i, s:I, s:i, s:I, s:I, s:b, s:o, s:o, s:o}", "schema", 1, "time_ns",
			 (json_int_t)monitor_series_latest(monitor->device)->time_ns, "interval_ms",
			 (int)monitor->interval_ms, "samples", (json_int_t)info->samples, "missed",
			 (json_int_t)info->missed, "sampling", info->sampling, "device", write_device(monitor),
			 "virtual_gpus", virtual_gpus, "watches", watches);
}

enum vg_status vg_monitor_json(struct vg_monitor *monitor, char **ret_text)
{
	VG_ENTRY();
	MONITOR_USABLE(monitor);
	CORE_NEEDED(ret_text);
	pthread_mutex_lock(&monitor->worker.lock);
	json_t *all = write_snapshot(monitor);
	pthread_mutex_unlock(&monitor->worker.lock);
	char *text = all ? json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
	json_decref(all);
	if (!text)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for the snapshot");
	*ret_text = text;
	return VG_OK;
}
