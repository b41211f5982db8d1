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

/* How the balancer chooses the virtual GPU for new work. It never chooses a virtual GPU that is paused or in error. */
enum vg_balancing {
	/* The virtual GPU with the fewest waiting and running executions in proportion to its share. Among equals, the
	 * least used one; among equally used ones, each in turn. */
	VG_BALANCE_LEAST_LOADED,
	VG_BALANCE_ROUND_ROBIN, /* each virtual GPU in turn, by manager and id */
	VG_BALANCE_WEIGHTED	/* each as often as its share is large, evenly spread over time */
};

/* Bits. */
enum vg_balancing_action {
	/* Moves executions that wait to another virtual GPU. Between managers, this moves only work that the
	 * balancer has not bound to a virtual GPU. Within a manager, it also moves work that was submitted to a
	 * virtual GPU: the work still uses that one's memory, and keeps its order in that one's streams. */
	VG_ACTION_MIGRATE = 1,
	/* A virtual GPU whose work waits borrows compute share from one of the same manager that does not use all of
	 * its share. It borrows half of the unused share, at most half of the lender's own share, and at most as much
	 * as its own share. The loan ends when the lender needs it, or when no work waits any more. */
	VG_ACTION_ADJUST_SHARE = 2,
	/* Gives a virtual GPU whose work waits some unclaimed virtual compute units, up to twice its own number,
	 * until no work waits any more. */
	VG_ACTION_SCALE_UNITS = 4,
	/* Ends the quantum of a virtual GPU if work with a higher priority waits in another virtual GPU of the same
	 * manager. */
	VG_ACTION_PREEMPT = 8,
	VG_ACTION_ALL = 15
};
/* Returns the name of an action, such as "migrate"; "unknown action" for a value outside the list. Any thread. */
VG_PUBLIC const char *vg_balancing_action_text(enum vg_balancing_action action);

enum {
	VG_BALANCER_LOG = 256,		       /* entries that are kept */
	VG_BALANCER_MAX_INTERVAL_MS = 3600000, /* an hour */
	VG_BALANCER_MANAGERS = 64
};

struct vg_balancer_options {
	size_t size; /* sizeof(struct vg_balancer_options) */
	enum vg_balancing strategy;
	double threshold; /* how far apart waiting times must be, 0 to 1; 0: 0.2 */
	/* Interval between rounds; with `manual`, between checks for resumed virtual GPUs; 0: 100. */
	unsigned interval_ms;
	int manual; /* nonzero: only vg_balancer_rebalance() runs rounds */
	/* Bits of enum vg_balancing_action: the actions that the balancer must not take; 0: it may take all. */
	unsigned forbidden;
	enum vg_log_level log_level; /* INFO: actions go to the log callback; WARNING: failed actions; 0: nothing */
};
/* Creates a balancer for the virtual GPUs of `count` managers, including those that are created later. A manager may
 * have several balancers. The balancer keeps a reference to each manager. `options` may be NULL. The caller owns
 * *ret_balancer and ends it with vg_balancer_destroy(). INVALID (no manager, a manager listed twice, a threshold
 * outside 0 to 1, unknown bits), LIMIT (an interval or more managers than above), CLOSED, NO_MEMORY, SYSTEM (no
 * thread), STATE. Any thread. */
VG_PUBLIC enum vg_status vg_balancer_create(struct vg_manager *const *managers, size_t count,
					    const struct vg_balancer_options *options,
					    struct vg_balancer **ret_balancer);
/* Adds a manager. EXISTS, LIMIT, INVALID, CLOSED, NO_MEMORY, STATE. Any thread. */
VG_PUBLIC enum vg_status vg_balancer_add(struct vg_balancer *balancer, struct vg_manager *manager);
/* Ends the balancer's thread. Cancels all work, bound or not, and waits for running work as vg_execution_cancel()
 * does. Returns lent shares and added units. May be called twice. STATE: called by a callback of this balancer; then
 * nothing has changed. Any thread. */
VG_PUBLIC enum vg_status vg_balancer_close(struct vg_balancer *balancer);
/* Closes the balancer, and drops the caller's reference. Accepts NULL. If a callback of this balancer calls it,
 * nothing is destroyed: it sets the last error STATE and reports that to the log callback, and the caller keeps the
 * reference. Any thread. */
VG_PUBLIC void vg_balancer_destroy(struct vg_balancer *balancer);

/* ---- work ----------------------------------------------------------------------------------------- */

/* Prepares the work for a virtual GPU by filling in its arguments. values[i] points to the value of argument i, which
 * has the given size, and holds the given value or zeros. Device addresses in the values must be addresses of `vgpu`.
 * The function may use the library, allocate and copy. `vgpu` belongs to the balancer and is valid during the call;
 * vg_virtual_gpu_retain() keeps it longer. Any result but VG_OK fails the execution, with that status and the text of
 * the last error. */
typedef enum vg_status vg_bind_fn(void *user, struct vg_virtual_gpu *vgpu, void *const *values, size_t count);
/* Called once when the work has ended, in any state, even if it was never bound. */
typedef void vg_ended_fn(void *user, enum vg_execution_state state);

struct vg_balanced_work {
	size_t size;			     /* sizeof(struct vg_balanced_work) */
	const char *kernel;		     /* a name under which all managers have registered the kernel; copied */
	struct vg_launch_config config;	     /* as in struct vg_work, but without attributes */
	const struct vg_argument *arguments; /* copied; if a `value` is NULL, `bind` fills it in */
	size_t argument_count;
	int priority;
	unsigned repeat; /* number of launches; 0: 1 */
	/* Fills in the arguments. May be NULL if no argument is a device address. */
	vg_bind_fn *bind;
	vg_ended_fn *ended; /* called when the work has ended; may be NULL */
	void *user;
};
/* Chooses a virtual GPU by the strategy, and queues the work for it. `ret_balanced` may be NULL; else the caller
 * ends *ret_balanced with vg_balanced_destroy(). An invalid kernel name or argument is found only when the work is
 * bound; the work then fails. NOT_FOUND (there is no virtual GPU), STATE (none takes work: the text says why),
 * INVALID (no kernel; a value of NULL without `bind`), LIMIT (more than 4096 arguments), NO_MEMORY, CLOSED. Any
 * thread, many at once. */
VG_PUBLIC enum vg_status vg_balancer_execute(struct vg_balancer *balancer, const struct vg_balanced_work *work,
					     struct vg_balanced **ret_balanced);

struct vg_balanced_info {
	enum vg_execution_state state;
	unsigned manager; /* the manager of the virtual GPU `id`: index in the order in which managers were added */
	int id;		  /* id of the virtual GPU for which the work waits, or to which it was bound */
	int bound;	  /* nonzero: the work is bound to the virtual GPU, and uses its memory */
	unsigned moves;	  /* number of moves to other virtual GPUs before the work was bound */
	uint64_t queued_ns, bound_ns, ended_ns; /* CLOCK_MONOTONIC; 0: not yet */
};
/* Fills in the figures of the work. INVALID. Any thread. */
VG_PUBLIC enum vg_status vg_balanced_info(struct vg_balanced *balanced, struct vg_balanced_info *ret_info);
/* Returns the state of the work; COMPLETED for NULL. Any thread. */
VG_PUBLIC enum vg_execution_state vg_balanced_state(struct vg_balanced *balanced);
/* Waits for the work as vg_execution_wait() does. Also returns STATE if the balancer, or the virtual GPU to which
 * the work was bound, was closed. Any thread. */
VG_PUBLIC enum vg_status vg_balanced_wait(struct vg_balanced *balanced, double timeout_seconds);
/* Cancels the work as vg_execution_cancel() does. Any thread. */
VG_PUBLIC enum vg_status vg_balanced_cancel(struct vg_balanced *balanced);
/* Drops the caller's reference; the work goes on. Accepts NULL. Any thread. */
VG_PUBLIC void vg_balanced_destroy(struct vg_balanced *balanced);

/* ---- rebalancing ---------------------------------------------------------------------------------- */

/* Runs a round now, in the calling thread. *ret_taken: number of actions; ret_taken may be NULL. Shares, units and
 * quanta change if work has waited for two consecutive rounds, and change back after three rounds without waiting
 * work. Rounds run one at a time. INVALID, CLOSED, NO_MEMORY, STATE. Any thread. */
VG_PUBLIC enum vg_status vg_balancer_rebalance(struct vg_balancer *balancer, size_t *ret_taken);

struct vg_balancing_entry {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t round;
	enum vg_balancing_action action;
	enum vg_status status; /* VG_OK, or why the action failed: `why` ends with the text of the error */
	unsigned from_manager, to_manager;
	/* Ids of virtual GPUs. PREEMPT: `from` lost its quantum to `to`; SCALE_UNITS: both are the same. */
	int from, to;
	double amount; /* what the action moved: executions; a part of the device; or units, negative if taken away */
	char why[512]; /* a sentence with the figures */
};
/* Copies the latest entries, oldest first, at most `capacity`. The balancer keeps the last VG_BALANCER_LOG entries.
 * *ret_count: number of copied entries. With `capacity` 0, `entries` may be NULL, and *ret_count is the number of
 * kept entries. INVALID, STATE. Any thread. */
VG_PUBLIC enum vg_status vg_balancer_log(struct vg_balancer *balancer, struct vg_balancing_entry *entries,
					 size_t capacity, size_t *ret_count);

struct vg_balancer_info {
	enum vg_balancing strategy;
	double threshold;
	unsigned interval_ms, forbidden;
	unsigned managers, virtual_gpus;
	size_t unbound, bound; /* number of pieces of work that have not ended: not bound, and bound */
	uint64_t submitted, completed, failed, cancelled;
	uint64_t rounds, actions, failures; /* `failures`: number of actions that could not be done */
};
/* Fills in the balancer's figures. INVALID, STATE. Any thread. */
VG_PUBLIC enum vg_status vg_balancer_info(struct vg_balancer *balancer, struct vg_balancer_info *ret_info);

#ifdef __cplusplus
}
#endif
#endif
