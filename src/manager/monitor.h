// Declares the parts of the monitor for this directory. The monitor reads a manager, makes samples from the readings,
// keeps a history of samples, and makes events when a sample crosses a threshold. One thread takes samples; other
// threads only read what that thread stored. The lock protects the stored copies. It is not held while reading
// managers, calling back or logging.
#pragma once
#include "base/status.h"
#include "core/core.h"
#include "core/object.h"
#include "manager/worker.h"
#include "virgate/gpu.h"
#include "virgate/monitor.h"

#include <stdbool.h>

enum { MONITOR_NAME = 64, MONITOR_TOTALS = 3 };

// ---- readings of a manager (monitor_source.c) --------------------------

struct monitor_source {
	struct vg_manager *manager; // owns a reference
	struct vg_device *device;
	struct vg_gpu *gpu;   // NULL: NVML does not know the device
	unsigned interval_ms; // default interval of the manager
};
enum vg_status monitor_source_open(struct vg_manager *manager, struct monitor_source *ret_source);
void monitor_source_close(struct monitor_source *source);
bool monitor_source_has(const struct monitor_source *source, int id);

struct monitor_reading {
	struct vg_sample sample; // the fields are set, except times, rates and compute_utilization
	uint64_t serial;	 // number of the virtual GPU, which is never reused, unlike its id
	bool busy_known;
	uint64_t busy_ns; // GPU time since the creation; for the device: sum over all SMs, divided by their number
	char name[MONITOR_NAME];
};
struct monitor_readings {
	struct monitor_reading device;
	struct monitor_reading *virtual_gpus; // sorted by id
	size_t count, capacity;
};
// Fills `readings`, and enlarges its array. Fails with CLOSED if the manager is closed. Only for the monitor's thread.
enum vg_status monitor_read(const struct monitor_source *source, struct monitor_readings *readings);

// ---- series: the history of one virtual GPU, or of the device (monitor_series.c) ----

struct monitor_series {
	int id;
	uint64_t serial;
	char name[MONITOR_NAME];
	struct vg_sample *ring;
	size_t capacity, count, next; // `next`: index at which the next sample is stored
	bool busy_known;	      // true: the latest reading had a value for `busy_ns`
	uint64_t busy_ns;
};
// Creates an empty series. Returns NULL if out of memory.
struct monitor_series *monitor_series_create(const struct monitor_reading *reading, size_t capacity);
void monitor_series_destroy(struct monitor_series *series);
// Appends a sample made from a reading at time `now`, with the rates since the previous sample.
void monitor_series_add(struct monitor_series *series, const struct monitor_reading *reading, uint64_t now,
			uint64_t planned);
const struct vg_sample *monitor_series_latest(const struct monitor_series *series);
// Copies the latest `capacity` samples, oldest first. Returns their number.
size_t monitor_series_copy(const struct monitor_series *series, struct vg_sample *samples, size_t capacity);

// Returns the time at which the next sample is due, after the one at `planned`. Adds the number of skipped samples to
// *missed.
uint64_t monitor_next(uint64_t planned, uint64_t interval, uint64_t now, uint64_t *missed);

// ---- metrics (monitor_metric.c) ----

enum monitor_unit { MONITOR_BYTES, MONITOR_RATIO, MONITOR_COUNT, MONITOR_TOTAL, MONITOR_RATE };
enum monitor_unit monitor_metric_unit(enum vg_metric_name metric);
const struct vg_metric *monitor_metric(const struct vg_sample *sample, enum vg_metric_name metric);
static inline struct vg_metric monitor_known(double value)
{
	return (struct vg_metric){value, 1};
}

// ---- x ----

enum monitor_crossing { MONITOR_STAYS, MONITOR_GOES_BEYOND, MONITOR_COMES_BACK };
enum monitor_crossing monitor_cross(const struct vg_watch *watch, bool beyond, struct vg_metric metric);
enum vg_status monitor_watch_check(const struct vg_watch *watch);

struct monitor_watch {
	struct monitor_watch *next;
	uint64_t number;
	struct vg_watch watch;
	int *beyond; // ids of the virtual GPUs whose figure is beyond the threshold
	size_t count, capacity;
};
void monitor_watch_destroy(struct monitor_watch *watch);
void monitor_watch_forget(struct monitor_watch *watch, int id);

// ---- events of a sample (monitor_event.c) ----------------------------------------

struct monitor_event {
	enum vg_log_level level;
	char text[256];
	vg_watch_fn *callback; // NULL: only log the message
	void *user;
	struct vg_watch_event event;
	struct vg_sample sample;
};
struct monitor_events {
	struct monitor_event *all;
	size_t count, capacity;
};
// Makes room for one more element of an array. Returns false if out of memory.
bool monitor_grow(void **array, size_t count, size_t *capacity, size_t size);
// Adds an event with a message to the list. Returns NULL if out of memory.
__attribute__((format(printf, 3, 4))) struct monitor_event *
monitor_say(struct monitor_events *events, enum vg_log_level level, const char *format, ...);
// Compares the latest sample of a series with the threshold. Returns false if out of memory; the next sample tries
// again.
bool monitor_watch_look(struct monitor_watch *watch, const struct monitor_series *series,
			struct monitor_events *events);

// ---- the monitor ----

struct vg_monitor {
	struct monitor_source source;
	unsigned interval_ms;
	size_t history;
	_Atomic(enum vg_log_level) log_level;
	struct monitor_readings readings; // only the monitor's thread uses this and `events`
	struct monitor_events events;

	struct manager_worker worker; // the thread; its lock protects all members below
	uint64_t calling;	      // id of the watch whose callback is running; 0: none
	uint64_t last_watch;
	struct monitor_watch *watches;
	struct monitor_series *device;
	struct monitor_series **series; // sorted by id
	size_t count;
	double past[MONITOR_TOTALS]; // sum of the totals of closed virtual GPUs
	struct vg_monitor_info info;
};

// Takes the sample that was due at `planned`, stores it, and fills `events`. Fails with CLOSED if the manager is
// closed.
enum vg_status monitor_take_sample(struct vg_monitor *monitor, uint64_t planned);
// Logs the events and calls the callbacks. Call on the monitor's thread, without the lock.
void monitor_deliver(struct vg_monitor *monitor);
// Finds the series of an id. Returns NULL if the latest sample has no such id. Call with the lock held.
struct monitor_series *monitor_find(const struct vg_monitor *monitor, int id);
// Begins a public function: returns an error if `monitor` is NULL or the process was forked.
#define MONITOR_USABLE(monitor)                                                                                       \
	do {                                                                                                          \
		if (!(monitor))                                                                                       \
			return vg_fail(VG_INVALID, 0, "monitor is NULL");                                             \
		if (core_forked)                                                                                      \
			return vg_fail(VG_STATE, 0, "this process was forked: the monitor's thread is the parent's"); \
	} while (0)
