/* Compute shares inside a program: units with a part of a device's SM-seconds, kernels by name, executions.
 *
 * * A scheduler has one thread. Submitted work waits in virtual streams of its unit until the unit's turn. A quantum is
 * an exclusive period of GPU time of one unit. The GPU time from its first kernel to its last is measured and accounted
 * to the unit. The next quantum is queued while one runs, and waits on the GPU for its end.
 *
 * * A kernel that faults makes all contexts of the process unusable, on every device: all executions are
 * VG_EXECUTION_FAILED, and later submissions fail with the driver's code. Only a new process can use the GPU again.
 * In a forked child every call fails with VG_STATE. */
#ifndef VIRGATE_COMPUTE_H
#define VIRGATE_COMPUTE_H

#include <stddef.h>
#include <stdint.h>

#include <virgate/device.h>
#include <virgate/kernel.h>
#include <virgate/launch.h>
#include <virgate/object_code.h>
#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_compute;	/* the scheduler of a device */
struct vg_compute_unit; /* a unit, which has a compute share of the device */
struct vg_execution;	/* one submitted piece of work */

/* ---- the scheduler -------------------------------------------------------------------------------- */

/* How the scheduler chooses the next unit among those that have work. */
enum vg_compute_policy {
	VG_COMPUTE_ROUND_ROBIN, /* units run in turn, each for a time slice, regardless of their shares */
	/* Chooses the unit for which the sum of the unit's priority and that of its most urgent work is highest. Units
	 * with a lower sum wait as long as others have work, possibly for ever. A turn lasts a time slice, unless
	 * .preemption ends it. */
	VG_COMPUTE_PRIORITY,
	VG_COMPUTE_WEIGHTED_FAIR, /* fewest SM-seconds relative to the share; idle time is not credited */
};
enum vg_compute_placement {
	VG_PLACEMENT_AUTOMATIC, /* SM groups if they match all shares within the tolerance, otherwise time slices */
	VG_PLACEMENT_TIME,	/* exclusive quanta of the whole device */
	VG_PLACEMENT_GROUPS,	/* SM groups of the nearest size; units without a group use the rest in time slices */
};

struct vg_compute_options {
	size_t size; /* sizeof(struct vg_compute_options) */
	/* Number of units, and of virtual compute units of the device, at most 1024; 0: 16. */
	unsigned max_units;
	enum vg_compute_policy policy;	     /* 0: round robin */
	enum vg_compute_placement placement; /* 0: automatic */
	/* Largest allowed difference between a group and its unit's share, 0…1; 0: 0.01. */
	double group_tolerance;
	unsigned time_slice_ms;		 /* longest turn of a unit while others wait; 0: 100 */
	unsigned monitoring_interval_ms; /* utilization is measured over the last such interval; 0: 100 */
	/* Nonzero: a unit stays in its SM group even while units of other groups are idle. 0: while a unit with a
	 * group is idle, the other units share the whole device in time, and so use its SMs. Idle units never get
	 * time. */
	int no_dynamic_scaling;
	int preemption; /* nonzero: work of higher priority ends a turn after the kernels that were launched */
};

/* Creates a scheduler. `options` may be NULL. Retains the device's primary context and starts the scheduler's
 * thread. The caller owns *ret_compute and ends it with vg_compute_destroy(). INVALID, LIMIT, STATE, NO_MEMORY,
 * SYSTEM (no thread), DRIVER. Any thread. Source: cuDevicePrimaryCtxRetain. */
VG_PUBLIC enum vg_status vg_compute_create(struct vg_device *device, const struct vg_compute_options *options,
					   struct vg_compute **ret_compute);
/* Closes all units of the scheduler like vg_compute_unit_close(), and ends its thread. Later calls fail with CLOSED.
 * BUSY if a unit has work that has not ended: then no unit is closed. A second call succeeds. Must not be called by
 * a callback of the library. INVALID, STATE. Any thread. */
VG_PUBLIC enum vg_status vg_compute_close(struct vg_compute *compute);
/* Closes the scheduler like vg_compute_close(), but cancels work that has not ended, as vg_compute_unit_end() does. */
VG_PUBLIC enum vg_status vg_compute_end(struct vg_compute *compute);
/* Ends the scheduler and drops the caller's reference. Accepts NULL. */
VG_PUBLIC void vg_compute_destroy(struct vg_compute *compute);

struct vg_compute_info {
	enum vg_compute_policy policy;
	enum vg_compute_placement placement; /* the placement that was requested */
	int grouped;			     /* 1: quanta run in SM groups now; 0: on the whole device */
	unsigned time_slice_ms, monitoring_interval_ms;
	unsigned units, max_units;
	unsigned sms;		/* number of SMs of the device */
	double unclaimed_share; /* 1 minus the sum of all shares */
	uint64_t quanta;	/* number of quanta that have ended */
	uint64_t busy_ns;	/* GPU time of all quanta */
	uint64_t longest_ns;	/* duration of the longest quantum */
	double sm_seconds;	/* SM-seconds of all units, including destroyed ones */
	double utilization;	/* used part of the device's SM-seconds in the last interval, 0…1 */
	int utilization_known;	/* 0: `utilization` is not known yet, or is not measured (see vg_compute_unit_info) */
	unsigned queue_length, running;
	int failed;  /* nonzero: a kernel's fault, on whatever device, ended the process's contexts */
	int failure; /* the driver's code of that fault */
};
/* Fills in the figures of the scheduler. INVALID, CLOSED, STATE. Any thread; no driver call. */
VG_PUBLIC enum vg_status vg_compute_info(struct vg_compute *compute, struct vg_compute_info *ret_info);
/* These functions set the time slice, or the policy, from the next quantum on. INVALID (the text says which values
 * are possible), CLOSED, STATE. Any thread. */
VG_PUBLIC enum vg_status vg_compute_set_time_slice(struct vg_compute *compute, unsigned milliseconds);
VG_PUBLIC enum vg_status vg_compute_set_policy(struct vg_compute *compute, enum vg_compute_policy policy);

/* ---- units ---------------------------------------------------------------------------------------- */

/* What happens to machine code that cannot be read, in a unit without tensor cores or mixed precision. */
enum vg_unknown_code { VG_UNKNOWN_CODE_REFUSE, VG_UNKNOWN_CODE_ALLOW };

struct vg_compute_unit_options {
	size_t size;	  /* sizeof(struct vg_compute_unit_options) */
	const char *name; /* the unit's name in messages, copied, up to 63 bytes; NULL: "unit-N" */
	double share;	  /* share of the device's SM-seconds, above 0 and up to 1; 0: see below */
	/* The share in virtual compute units, out of `max_units`; 0: `share` counts. If both are 0, the unit gets an
	 * equal part of the unclaimed share: one part for each unit that may still be created. */
	unsigned compute_units;
	unsigned streams; /* number of virtual streams, which are numbered from 0; 0: 4; 1024 at most */
	/* Maximum number of kernels that run at once, at most 32; 0: the number of streams. */
	unsigned max_concurrent_kernels;
	int priority;	     /* the unit's priority, see VG_COMPUTE_PRIORITY; higher values run first */
	int no_tensor_cores; /* nonzero: kernels with instructions for tensor cores are refused by name */
	/* Nonzero: kernels that accumulate in wider types than they read are refused by name. */
	int no_mixed_precision;
	enum vg_unknown_code unknown_code;
};

/* Creates a unit. `options` may be NULL. The caller owns *ret_unit and ends it with vg_compute_unit_destroy().
 * INVALID (a share outside its range, share and compute_units that differ), LIMIT (shares would sum above 1, too
 * many units: says the figures), CLOSED, STATE, NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_compute_unit_create(struct vg_compute *compute,
						const struct vg_compute_unit_options *options,
						struct vg_compute_unit **ret_unit);
/* Closes the unit and frees its share. Calls of other threads, also waiting ones, then fail with CLOSED. BUSY if it
 * has work that has not ended; the text has the numbers, and nothing is changed. A second call succeeds. INVALID,
 * STATE. Any thread but the scheduler's. */
VG_PUBLIC enum vg_status vg_compute_unit_close(struct vg_compute_unit *unit);
/* Closes the unit even if it has work: cancels queued work, launches no more kernels of running work, and waits for
 * launched ones. Reports the number of executions to the log callback. Never returns BUSY. */
VG_PUBLIC enum vg_status vg_compute_unit_end(struct vg_compute_unit *unit);
/* Ends the unit and drops the caller's reference. Accepts NULL. */
VG_PUBLIC void vg_compute_unit_destroy(struct vg_compute_unit *unit);

/* How a share is realised. */
enum vg_compute_how { VG_SHARE_BY_TIME, VG_SHARE_BY_GROUP };

struct vg_compute_unit_info {
	char name[64];
	double share; /* asked for */
	/* By group: the group's part of the SMs; by time: the unit's part of the time, times its part of the SMs. */
	double realised_share;
	enum vg_compute_how how;
	int group;    /* number of the unit's SM group, from 0; -1: no group */
	unsigned sms; /* number of SMs that the unit's quanta have */
	unsigned compute_units, max_units;
	int priority; /* the unit's priority plus the highest priority of its queued work */
	int paused;
	unsigned streams, active_streams; /* number of virtual streams, and how many of them have work */
	unsigned max_concurrent_kernels;
	unsigned queue_length; /* executions that wait */
	unsigned running;      /* number of executions that were given to the GPU and have not ended */
	/* Counts since the unit was created. */
	uint64_t launches, completed, failures, cancelled;
	uint64_t busy_ns;  /* GPU time of the unit's quanta */
	double sm_seconds; /* GPU time in seconds, times the number of SMs that the quanta had */
	/* 0: kernels run beside those of other units, so GPU time cannot be measured, and the last two figures are
	 * 0. */
	int measured;
	/* SM-seconds of the unit divided by those of the device, in the last monitoring interval, 0…1. */
	double utilization;
	int utilization_known;
	/* Nonzero: a kernel of this unit or of another one has ended the context by a fault. */
	int failed;
	int failure;			   /* the driver's code of that fault */
	int tensor_cores, mixed_precision; /* 1: allowed */
};
/* Fills in the figures of the unit. INVALID, CLOSED, STATE. Any thread; no driver call. */
VG_PUBLIC enum vg_status vg_compute_unit_info(struct vg_compute_unit *unit, struct vg_compute_unit_info *ret_info);

/* Sets the share from the next quantum on, even if the unit has work. A new share may exceed the old one only by
 * what is unclaimed. INVALID, LIMIT, CLOSED, STATE. Any thread. */
VG_PUBLIC enum vg_status vg_compute_unit_set_share(struct vg_compute_unit *unit, double share);
/* These functions set the share in virtual compute units (compute_units / max_units), or the priority. Otherwise
 * like vg_compute_unit_set_share(). */
VG_PUBLIC enum vg_status vg_compute_unit_scale(struct vg_compute_unit *unit, unsigned compute_units);
VG_PUBLIC enum vg_status vg_compute_unit_set_priority(struct vg_compute_unit *unit, int priority);
/* These functions allow (1) or forbid (0) kernels that use tensor cores, or mixed precision. Work that is submitted
 * later and needs what is forbidden is refused. INVALID, CLOSED, STATE. */
VG_PUBLIC enum vg_status vg_compute_unit_set_tensor_cores(struct vg_compute_unit *unit, int allowed);
VG_PUBLIC enum vg_status vg_compute_unit_set_mixed_precision(struct vg_compute_unit *unit, int allowed);
/* These functions pause and resume the unit. While it is paused, queued work waits, and running work continues to
 * its end. They may be called twice. CLOSED, STATE. */
VG_PUBLIC enum vg_status vg_compute_unit_pause(struct vg_compute_unit *unit);
VG_PUBLIC enum vg_status vg_compute_unit_resume(struct vg_compute_unit *unit);

/* ---- kernels by name ------------------------------------------------------------------------------ */

/* The built-in kernels compute with floats. Lengths are uint64_t, and matrices are row-major. The kernels are
 * correct for any grid and block: the threads of a launch divide the work among them. An output may be an input,
 * except in the first two.
 *
 *   matrix_multiply(a, b, c, m, n, k): C = A * B, which are m x n, m x k and k x n;
 *   transpose(x, y, rows, columns): Y, of columns x rows, from X;
 *   vector_add(a, b, c, n), vector_multiply(a, b, c, n): c[i] = a[i] + b[i], and a[i] * b[i];
 *   axpy(alpha, x, y, n): y[i] = alpha * x[i] + y[i];
 *   scale(alpha, x, y, n): y[i] = alpha * x[i];
 *   fill(y, value, n): y[i] = value;
 *   copy(x, y, n);
 *   relu(x, y, n): y[i] = max(x[i], 0); a NaN stays a NaN;
 *   softmax(x, y, rows, columns): softmax of each row;
 *   reduce_sum(x, sum, n), dot(x, y, sum, n): the result is added to *sum; the order of additions varies.
 *
 * The requirements of a kernel are read from its code and that of all functions it may call. Tensor cores: wmma.mma,
 * mma, wgmma.mma_async and tcgen05.mma; not the loads and stores of their operands. Mixed precision: tensor core
 * instructions whose inputs have fewer bits than their accumulators (integers too), that compute in tf32, or that
 * choose the accumulator at run time (tcgen05). Also sums and products of floating-point numbers of two types
 * (fma.rn.f32.f16), but not conversions. This works for PTX, except for functions that it does not contain, and for
 * machine code of compute capability 7.5, 8.x, 9.0, 10.0, 10.3, 11.0 and 12.x, as the compiler translated it: fp8
 * products that became products of halves count as such. Other machine code and borrowed kernels cannot be read: see
 * enum vg_unknown_code. */

/* Registers all kernels of the object code, beside the built-in ones. Their names are the expressions for which the
 * code was compiled, or else their symbols. EXISTS names the duplicate, and changes nothing; NOT_FOUND (the code has
 * no kernel), CLOSED, STATE, DRIVER. Any thread. */
VG_PUBLIC enum vg_status vg_compute_register(struct vg_compute *compute, struct vg_object_code *code);
/* Registers one kernel under any name, and keeps the kernel. EXISTS, INVALID, CLOSED, STATE. */
VG_PUBLIC enum vg_status vg_compute_register_kernel(struct vg_compute *compute, const char *name,
						    struct vg_kernel *kernel);
/* Removes a name. Work that was submitted before keeps its kernel. NOT_FOUND, CLOSED, STATE. */
VG_PUBLIC enum vg_status vg_compute_unregister(struct vg_compute *compute, const char *name);
/* Returns the number of registered names; 0 for NULL. The next function returns a name by its index. `name` has room
 * for `size` bytes, including the terminating 0. NOT_FOUND (no such index), LIMIT (the name does not fit), INVALID,
 * CLOSED, STATE. */
VG_PUBLIC size_t vg_compute_kernel_count(struct vg_compute *compute);
VG_PUBLIC enum vg_status vg_compute_kernel_name(struct vg_compute *compute, size_t index, char *name, size_t size);

/* ---- executions ----------------------------------------------------------------------------------- */

struct vg_work {
	size_t size;			/* sizeof(struct vg_work) */
	const char *kernel;		/* name of the kernel */
	struct vg_launch_config config; /* `grid` and `block` must be set; `size` may be 0 here */
	/* Arguments in the order of the kernel's parameters; their values are copied. */
	const struct vg_argument *arguments;
	size_t argument_count;
	unsigned stream; /* the unit's virtual stream: work of one runs in the order of submission */
	/* Work with a higher priority runs first among the unit's streams, and between units with
	 * VG_COMPUTE_PRIORITY. */
	int priority;
	unsigned repeat; /* number of launches, one after the other; 0: 1. Cancelling takes effect between launches */
};
/* Queues work, after checking it: NOT_FOUND (no such kernel; the text lists the kernels), INVALID (an argument, a
 * dimension, no such stream), POLICY (tensor cores or mixed precision that the unit may not use: the text names the
 * instruction, or says that the code cannot be read), LIMIT (a cooperative grid that cannot be resident on the
 * whole device; in a smaller SM group the driver refuses it, and the execution fails), CLOSED, STATE, NO_MEMORY,
 * DRIVER (the context has failed). `ret_execution` may be NULL; else the caller owns *ret_execution and drops it with
 * vg_execution_destroy(). Any thread, many at once. */
VG_PUBLIC enum vg_status vg_compute_unit_execute(struct vg_compute_unit *unit, const struct vg_work *work,
						 struct vg_execution **ret_execution);
/* Waits until all work that was submitted to the stream, or to all streams, has ended in any state. Waits at most
 * `timeout_seconds`; 0 or less: no limit. NOT_READY (some work has not ended), DRIVER (the context has failed),
 * INVALID, CLOSED (also when it is closed meanwhile), STATE. Any thread. */
VG_PUBLIC enum vg_status vg_compute_unit_sync(struct vg_compute_unit *unit, unsigned stream, double timeout_seconds);
VG_PUBLIC enum vg_status vg_compute_unit_sync_all(struct vg_compute_unit *unit, double timeout_seconds);

enum vg_execution_state {
	VG_EXECUTION_QUEUED,
	VG_EXECUTION_RUNNING, /* handed to the GPU, at least in part */
	VG_EXECUTION_COMPLETED,
	VG_EXECUTION_FAILED,	/* vg_execution_wait() says why */
	VG_EXECUTION_CANCELLED, /* cancelled before its last kernel was launched */
};
/* Returns the state; COMPLETED for NULL. Any thread. */
VG_PUBLIC enum vg_execution_state vg_execution_state(const struct vg_execution *execution);
/* Waits until the execution has ended, at most `timeout_seconds`; 0 or less: no limit. OK: it completed. NOT_READY:
 * it has not ended. STATE: it was cancelled. Other values say why it failed, with a text: DRIVER, INVALID and so on.
 * Any thread. */
VG_PUBLIC enum vg_status vg_execution_wait(struct vg_execution *execution, double timeout_seconds);
/* Cancels the execution. Queued work is cancelled at once. Running work launches no more kernels, and is cancelled
 * when the launched ones have ended; if none was left to launch, it completes. STATE: it has already ended. INVALID.
 * Any thread. */
VG_PUBLIC enum vg_status vg_execution_cancel(struct vg_execution *execution);
/* Returns the id of the execution, which counts from 1 in each scheduler; 0 for NULL. */
VG_PUBLIC uint64_t vg_execution_id(const struct vg_execution *execution);

struct vg_execution_info {
	uint64_t id;
	enum vg_execution_state state;
	char kernel[64]; /* name of the kernel, cut to fit */
	unsigned stream;
	int priority;
	unsigned launches; /* number of launches that were given to the GPU */
	/* On the clock CLOCK_MONOTONIC; 0: not yet. The start is when its first kernel was handed to the driver. */
	uint64_t queued_ns, started_ns, ended_ns;
	uint64_t gpu_ns; /* GPU time of the execution's quanta */
	/* 0: the execution shared a quantum with other work, or has not ended. To measure each execution, wait for it
	 * before you submit the next one to the unit. */
	int gpu_ns_known;
};
/* Fills in the figures of the execution. INVALID. Any thread. */
VG_PUBLIC enum vg_status vg_execution_info(struct vg_execution *execution, struct vg_execution_info *ret_info);
/* Finds an execution that has not ended, by its id. The caller drops the reference with vg_execution_destroy().
 * NOT_FOUND, INVALID, CLOSED, STATE. Any thread. */
VG_PUBLIC enum vg_status vg_compute_unit_find(struct vg_compute_unit *unit, uint64_t id,
					      struct vg_execution **ret_execution);
/* Drops the caller's reference; the work goes on. Accepts NULL. Any thread. */
VG_PUBLIC void vg_execution_destroy(struct vg_execution *execution);

#ifdef __cplusplus
}
#endif
#endif
