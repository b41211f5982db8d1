/* A balancer distributes work over several virtual GPUs, of one or more devices, and rebalances: it moves waiting work,
 * or gives the virtual GPU more of its device.
 *
 * * Work is bound to a virtual GPU shortly before it runs. Until then it can move, also to another device, and its
 * arguments are not filled in. A round of rebalancing compares the waiting and running executions with the compute
 * shares. It acts if they differ by more than a threshold for several rounds, and does not reverse an action for some
 * rounds. The log has an entry for every action, with the figures that led to it.
 *
 * * Executions of one balancer have no order. One thread of the balancer binds and, unless `manual`, rebalances;
 * callbacks run in it, without a lock. In a forked child every call fails with STATE. */
#ifndef VIRGATE_BALANCER_H
#define VIRGATE_BALANCER_H

#include <stddef.h>
#include <stdint.h>

#include <virgate/compute.h>
#include <virgate/log.h>
#include <virgate/manager.h>
#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_balancer;
struct vg_balanced; /* one piece of work, from its submission to its end */

/* Where new work goes, of the virtual GPUs that take any: neither paused nor in error. */
enum vg_balancing {
	/* Where the fewest executions wait and run for each part of a share; then the least used; then in turns. */
	VG_BALANCE_LEAST_LOADED,
	VG_BALANCE_ROUND_ROBIN, /* to each in turn, by manager and id */
	VG_BALANCE_WEIGHTED	/* to each as often as its share is large, evenly spread */
};

/* Bits. */
enum vg_balancing_action {
	/* Executions that wait go elsewhere: those of the balancer that are not bound anywhere, and within a manager
	 * also what was submitted to a virtual GPU, whose memory its arguments still name and whose streams it stays in
	 * order of. */
	VG_ACTION_MIGRATE = 1,
	/* A virtual GPU whose work waits borrows from one of the same manager that does not use its share: half of what
	 * is idle, never more than half of the lender's own nor than doubles the borrower's. It goes back when the
	 * lender needs it or nothing waits any more. */
	VG_ACTION_ADJUST_SHARE = 2,
	/* A virtual GPU whose work waits gets unclaimed virtual compute units, up to twice its own, until nothing waits
	 * any more. */
	VG_ACTION_SCALE_UNITS = 4,
	/* Ends the quantum of a virtual GPU whose work has a lower priority than what waits in another of the manager.
	 */
	VG_ACTION_PREEMPT = 8,
	VG_ACTION_ALL = 15
};
/* "migrate"; "unknown action" for what is not one of them. Any thread. */
VG_PUBLIC const char *vg_balancing_action_text(enum vg_balancing_action action);

enum {
	VG_BALANCER_LOG = 256,		       /* entries that are kept */
	VG_BALANCER_MAX_INTERVAL_MS = 3600000, /* an hour */
	VG_BALANCER_MANAGERS = 64
};

struct vg_balancer_options {
	size_t size; /* sizeof(struct vg_balancer_options) */
	enum vg_balancing strategy;
	double threshold;	     /* how far apart waiting times must be, 0 to 1; 0: 0.2 */
	unsigned interval_ms;	     /* between rounds, or looks at who is paused; 0: 100 */
	int manual;		     /* nonzero: rounds are vg_balancer_rebalance() alone */
	unsigned forbidden;	     /* bits of enum vg_balancing_action: what it must not do; 0: it may do all */
	enum vg_log_level log_level; /* INFO: actions go to the log callback; WARNING: what failed; 0: nothing does */
};
/* Over the virtual GPUs of `count` managers, also those to come; one manager may have the balancer of several. They
 * stay as long as the balancer does. `options` may be NULL. The caller owns *ret_balancer and ends it with
 * vg_balancer_destroy(). INVALID (no manager, one twice, a threshold outside 0 to 1, unknown bits), LIMIT (an interval
 * or more managers than above), CLOSED, NO_MEMORY, SYSTEM (no thread), STATE. Any thread. */
VG_PUBLIC enum vg_status vg_balancer_create(struct vg_manager *const *managers, size_t count,
					    const struct vg_balancer_options *options,
					    struct vg_balancer **ret_balancer);
/* One more manager. EXISTS, LIMIT, INVALID, CLOSED, NO_MEMORY, STATE. Any thread. */
VG_PUBLIC enum vg_status vg_balancer_add(struct vg_balancer *balancer, struct vg_manager *manager);
/* Ends the thread. Work is cancelled, bound or not, and what runs is waited for as vg_execution_cancel() has it; shares
 * that were lent and units that were added go back. Twice is fine. STATE: called by one of its own callbacks; nothing
 * has changed then. Any thread. */
VG_PUBLIC enum vg_status vg_balancer_close(struct vg_balancer *balancer);
/* Closes it, and drops the caller's reference. NULL is fine. From one of its own callbacks it does nothing but tell the
 * log callback and set the last error, STATE: the balancer is still the caller's to destroy. Any thread. */
VG_PUBLIC void vg_balancer_destroy(struct vg_balancer *balancer);

/* ---- work ----------------------------------------------------------------------------------------- */

/* Makes the work the virtual GPU's: values[i] is the place of the argument i, as large as it was said to be, and holds
 * the value that was given, or zeros. Device addresses in them are addresses of `vgpu`. It may use the library,
 * allocate and copy; `vgpu` is the balancer's, for the time of the call: vg_virtual_gpu_retain(). Anything but VG_OK
 * fails the execution with that status and the last error's text. */
typedef enum vg_status vg_bind_fn(void *user, struct vg_virtual_gpu *vgpu, void *const *values, size_t count);
/* The work has ended, in whatever state, also if it was never bound. Once. */
typedef void vg_ended_fn(void *user, enum vg_execution_state state);

struct vg_balanced_work {
	size_t size;			     /* sizeof(struct vg_balanced_work) */
	const char *kernel;		     /* a name that each of the managers' schedulers knows; copied */
	struct vg_launch_config config;	     /* as struct vg_work has it; no attributes */
	const struct vg_argument *arguments; /* copied; a `value` of NULL is for `bind` to fill in */
	size_t argument_count;
	int priority;
	unsigned repeat;    /* 0: 1 */
	vg_bind_fn *bind;   /* NULL: the arguments are good anywhere: none is a device address */
	vg_ended_fn *ended; /* may be NULL */
	void *user;
};
/* Chooses a virtual GPU by the strategy and has the work wait for it. `ret_balanced` may be NULL; else the caller ends
 * *ret_balanced with vg_balanced_destroy(). What is wrong with the kernel's name or its arguments is known when the
 * work is bound: it fails then. NOT_FOUND (there is no virtual GPU), STATE (none takes work: the text says why),
 * INVALID (no kernel; a value of NULL without `bind`), LIMIT (more than 4096 arguments), NO_MEMORY, CLOSED. Any thread,
 * many at once. */
VG_PUBLIC enum vg_status vg_balancer_execute(struct vg_balancer *balancer, const struct vg_balanced_work *work,
					     struct vg_balanced **ret_balanced);

struct vg_balanced_info {
	enum vg_execution_state state;
	unsigned manager; /* in the order in which they were added, from 0 on; of the virtual GPU below */
	int id;		  /* of the virtual GPU that it waits for or was bound to */
	int bound;	  /* nonzero: it stays with that one's memory */
	unsigned moves;	  /* to other virtual GPUs before it was bound */
	uint64_t queued_ns, bound_ns, ended_ns; /* CLOCK_MONOTONIC; 0: not yet */
};
/* INVALID. Any thread. */
VG_PUBLIC enum vg_status vg_balanced_info(struct vg_balanced *balanced, struct vg_balanced_info *ret_info);
/* COMPLETED for NULL. Any thread. */
VG_PUBLIC enum vg_execution_state vg_balanced_state(struct vg_balanced *balanced);
/* As vg_execution_wait(). STATE also: its balancer was closed, or the virtual GPU that it was bound to. Any thread. */
VG_PUBLIC enum vg_status vg_balanced_wait(struct vg_balanced *balanced, double timeout_seconds);
/* As vg_execution_cancel(). Any thread. */
VG_PUBLIC enum vg_status vg_balanced_cancel(struct vg_balanced *balanced);
/* Drops the caller's reference; the work goes on. NULL is fine. Any thread. */
VG_PUBLIC void vg_balanced_destroy(struct vg_balanced *balanced);

/* ---- rebalancing ---------------------------------------------------------------------------------- */

/* A round, now, in the calling thread; *ret_taken is how many actions it took and may be NULL. Shares, units and quanta
 * change for work that has waited for two rounds on end, and go back after three without. One round at a time: others
 * wait. INVALID, CLOSED, NO_MEMORY, STATE. Any thread. */
VG_PUBLIC enum vg_status vg_balancer_rebalance(struct vg_balancer *balancer, size_t *ret_taken);

struct vg_balancing_entry {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t round;
	enum vg_balancing_action action;
	enum vg_status status; /* VG_OK, or why it could not be done: `why` ends with the text */
	unsigned from_manager, to_manager;
	int from, to;  /* virtual GPUs; PREEMPT: whose quantum ended, and for whom; SCALE_UNITS: the same one */
	double amount; /* executions; part of the device; units, negative if taken away */
	char why[512]; /* a sentence with the figures */
};
/* The latest entries, oldest first: up to `capacity`, and never more than VG_BALANCER_LOG are kept. *ret_count is how
 * many were written; with `capacity` 0, `entries` may be NULL, and it is how many are kept. INVALID, STATE. Any thread.
 */
VG_PUBLIC enum vg_status vg_balancer_log(struct vg_balancer *balancer, struct vg_balancing_entry *entries,
					 size_t capacity, size_t *ret_count);

struct vg_balancer_info {
	enum vg_balancing strategy;
	double threshold;
	unsigned interval_ms, forbidden;
	unsigned managers, virtual_gpus;
	size_t unbound, bound; /* of its work that has not ended */
	uint64_t submitted, completed, failed, cancelled;
	uint64_t rounds, actions, failures; /* of actions that could not be done */
};
/* INVALID, STATE. Any thread. */
VG_PUBLIC enum vg_status vg_balancer_info(struct vg_balancer *balancer, struct vg_balancer_info *ret_info);

#ifdef __cplusplus
}
#endif
#endif
