// Reads what a monitor has sampled, and adds and removes watches.
#include "manager/monitor.h"

#include <stdio.h>
#include <stdlib.h>

// Sets the error for an id without a series.
static enum vg_status fail_unknown_id(struct vg_monitor *monitor, int id)
{
	char ids[400] = "none";
	size_t used = 0;

	if (id < 0)
		return vg_fail(VG_INVALID, 0, "id %d: virtual GPUs have ids from 1 on, 0 is the device", id);
	if (monitor_source_has(&monitor->source, id))
		return vg_fail(VG_NOT_READY, 0,
			       "virtual GPU %d has not been sampled yet: samples are taken every %u ms", id,
			       monitor->interval_ms);
	pthread_mutex_lock(&monitor->worker.lock);
	for (size_t i = 0; i < monitor->count && used < sizeof ids - 16; i++)
		used += (size_t)snprintf(ids + used, sizeof ids - used, "%s%d", used ? ", " : "",
					 monitor->series[i]->id);
	pthread_mutex_unlock(&monitor->worker.lock);
	return vg_fail(VG_NOT_FOUND, 0, "no virtual GPU %d; existing ids: %s", id, ids);
}

enum vg_status vg_monitor_sample(struct vg_monitor *monitor, int id, struct vg_sample *ret_sample)
{
	VG_ENTRY();
	MONITOR_USABLE(monitor);
	CORE_NEEDED(ret_sample);
	pthread_mutex_lock(&monitor->worker.lock);
	const struct monitor_series *series = monitor_find(monitor, id);
	if (series)
		*ret_sample = *monitor_series_latest(series);
	pthread_mutex_unlock(&monitor->worker.lock);
	return series ? VG_OK : fail_unknown_id(monitor, id);
}

enum vg_status vg_monitor_history(struct vg_monitor *monitor, int id, struct vg_sample *samples, size_t capacity,
				  size_t *ret_count)
{
	VG_ENTRY();
	MONITOR_USABLE(monitor);
	CORE_NEEDED(ret_count);
	if (capacity)
		CORE_NEEDED(samples);
	pthread_mutex_lock(&monitor->worker.lock);
	const struct monitor_series *series = monitor_find(monitor, id);
	if (series)
		*ret_count = capacity ? monitor_series_copy(series, samples, capacity) : series->count;
	pthread_mutex_unlock(&monitor->worker.lock);
	return series ? VG_OK : fail_unknown_id(monitor, id);
}

enum vg_status vg_monitor_watch(struct vg_monitor *monitor, const struct vg_watch *watch, uint64_t *ret_watch)
{
	VG_ENTRY();
	struct vg_watch asked;

	MONITOR_USABLE(monitor);
	CORE_NEEDED(watch);
	CORE_NEEDED(ret_watch);
	CORE_OPTIONS(asked, watch);
	enum vg_status status = monitor_watch_check(&asked);
	if (status)
		return status;
	struct monitor_watch *added = calloc(1, sizeof *added);
	if (!added)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a watch");
	added->watch = asked;
	pthread_mutex_lock(&monitor->worker.lock);
	bool closed = monitor->worker.stopping, there = asked.id == VG_WATCH_ALL || monitor_find(monitor, asked.id);
	if (closed || !(there || monitor_source_has(&monitor->source, asked.id))) {
		pthread_mutex_unlock(&monitor->worker.lock);
		monitor_watch_destroy(added);
		return closed ? vg_fail(VG_CLOSED, 0, "the monitor has been closed")
			      : fail_unknown_id(monitor, asked.id);
	}
	*ret_watch = added->number = ++monitor->last_watch;
	struct monitor_watch **end = &monitor->watches;
	while (*end) // the list is kept in the order of creation, because callbacks run in that order
		end = &(*end)->next;
	*end = added;
	pthread_mutex_unlock(&monitor->worker.lock);
	return VG_OK;
}

enum vg_status vg_monitor_unwatch(struct vg_monitor *monitor, uint64_t number)
{
	VG_ENTRY();
	MONITOR_USABLE(monitor);
	pthread_mutex_lock(&monitor->worker.lock);
	struct monitor_watch **place = &monitor->watches;
	while (*place && (*place)->number != number)
		place = &(*place)->next;
	struct monitor_watch *watch = *place;
	if (watch)
		*place = watch->next;
	bool own = manager_worker_is_self(&monitor->worker);
	while (watch && !own && monitor->calling == number)
		pthread_cond_wait(&monitor->worker.changed, &monitor->worker.lock);
	pthread_mutex_unlock(&monitor->worker.lock);
	if (!watch)
		return vg_fail(VG_NOT_FOUND, 0, "there is no watch %llu", (unsigned long long)number);
	monitor_watch_destroy(watch);
	return VG_OK;
}
