// Compares samples with the thresholds of watches. Makes an event when a figure crosses its threshold, and when the
// figure returns.
#include "manager/monitor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Tolerance of the comparisons with a threshold, because decimal fractions are rounded.
static const double slack = 1e-9;

enum monitor_crossing monitor_cross(const struct vg_watch *watch, bool beyond, struct vg_metric metric)
{
	double over = watch->side == VG_WATCH_ABOVE ? metric.value - watch->threshold : watch->threshold - metric.value;

	if (!metric.known)
		return MONITOR_STAYS;
	if (beyond)
		return over <= slack - watch->hysteresis ? MONITOR_COMES_BACK : MONITOR_STAYS;
	return over > slack ? MONITOR_GOES_BEYOND : MONITOR_STAYS;
}

enum vg_status monitor_watch_check(const struct vg_watch *watch)
{
	double threshold = watch->threshold, hysteresis = watch->hysteresis;
	bool above = watch->side == VG_WATCH_ABOVE;

	if ((unsigned)watch->metric >= VG_METRIC_COUNT)
		return vg_fail(VG_INVALID, 0, "metric %d: there are 0 to %d", watch->metric, VG_METRIC_COUNT - 1);
	const char *name = vg_metric_text(watch->metric);
	bool ratio = monitor_metric_unit(watch->metric) == MONITOR_RATIO;
	if (!above && watch->side != VG_WATCH_BELOW)
		return vg_fail(VG_INVALID, 0, "side %d: it is VG_WATCH_ABOVE or VG_WATCH_BELOW", watch->side);
	if (!watch->callback)
		return vg_fail(VG_INVALID, 0, "the watch of %s has no callback", name);
	if (!isfinite(threshold) || threshold < 0 || (ratio && threshold > 1))
		return vg_fail(VG_INVALID, 0, "a threshold of %g: %s is from 0 on%s", threshold, name,
			       ratio ? ", and at most 1" : "");
	if (!isfinite(hysteresis) || hysteresis < 0)
		return vg_fail(VG_INVALID, 0, "a hysteresis of %g: it is from 0 on", hysteresis);
	if (above ? ratio && threshold == 1 : threshold == 0)
		return vg_fail(VG_INVALID, 0, "%s is never %s %g", name, above ? "above" : "below", threshold);
	if (above ? hysteresis > threshold + slack : ratio && hysteresis > 1 - threshold + slack)
		return vg_fail(VG_INVALID, 0,
			       "%s beyond a threshold of %g could never come back by a hysteresis of %g: at most %g",
			       name, threshold, hysteresis, above ? threshold : 1 - threshold);
	return VG_OK;
}

void monitor_watch_destroy(struct monitor_watch *watch)
{
	free(watch->beyond);
	free(watch);
}

static size_t find_position(const struct monitor_watch *watch, int id)
{
	size_t i = 0;

	while (i < watch->count && watch->beyond[i] != id)
		i++;
	return i;
}

void monitor_watch_forget(struct monitor_watch *watch, int id)
{
	size_t i = find_position(watch, id);

	if (i == watch->count)
		return;
	watch->count--;
	memmove(watch->beyond + i, watch->beyond + i + 1, (watch->count - i) * sizeof *watch->beyond);
}

// Records in `beyond` whether the figure of the virtual GPU or device with this id is beyond the threshold. Returns
// false if out of memory.
static bool mark_beyond(struct monitor_watch *watch, int id, bool beyond)
{
	if (!beyond) {
		monitor_watch_forget(watch, id);
		return true;
	}
	if (!monitor_grow((void **)&watch->beyond, watch->count, &watch->capacity, sizeof *watch->beyond))
		return false;
	watch->beyond[watch->count++] = id;
	return true;
}

static struct monitor_event *add_crossing(const struct vg_watch *watch, const struct monitor_series *series,
					  double value, bool beyond, struct monitor_events *events)
{
	const char *metric = vg_metric_text(watch->metric), *side = watch->side == VG_WATCH_ABOVE ? "above" : "below";
	char subject[MONITOR_NAME + 32];

	if (series->id == VG_WATCH_DEVICE)
		snprintf(subject, sizeof subject, "device %s", series->name);
	else
		snprintf(subject, sizeof subject, "virtual GPU %d (%s)", series->id, series->name);
	if (beyond)
		return monitor_say(events, VG_LOG_WARNING, "%s: %s is %g, %s %g", subject, metric, value, side,
				   watch->threshold);
	return monitor_say(events, VG_LOG_INFO, "%s: %s is back at %g, no longer %s %g", subject, metric, value, side,
			   watch->threshold);
}

bool monitor_watch_look(struct monitor_watch *watch, const struct monitor_series *series, struct monitor_events *events)
{
	const struct vg_watch *asked = &watch->watch;
	const struct vg_sample *sample = monitor_series_latest(series);

	if (asked->id == VG_WATCH_ALL ? series->id == VG_WATCH_DEVICE : series->id != asked->id)
		return true;
	struct vg_metric metric = *monitor_metric(sample, asked->metric);
	bool was = find_position(watch, series->id) < watch->count;
	enum monitor_crossing crossing = monitor_cross(asked, was, metric);
	if (crossing == MONITOR_STAYS)
		return true;
	bool beyond = crossing == MONITOR_GOES_BEYOND;
	if (!mark_beyond(watch, series->id, beyond))
		return false;
	struct monitor_event *event = add_crossing(asked, series, metric.value, beyond, events);
	if (!event)
		return mark_beyond(watch, series->id, was) &&
		       false; // cannot fail: if mark_beyond() puts the id back, the array still has room for it
	event->callback = asked->callback;
	event->user = asked->user;
	event->sample = *sample;
	event->event = (struct vg_watch_event){
		watch->number, series->id, beyond, asked->metric, metric.value, asked->threshold, NULL,
	};
	return true;
}
