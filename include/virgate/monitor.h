/* A monitor: a thread that samples a manager's device and its virtual GPUs, keeps the samples, and calls back when a
 * figure crosses a threshold.
 *
 * * Sampling does not block other threads: it takes the same short locks as an info function, makes no call that waits
 * for the GPU, and runs in the monitor's own thread. vg_monitor_info() returns the time that sampling takes: with 64
 * virtual GPUs on an H200, 4.6 us for each of them. If the last reference to a virtual GPU is dropped while a sample
 * reads it, it is closed after that.
 *
 * * Unknown figures are marked, and never 0. Samples are planned at multiples of the interval from the first one on,
 * so that they do not drift. A late sample has its delay; one that would be a whole interval late is omitted and
 * counted. Times are of CLOCK_MONOTONIC, in nanoseconds. In a forked child, which lacks the thread, every call fails
 * with STATE. */
#ifndef VIRGATE_MONITOR_H
#define VIRGATE_MONITOR_H

#include <stddef.h>
#include <stdint.h>

#include <virgate/log.h>
#include <virgate/manager.h>
#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_monitor;

/* A figure that may be unknown: `value` is valid only if `known` is not 0. */
struct vg_metric {
	double value;
	int known;
};

/* X(NAME, field of struct vg_sample, unit). Ratios are 0 to 1; totals are since the virtual GPU was created, rates per
 * second since the sample before. */
#define VG_METRIC_LIST(X)                                  \
	X(MEMORY_HELD, memory_held, BYTES)                 \
	X(MEMORY_ALLOCATED, memory_allocated, BYTES)       \
	X(MEMORY_LIMIT, memory_limit, BYTES)               \
	X(MEMORY_UTILIZATION, memory_utilization, RATIO)   \
	X(FRAGMENTATION, fragmentation, RATIO)             \
	X(COMPUTE_SHARE, compute_share, RATIO)             \
	X(COMPUTE_UTILIZATION, compute_utilization, RATIO) \
	X(QUEUE_LENGTH, queue_length, COUNT)               \
	X(RUNNING, running, COUNT)                         \
	X(LAUNCHES, launches, TOTAL)                       \
	X(FAILURES, failures, TOTAL)                       \
	X(CANCELLED, cancelled, TOTAL)                     \
	X(LAUNCH_RATE, launch_rate, RATE)                  \
	X(FAILURE_RATE, failure_rate, RATE)                \
	X(VIRTUAL_GPUS, virtual_gpus, COUNT)

enum vg_metric_name {
#define X(name, field, unit) VG_METRIC_##name,
	VG_METRIC_LIST(X)
#undef X
		VG_METRIC_COUNT
};
/* Returns the name of a metric, such as "memory_held"; "unknown metric" for a value outside the list. Any thread. */
VG_PUBLIC const char *vg_metric_text(enum vg_metric_name metric);

/* From which source the used memory of a device was read. */
enum vg_memory_source {
	VG_MEMORY_SOURCE_NONE,	 /* unknown */
	VG_MEMORY_SOURCE_NVML,	 /* NVML: memory of all processes and of the driver itself */
	VG_MEMORY_SOURCE_DRIVER, /* cuMemGetInfo, if NVML does not know the device */
	VG_MEMORY_SOURCE_LEDGER	 /* the manager's ledger, for a virtual GPU */
};

/* The figures of one virtual GPU, or of the device, at one time. */
struct vg_sample {
	uint64_t time_ns;     /* time at which the figures were read */
	uint64_t interval_ns; /* time since the previous sample; 0: this is the first sample, so rates are unknown */
	uint64_t late_ns;     /* how much later than planned the sample was taken */
	int id;		      /* id of the virtual GPU; 0: the device */
	enum vg_virtual_gpu_status status; /* status of the virtual GPU; for the device: VG_VIRTUAL_GPU_RUNNING */
	enum vg_memory_source memory_source;
	struct vg_metric memory_held; /* device memory in pages; for the device: memory that all processes use */
	/* Bytes that programs requested; for the device: the sum over its virtual GPUs. */
	struct vg_metric memory_allocated;
	struct vg_metric memory_limit;	     /* limit in bytes; for the device: the size of its memory */
	struct vg_metric memory_utilization; /* charged / limit */
	struct vg_metric fragmentation;	     /* as in memory_space.h; unknown for the device */
	/* Requested compute share; of the device: the sum over its virtual GPUs. */
	struct vg_metric compute_share;
	/* Measured GPU time divided by the time since the previous sample, at most 1. */
	struct vg_metric compute_utilization;
	/* Number of waiting executions; of the device: the sum over its virtual GPUs. */
	struct vg_metric queue_length;
	struct vg_metric running;			/* number of running executions */
	struct vg_metric launches, failures, cancelled; /* executions */
	struct vg_metric launch_rate, failure_rate;
	struct vg_metric virtual_gpus; /* number of virtual GPUs of the device; unknown for a virtual GPU */
};

enum {
	VG_MONITOR_MAX_HISTORY = 100000,     /* samples */
	VG_MONITOR_MAX_INTERVAL_MS = 3600000 /* an hour */
};

struct vg_monitor_options {
	size_t size;	      /* sizeof(struct vg_monitor_options) */
	unsigned interval_ms; /* interval between samples; 0: the manager's monitoring_interval_ms */
	size_t history;	      /* number of samples to keep for each virtual GPU and for the device; 0: 600 */
	enum vg_log_level
		log_level; /* which messages of the monitor go to the log callback: see vg_monitor_set_log_level() */
};
/* Takes a first sample and starts the thread. `options` may be NULL. The monitor keeps a reference to the manager.
 * If the manager is closed, sampling ends, and the samples stay readable. The caller owns *ret_monitor and ends it
 * with vg_monitor_destroy(). INVALID, CLOSED, LIMIT (a longer history or interval than above: the text says what it
 * would take), NO_MEMORY, SYSTEM (no thread), STATE. Any thread. */
VG_PUBLIC enum vg_status vg_monitor_create(struct vg_manager *manager, const struct vg_monitor_options *options,
					   struct vg_monitor **ret_monitor);
/* Ends the monitor's thread. Waits for a running callback; no callback is called later. Samples stay readable. May
 * be called twice. STATE: called by a callback of this monitor, which would wait for itself; then nothing has
 * changed. Any thread. */
VG_PUBLIC enum vg_status vg_monitor_close(struct vg_monitor *monitor);
/* Closes the monitor, and drops the caller's reference. Accepts NULL. If a callback of this monitor calls it,
 * nothing is destroyed: it sets the last error STATE and reports that to the log callback, and the caller keeps the
 * reference. Any thread. */
VG_PUBLIC void vg_monitor_destroy(struct vg_monitor *monitor);

/* Copies the latest sample of a virtual GPU, or, with `id` 0, of the device. NOT_FOUND (no such virtual GPU; the
 * text lists the ids), NOT_READY (no sample was taken since the virtual GPU was created), INVALID, STATE. Any
 * thread. */
VG_PUBLIC enum vg_status vg_monitor_sample(struct vg_monitor *monitor, int id, struct vg_sample *ret_sample);
/* Copies the kept samples, oldest first, but only the last `capacity` of them. *ret_count: number of copied samples.
 * With `capacity` 0, `samples` may be NULL, and *ret_count is the number of kept samples. The samples of a virtual
 * GPU are removed with it. Otherwise like vg_monitor_sample(). Any thread. */
VG_PUBLIC enum vg_status vg_monitor_history(struct vg_monitor *monitor, int id, struct vg_sample *samples,
					    size_t capacity, size_t *ret_count);

/* ---- thresholds ---- */

enum vg_watch_side { VG_WATCH_ABOVE, VG_WATCH_BELOW };
enum { VG_WATCH_DEVICE = 0, VG_WATCH_ALL = -1 /* every virtual GPU, also those to come */ };

struct vg_watch_event {
	uint64_t watch; /* the number that vg_monitor_watch() returned */
	int id;		/* id of the virtual GPU; 0: the device */
	int beyond;	/* 1: the figure has gone beyond the threshold; 0: it is back */
	enum vg_metric_name metric;
	double value, threshold;
	const struct vg_sample *sample; /* the sample that crossed the threshold; valid during the callback */
};
typedef void vg_watch_fn(void *user, const struct vg_watch_event *event);

struct vg_watch {
	size_t size; /* sizeof(struct vg_watch) */
	int id;	     /* id of a virtual GPU, or VG_WATCH_DEVICE, or VG_WATCH_ALL */
	enum vg_metric_name metric;
	enum vg_watch_side side;
	double threshold;  /* 0 to 1 for a ratio, else from 0 on */
	double hysteresis; /* how far back from the threshold the figure must come to count as back */
	vg_watch_fn *callback;
	void *user;
};
/* Calls back once when the figure goes beyond the threshold, above or below it, and once when it has returned by
 * `hysteresis`. The first sample after this call may already be such a crossing. An unknown figure changes nothing.
 * Callbacks run one after another in the monitor's thread, without locks. They may use the library, remove watches, and
 * destroy any object except this monitor. During a callback no sample is taken. If a virtual GPU is destroyed while its
 * figure is beyond the threshold, no callback reports a return. INVALID with figures (a threshold or hysteresis that
 * nothing could cross, no callback), NOT_FOUND (no such virtual GPU), NO_MEMORY, CLOSED, STATE. Any thread. */
VG_PUBLIC enum vg_status vg_monitor_watch(struct vg_monitor *monitor, const struct vg_watch *watch,
					  uint64_t *ret_watch);
/* Ends the callbacks of a watch. Waits for a running one, unless that callback itself calls this. NOT_FOUND,
 * INVALID, STATE. Any thread. */
VG_PUBLIC enum vg_status vg_monitor_unwatch(struct vg_monitor *monitor, uint64_t watch);

/* ---- words ---- */

/* Sets which messages go to the callback of vg_log_set(). ERROR: a virtual GPU failed, or sampling ended. WARNING:
 * also figures that go beyond a threshold. INFO: also figures that come back, and virtual GPUs that are created,
 * destroyed, paused or resumed. DEBUG: also each sample of the device, and whether it was late. INVALID. Any thread. */
VG_PUBLIC enum vg_status vg_monitor_set_log_level(struct vg_monitor *monitor, enum vg_log_level level);

struct vg_monitor_info {
	unsigned interval_ms;
	int sampling;	     /* 0: the monitor or its manager is closed */
	size_t history;	     /* number of samples that are kept for each virtual GPU and for the device */
	size_t virtual_gpus; /* number of virtual GPUs in the latest sample */
	size_t watches;
	/* Number of samples that were taken, and of those omitted because the previous one was too late. */
	uint64_t samples, missed;
	uint64_t cost_ns, longest_cost_ns,
		total_cost_ns; /* time for taking a sample: the latest, the longest, and the sum of all */
};
/* Fills in the figures of the monitor. INVALID, STATE. Any thread. */
VG_PUBLIC enum vg_status vg_monitor_info(struct vg_monitor *monitor, struct vg_monitor_info *ret_info);

/* The latest samples as one JSON object, a text that the caller frees with free():
 *
 *   {"schema": 1, "time_ns", "interval_ms", "samples", "missed", "sampling": true,
 *    "device": {"ordinal", "name", "uuid", "memory_source": "nvml", "driver" or null, SAMPLE},
 *    "virtual_gpus": [{"id", "name", "status": "running", …, SAMPLE}],
 *    "watches": [{"watch", "id", "metric", "side": "above" or "below", "threshold", "hysteresis", "beyond": [ids]}]}
 *
 * where SAMPLE is "time_ns", "interval_ns", "late_ns" and "metrics", an object with every name of the list above. What
 * is unknown is null. "time_ns" at the top is that of the device's sample. NO_MEMORY, INVALID, STATE. Any thread. */
VG_PUBLIC enum vg_status vg_monitor_json(struct vg_monitor *monitor, char **ret_text);

#ifdef __cplusplus
}
#endif
#endif
