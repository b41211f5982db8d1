// Keeps the history of one virtual GPU, or of the device: a ring buffer of samples, with rates between them. Also
// computes when the next sample is due.
#include "manager/monitor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct monitor_series *monitor_series_create(const struct monitor_reading *reading, size_t capacity)
{
	struct monitor_series *series = calloc(1, sizeof *series);

	if (!series)
		return NULL;
	series->ring = calloc(capacity, sizeof *series->ring);
	if (!series->ring) {
		free(series);
		return NULL;
	}
	series->id = reading->sample.id;
	series->serial = reading->serial;
	series->capacity = capacity;
	snprintf(series->name, sizeof series->name, "%s", reading->name);
	return series;
}

void monitor_series_destroy(struct monitor_series *series)
{
	if (!series)
		return;
	free(series->ring);
	free(series);
}

const struct vg_sample *monitor_series_latest(const struct monitor_series *series)
{
	return series->count ? &series->ring[(series->next + series->capacity - 1) % series->capacity] : NULL;
}

// Returns the rate per second. The rate is unknown if either total is unknown, or if the total has decreased.
static struct vg_metric compute_rate(struct vg_metric before, struct vg_metric now, uint64_t interval_ns)
{
	if (!before.known || !now.known || !interval_ns || now.value < before.value)
		return (struct vg_metric){0};
	return monitor_known((now.value - before.value) * 1e9 / (double)interval_ns);
}

static struct vg_metric compute_utilization(const struct monitor_series *series, const struct monitor_reading *reading,
					    uint64_t interval_ns)
{
	if (!series->busy_known || !reading->busy_known || !interval_ns || reading->busy_ns < series->busy_ns)
		return (struct vg_metric){0};
	// The time of a quantum is counted when the quantum ends. If a quantum began before this interval, the ratio
	// may exceed 1.
	double part = (double)(reading->busy_ns - series->busy_ns) / (double)interval_ns;
	return monitor_known(part < 1 ? part : 1);
}

void monitor_series_add(struct monitor_series *series, const struct monitor_reading *reading, uint64_t now,
			uint64_t planned)
{
	const struct vg_sample *before = monitor_series_latest(series);
	struct vg_sample *sample = &series->ring[series->next];
	struct vg_sample taken = reading->sample;

	taken.time_ns = now;
	taken.late_ns = now > planned ? now - planned : 0;
	if (before) {
		taken.interval_ns = now - before->time_ns;
		taken.launch_rate = compute_rate(before->launches, taken.launches, taken.interval_ns);
		taken.failure_rate = compute_rate(before->failures, taken.failures, taken.interval_ns);
		taken.compute_utilization = compute_utilization(series, reading, taken.interval_ns);
	}
	*sample = taken; // store this last: in a ring of one element, `before` points to the same element
	series->next = (series->next + 1) % series->capacity;
	if (series->count < series->capacity)
		series->count++;
	series->busy_known = reading->busy_known;
	series->busy_ns = reading->busy_ns;
}

size_t monitor_series_copy(const struct monitor_series *series, struct vg_sample *samples, size_t capacity)
{
	size_t count = series->count < capacity ? series->count : capacity;
	size_t first = (series->next + series->capacity - count) % series->capacity;
	size_t tail = series->capacity - first;

	if (tail > count)
		tail = count;
	if (count) {
		memcpy(samples, series->ring + first, tail * sizeof *samples);
		memcpy(samples + tail, series->ring, (count - tail) * sizeof *samples);
	}
	return count;
}

uint64_t monitor_next(uint64_t planned, uint64_t interval, uint64_t now, uint64_t *missed)
{
	planned += interval;
	if (now < planned)
		return planned;
	uint64_t late = (now - planned) / interval; // skip whole intervals, because late samples would all be equal
	*missed += late;
	return planned + late * interval;
}
