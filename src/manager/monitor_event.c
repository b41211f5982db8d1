// Logs and delivers the events of a sample. They were collected with the monitor's lock held, and are delivered without
// it.
#include "manager/monitor.h"

#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bool monitor_grow(void **array, size_t count, size_t *capacity, size_t size)
{
	if (count < *capacity)
		return true;
	size_t more = *capacity ? 2 * *capacity : 8;
	void *grown = reallocarray(*array, more, size);
	if (!grown)
		return false;
	*array = grown;
	*capacity = more;
	return true;
}

struct monitor_event *monitor_say(struct monitor_events *events, enum vg_log_level level, const char *format, ...)
{
	va_list arguments;

	if (!monitor_grow((void **)&events->all, events->count, &events->capacity, sizeof *events->all))
		return NULL;
	struct monitor_event *event = &events->all[events->count++];
	*event = (struct monitor_event){.level = level};
	va_start(arguments, format);
	vsnprintf(event->text, sizeof event->text, format, arguments);
	va_end(arguments);
	return event;
}

static bool is_watched(const struct vg_monitor *monitor, uint64_t number)
{
	for (const struct monitor_watch *watch = monitor->watches; watch; watch = watch->next)
		if (watch->number == number)
			return true;
	return false;
}

// Calls an event's callback, unless the watch was removed meanwhile. An earlier callback may have removed the watch.
static void deliver_event(struct vg_monitor *monitor, struct monitor_event *event)
{
	pthread_mutex_lock(&monitor->worker.lock);
	bool wanted = !monitor->worker.stopping && is_watched(monitor, event->event.watch);
	if (wanted)
		monitor->calling = event->event.watch;
	pthread_mutex_unlock(&monitor->worker.lock);
	if (!wanted)
		return;
	event->event.sample = &event->sample;
	event->callback(event->user, &event->event);
	pthread_mutex_lock(&monitor->worker.lock);
	monitor->calling = 0;
	pthread_cond_broadcast(&monitor->worker.changed);
	pthread_mutex_unlock(&monitor->worker.lock);
}

void monitor_deliver(struct vg_monitor *monitor)
{
	for (size_t i = 0; i < monitor->events.count; i++) {
		struct monitor_event *event = &monitor->events.all[i];
		if (event->level <= monitor->log_level)
			vg_log(event->level, "monitor: %s", event->text);
		if (event->callback)
			deliver_event(monitor, event);
	}
	monitor->events.count = 0;
}
