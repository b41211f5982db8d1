// Creates and closes monitors, and runs their thread.
#include "manager/monitor.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/size.h"

#include <stdlib.h>

enum { DEFAULT_HISTORY = 600 };

// Waits until the time `when`. Returns false if the monitor is being closed. Call with the lock held.
static bool sleep_until(struct vg_monitor *monitor, uint64_t when)
{
	while (!monitor->worker.stopping && vg_clock_monotonic_ns() < when)
		manager_worker_sleep(&monitor->worker, when);
	return !monitor->worker.stopping;
}

// Takes a sample. Returns false if the manager is closed.
static bool sample_once(struct vg_monitor *monitor, uint64_t planned)
{
	enum vg_status status = monitor_take_sample(monitor, planned);

	if (status == VG_CLOSED)
		monitor_say(&monitor->events, VG_LOG_ERROR, "sampling has ended: the manager was closed");
	else if (status)
		monitor_say(&monitor->events, VG_LOG_WARNING, "a sample is missing: %s", vg_last_error()->text);
	monitor_deliver(monitor);
	return status != VG_CLOSED;
}

static void *run_monitor(void *argument)
{
	struct vg_monitor *monitor = argument;
	uint64_t interval = monitor->interval_ms * UINT64_C(1000000);
	uint64_t planned = monitor->device->ring[0].time_ns - monitor->device->ring[0].late_ns;

	monitor_deliver(monitor); // log the events of the first sample
	pthread_mutex_lock(&monitor->worker.lock);
	for (bool more = true; more;) {
		planned = monitor_next(planned, interval, vg_clock_monotonic_ns(), &monitor->info.missed);
		if (!sleep_until(monitor, planned))
			break;
		pthread_mutex_unlock(&monitor->worker.lock);
		more = sample_once(monitor, planned);
		pthread_mutex_lock(&monitor->worker.lock);
	}
	monitor->info.sampling = 0;
	pthread_mutex_unlock(&monitor->worker.lock);
	return NULL;
}

static void free_monitor(struct vg_monitor *monitor)
{
	for (struct monitor_watch *watch = monitor->watches, *next; watch; watch = next) {
		next = watch->next;
		monitor_watch_destroy(watch);
	}
	for (size_t i = 0; i < monitor->count; i++)
		monitor_series_destroy(monitor->series[i]);
	free(monitor->series);
	monitor_series_destroy(monitor->device);
	free(monitor->readings.virtual_gpus);
	free(monitor->events.all);
	monitor_source_close(&monitor->source);
	free(monitor);
}

static enum vg_status check_options(const struct vg_monitor_options *options)
{
	char each[VG_SIZE_TEXT];

	if (options->interval_ms > VG_MONITOR_MAX_INTERVAL_MS)
		return vg_fail(VG_LIMIT, 0, "an interval of %u ms: at most %d", options->interval_ms,
			       VG_MONITOR_MAX_INTERVAL_MS);
	if (options->history > VG_MONITOR_MAX_HISTORY)
		return vg_fail(VG_LIMIT, 0, "a history of %zu samples: at most %d, which take %s of each virtual GPU",
			       options->history, VG_MONITOR_MAX_HISTORY,
			       vg_size_format(VG_MONITOR_MAX_HISTORY * sizeof(struct vg_sample), each));
	if ((unsigned)options->log_level > VG_LOG_DEBUG)
		return vg_fail(VG_INVALID, 0, "log level %d: there are 0 to %d", options->log_level, VG_LOG_DEBUG);
	return VG_OK;
}

enum vg_status vg_monitor_create(struct vg_manager *manager, const struct vg_monitor_options *options,
				 struct vg_monitor **ret_monitor)
{
	VG_ENTRY();
	struct vg_monitor_options asked;

	CORE_NEEDED(manager);
	CORE_NEEDED(ret_monitor);
	CORE_OPTIONS(asked, options);
	enum vg_status status = check_options(&asked);
	if (status)
		return status;
	struct vg_monitor *monitor = calloc(1, sizeof *monitor);
	if (!monitor)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a monitor");
	manager_worker_init(&monitor->worker);
	status = monitor_source_open(manager, &monitor->source);
	monitor->interval_ms = asked.interval_ms ? asked.interval_ms : monitor->source.interval_ms;
	monitor->history = asked.history ? asked.history : DEFAULT_HISTORY;
	monitor->log_level = asked.log_level;
	monitor->info = (struct vg_monitor_info){
		.interval_ms = monitor->interval_ms, .history = monitor->history, .sampling = 1};
	if (status)
		goto fail;
	status = monitor_take_sample(monitor, vg_clock_monotonic_ns());
	if (status)
		goto fail;
	status = manager_worker_start(&monitor->worker, run_monitor, monitor, "monitor");
	if (status)
		goto fail;
	*ret_monitor = monitor;
	return VG_OK;
fail:
	free_monitor(monitor);
	return status;
}

enum vg_status vg_monitor_close(struct vg_monitor *monitor)
{
	VG_ENTRY();
	MONITOR_USABLE(monitor);
	return manager_worker_stop(&monitor->worker, "monitor");
}

void vg_monitor_destroy(struct vg_monitor *monitor)
{
	if (!monitor)
		return;
	if (!core_forked && vg_monitor_close(monitor)) {
		vg_log(VG_LOG_ERROR, "destroying a monitor: %s", vg_last_error()->text);
		return;
	}
	free_monitor(monitor);
}

enum vg_status vg_monitor_set_log_level(struct vg_monitor *monitor, enum vg_log_level level)
{
	VG_ENTRY();
	MONITOR_USABLE(monitor);
	if ((unsigned)level > VG_LOG_DEBUG)
		return vg_fail(VG_INVALID, 0, "log level %d: there are 0 to %d", level, VG_LOG_DEBUG);
	monitor->log_level = level;
	return VG_OK;
}

enum vg_status vg_monitor_info(struct vg_monitor *monitor, struct vg_monitor_info *ret_info)
{
	VG_ENTRY();
	MONITOR_USABLE(monitor);
	CORE_NEEDED(ret_info);
	pthread_mutex_lock(&monitor->worker.lock);
	*ret_info = monitor->info;
	for (const struct monitor_watch *watch = monitor->watches; watch; watch = watch->next)
		ret_info->watches++;
	pthread_mutex_unlock(&monitor->worker.lock);
	return VG_OK;
}
