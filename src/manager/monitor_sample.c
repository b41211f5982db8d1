// Takes a sample: reads the manager without the lock, then stores the result with the lock held.
#include "manager/monitor.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

struct monitor_series *monitor_find(const struct vg_monitor *monitor, int id)
{
	if (id == VG_WATCH_DEVICE)
		return monitor->device;
	for (size_t i = 0; i < monitor->count; i++)
		if (monitor->series[i]->id == id)
			return monitor->series[i];
	return NULL;
}

static void say_status(struct vg_monitor *monitor, const struct monitor_series *series,
		       enum vg_virtual_gpu_status before, enum vg_virtual_gpu_status now)
{
	bool paused = now == VG_VIRTUAL_GPU_PAUSED;

	if (before == now)
		return;
	if (now == VG_VIRTUAL_GPU_ERROR)
		monitor_say(&monitor->events, VG_LOG_ERROR, "virtual GPU %d (%s) is in error", series->id,
			    series->name);
	else if (paused || before == VG_VIRTUAL_GPU_PAUSED)
		monitor_say(&monitor->events, VG_LOG_INFO, "virtual GPU %d (%s) was %s", series->id, series->name,
			    paused ? "paused" : "resumed");
}

static const enum vg_metric_name totals[MONITOR_TOTALS] = {VG_METRIC_LAUNCHES, VG_METRIC_FAILURES, VG_METRIC_CANCELLED};

static void remove_series(struct vg_monitor *monitor, struct monitor_series *series)
{
	// Keep the totals of closed virtual GPUs, so that the device's totals do not decrease.
	for (int i = 0; i < MONITOR_TOTALS; i++)
		monitor->past[i] += monitor_metric(monitor_series_latest(series), totals[i])->value;
	monitor_say(&monitor->events, VG_LOG_INFO, "virtual GPU %d (%s) has gone", series->id, series->name);
	for (struct monitor_watch *watch = monitor->watches; watch; watch = watch->next)
		monitor_watch_forget(watch, series->id);
	monitor_series_destroy(series);
}

static struct monitor_series *add_series(struct vg_monitor *monitor, const struct monitor_reading *reading)
{
	struct monitor_series *series = monitor_series_create(reading, monitor->history);

	if (series)
		monitor_say(&monitor->events, VG_LOG_INFO, "virtual GPU %d (%s) has come", series->id, series->name);
	return series;
}

// Adds a sample to the series of each virtual GPU in the readings, stores these series in `kept`, and removes all other
// series. The readings and the series are sorted by id. If out of memory, a series may be missing until the next
// sample.
static size_t match_series(struct vg_monitor *monitor, struct monitor_series **kept, uint64_t now, uint64_t planned)
{
	const struct monitor_readings *readings = &monitor->readings;
	size_t old = 0, count = 0;

	for (size_t i = 0; i < readings->count; i++) {
		const struct monitor_reading *reading = &readings->virtual_gpus[i];
		struct monitor_series *series = NULL;
		while (old < monitor->count && monitor->series[old]->id < reading->sample.id)
			remove_series(monitor, monitor->series[old++]);
		if (old < monitor->count && monitor->series[old]->id == reading->sample.id) {
			series = monitor->series[old++];
			if (series->serial != reading->serial) {
				remove_series(monitor, series);
				series = NULL;
			}
		}
		if (series)
			say_status(monitor, series, monitor_series_latest(series)->status, reading->sample.status);
		else
			series = add_series(monitor, reading);
		if (!series)
			continue;
		monitor_series_add(series, reading, now, planned);
		kept[count++] = series;
	}
	while (old < monitor->count)
		remove_series(monitor, monitor->series[old++]);
	return count;
}

// Sums the totals of all virtual GPUs. A closed one counts with the totals of its last sample.
static void add_totals(struct vg_monitor *monitor, struct monitor_reading *device)
{
	for (int i = 0; i < MONITOR_TOTALS; i++) {
		struct vg_metric sum = monitor_known(monitor->past[i]);
		for (size_t k = 0; k < monitor->count; k++) {
			const struct vg_sample *sample = monitor_series_latest(monitor->series[k]);
			sum.known &= monitor_metric(sample, totals[i])->known;
			sum.value += monitor_metric(sample, totals[i])->value;
		}
		*(struct vg_metric *)monitor_metric(&device->sample, totals[i]) = sum;
	}
}

static void check_watches(struct vg_monitor *monitor)
{
	for (struct monitor_watch *watch = monitor->watches; watch; watch = watch->next) {
		monitor_watch_look(watch, monitor->device, &monitor->events);
		for (size_t i = 0; i < monitor->count; i++)
			monitor_watch_look(watch, monitor->series[i], &monitor->events);
	}
}

static void record_cost(struct vg_monitor *monitor, uint64_t start)
{
	struct vg_monitor_info *info = &monitor->info;

	info->samples++;
	info->virtual_gpus = monitor->count;
	info->cost_ns = vg_clock_monotonic_ns() - start;
	info->total_cost_ns += info->cost_ns;
	if (info->longest_cost_ns < info->cost_ns)
		info->longest_cost_ns = info->cost_ns;
}

enum vg_status monitor_take_sample(struct vg_monitor *monitor, uint64_t planned)
{
	struct monitor_readings *readings = &monitor->readings;
	uint64_t now = vg_clock_monotonic_ns();

	enum vg_status status = monitor_read(&monitor->source, readings);
	if (status)
		return status;
	struct monitor_series **kept = calloc(readings->count + 1, sizeof(struct monitor_series *));
	if (!kept)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu series", readings->count);
	pthread_mutex_lock(&monitor->worker.lock);
	if (!monitor->device)
		monitor->device = monitor_series_create(&readings->device, monitor->history);
	if (!monitor->device) {
		pthread_mutex_unlock(&monitor->worker.lock);
		free(kept);
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu samples", monitor->history);
	}
	monitor->count = match_series(monitor, kept, now, planned);
	free(monitor->series);
	monitor->series = kept;
	add_totals(monitor, &readings->device);
	monitor_series_add(monitor->device, &readings->device, now, planned);
	const struct vg_sample *device = monitor_series_latest(monitor->device);
	monitor_say(&monitor->events, VG_LOG_DEBUG, "%zu virtual GPUs, %g waiting, %g running; %.3f ms late",
		    monitor->count, device->queue_length.value, device->running.value, (double)device->late_ns / 1e6);
	check_watches(monitor);
	record_cost(monitor, now);
	pthread_mutex_unlock(&monitor->worker.lock);
	return VG_OK;
}
