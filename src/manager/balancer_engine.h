// The balancer at work: what waits for each virtual GPU, the thread that binds it, and rounds.
//
// Locks: `rounds`, then `lock`. Neither is held over a callback, words to the log, or work's submission; `rounds` is
// held over actions, of which none waits for the GPU.
#pragma once
#include "core/core.h"
#include "core/object.h"
#include "manager/balancer.h"
#include "manager/worker.h"

enum { BALANCER_ARGUMENTS = 4096 };

// ---- work (balancer_work.c) --------------------------------------------------------------------------------

struct vg_balanced {
	struct core_object object;
	struct vg_balancer *balancer; // held
	// Of the program; nobody changes it but `bind`, once.
	char *kernel;
	struct vg_launch_config config;
	struct vg_argument *arguments; // into `values`
	void **values;
	size_t argument_count;
	int priority;
	unsigned repeat;
	vg_bind_fn *bind;
	vg_ended_fn *ended;
	void *user;
	// Under the balancer's lock.
	struct vg_balanced *next;
	struct balancer_key key;	// bound to that one, or about to be
	struct vg_balanced_info info;	// its state, too
	struct vg_execution *execution; // held; NULL: not bound
	bool cancelled, done;		// done: and the program has been told
	enum vg_status failure;
	int failure_code;
	char failure_text[512];
	pthread_cond_t changed; // it is done
};
enum vg_status balancer_work_create(struct vg_balancer *balancer, const struct vg_balanced_work *work,
				    struct vg_balanced **ret_balanced);
// Notes the last error as what it failed of.
void balancer_work_fail(struct vg_balanced *work, enum vg_status status);

// ---- queues (balancer_queue.c); under the lock -------------------------------------------------------------

struct balancer_list {
	struct vg_balanced *first, **end;
	size_t count;
};
void balancer_list_init(struct balancer_list *list);
void balancer_list_add(struct balancer_list *list, struct vg_balanced *work);
struct vg_balanced *balancer_list_take(struct balancer_list *list);
// The last `count`, in their order.
void balancer_list_move(struct balancer_list *from, struct balancer_list *to, size_t count);
// False: it was not among them.
bool balancer_list_remove(struct balancer_list *list, const struct vg_balanced *work);

// What waits for one virtual GPU.
struct balancer_queue {
	struct balancer_queue *next;
	struct balancer_key key;
	struct balancer_list waiting; // bound to none
	struct balancer_list bound;   // to this one, and not ended
	unsigned window;	      // as many may be bound, at least
	uint64_t gap_ns, last_end_ns; // between two that end, smoothed
	bool takes_work, listed;      // as of the latest snapshot
};

struct vg_balancer {
	struct core_object object;
	enum vg_balancing strategy;
	struct balancer_rules rules;
	unsigned interval_ms;
	bool manual;
	enum vg_log_level log_level;

	pthread_mutex_t rounds;
	struct manager_worker worker; // its lock is of all that follows
	struct vg_manager *managers[VG_BALANCER_MANAGERS];
	unsigned manager_count;
	struct balancer_queue *queues;
	struct balancer_memory memory;
	struct balancer_list ended;	// of which the program is to be told
	struct vg_balancing_entry *log; // a ring
	size_t log_count, log_next;
	struct vg_balancer_info info;
};
// A snapshot with what the queues have, which learn from it who there is. The caller frees *ret_loads.
enum vg_status balancer_look(struct vg_balancer *balancer, struct balancer_load **ret_loads, size_t *ret_count);
struct balancer_queue *balancer_queue_find(const struct vg_balancer *balancer, struct balancer_key key);
// Chooses where the work goes, and has it wait there; under no lock. NOT_FOUND, STATE, CLOSED, NO_MEMORY.
enum vg_status balancer_enqueue(struct vg_balancer *balancer, struct vg_balanced *work);

// ---- the thread (balancer_thread.c) ------------------------------------------------------------------------

void *balancer_run(void *balancer);
// Its execution has ended: the scheduler's notice, with the work as `user`.
void balancer_notice(void *user);

// ---- rounds (balancer_round.c) -----------------------------------------------------------------------------

enum vg_status balancer_round(struct vg_balancer *balancer, size_t *ret_taken);
// Everything lent or added goes back.
void balancer_give_back(struct vg_balancer *balancer);

// ---- managers, and the executions of their schedulers (balancer_source.c) ----------------------------------

enum vg_status balancer_hold(struct vg_manager *manager);
void balancer_drop(struct vg_manager *manager);
// Of those that are not closed. The caller frees *ret_loads.
enum vg_status balancer_read(struct vg_manager *const *managers, size_t count, struct balancer_load **ret_loads,
			     size_t *ret_count);
enum balancer_fate {
	BALANCER_BOUND,	    // and submitted: *ret_execution
	BALANCER_FAILED,    // *ret_status says why; the last error has the text if it has that status
	BALANCER_LATER,	    // the virtual GPU is paused
	BALANCER_ELSEWHERE, // it has gone, or is in error
};
enum balancer_fate balancer_submit(struct vg_manager *manager, struct balancer_key key, struct vg_balanced *work,
				   struct vg_execution **ret_execution, enum vg_status *ret_status);
enum vg_execution_state balancer_state(const struct vg_execution *execution);
// Of one that failed: why; the last error has the text.
enum vg_status balancer_failure(struct vg_execution *execution);
void balancer_stop(struct vg_execution *execution);
void balancer_retain(struct vg_execution *execution);
void balancer_let_go(struct vg_execution *execution);
enum vg_status balancer_migrate(struct vg_manager *manager, struct balancer_key from, struct balancer_key to,
				size_t count, size_t *ret_moved);
enum vg_status balancer_adjust(struct vg_manager *manager, struct balancer_key from, struct balancer_key to,
			       double share);
enum vg_status balancer_scale(struct vg_manager *manager, struct balancer_key key, int units);
enum vg_status balancer_preempt(struct vg_manager *manager, struct balancer_key key, bool *ret_preempted);

// In a public function: returns where it cannot go on.
#define BALANCER_USABLE(pointer)                                                                                       \
	do {                                                                                                           \
		if (!(pointer))                                                                                        \
			return vg_fail(VG_INVALID, 0, "%s is NULL", #pointer);                                         \
		if (core_forked)                                                                                       \
			return vg_fail(VG_STATE, 0, "this process was forked: the balancer's thread is the parent's"); \
	} while (0)
