// Declares the balancer's engine: the queue of each virtual GPU, and the thread that binds work to virtual GPUs. Also
// declares the rounds, in which the balancer reads the loads, decides, and executes its decisions.
//
// Lock order: `rounds`, then `worker.lock`. Neither is locked during a callback, a log message or a submission.
// `rounds` is locked for a whole round. Executing a decision does not wait for the GPU.
#pragma once
#include "core/core.h"
#include "core/object.h"
#include "manager/balancer.h"
#include "manager/worker.h"

enum { BALANCER_ARGUMENTS = 4096 };

// ---- work (balancer_work.c) --------------------------------------------------------------------------------

struct vg_balanced {
	struct core_object object;
	struct vg_balancer *balancer; // owns a reference
	// The members below are copies of what the program submitted. Only the program's callback `bind` changes them:
	// it is called once and sets the values of the arguments.
	char *kernel;
	struct vg_launch_config config;
	struct vg_argument *arguments; // pointers into `values`
	void **values;
	size_t argument_count;
	int priority;
	unsigned repeat;
	vg_bind_fn *bind;
	vg_ended_fn *ended;
	void *user;
	// The balancer's lock protects the members below.
	struct vg_balanced *next;
	struct balancer_key key;	// the virtual GPU to which the work is or will be bound
	struct vg_balanced_info info;	// includes its state
	struct vg_execution *execution; // owns a reference; NULL: the work is not bound
	bool cancelled, done;		// `done`: the program's callback has returned
	enum vg_status failure;
	int failure_code;
	char failure_text[512];
	pthread_cond_t changed; // signalled when the work's `done` is set
};
enum vg_status balancer_work_create(struct vg_balancer *balancer, const struct vg_balanced_work *work,
				    struct vg_balanced **ret_balanced);
// Marks the work as failed with `status`. Uses the text of the calling thread's last error.
void balancer_work_fail(struct vg_balanced *work, enum vg_status status);

// ---- queues (balancer_queue.c); under the lock -------------------------------------------------------------

struct balancer_list {
	struct vg_balanced *first, **end;
	size_t count;
};
void balancer_list_init(struct balancer_list *list);
void balancer_list_add(struct balancer_list *list, struct vg_balanced *work);
struct vg_balanced *balancer_list_pop(struct balancer_list *list);
// Moves the last `count` elements to the end of another list, in the same order.
void balancer_list_move(struct balancer_list *from, struct balancer_list *to, size_t count);
// Removes the work from the list. Returns false if the work is not in the list.
bool balancer_list_remove(struct balancer_list *list, const struct vg_balanced *work);

// The queue of one virtual GPU.
struct balancer_queue {
	struct balancer_queue *next;
	struct balancer_key key;
	struct balancer_list waiting; // work that is not bound yet
	struct balancer_list bound;   // work that is bound to this virtual GPU and has not ended
	// At least this many executions may be bound (submitted to the compute unit) at the same time. If executions
	// end in quick succession, more may be bound.
	unsigned window;
	uint64_t gap_ns, last_end_ns; // `gap_ns`: average interval between the ends of two executions
	bool takes_work, listed;      // values from the latest snapshot; `listed`: the virtual GPU exists
};

struct vg_balancer {
	struct core_object object;
	enum vg_balancing strategy;
	struct balancer_rules rules;
	unsigned interval_ms;
	bool manual;
	enum vg_log_level log_level;

	pthread_mutex_t rounds;
	struct manager_worker worker; // the thread; its lock protects all members below
	struct vg_manager *managers[VG_BALANCER_MANAGERS];
	unsigned manager_count;
	struct balancer_queue *queues;
	struct balancer_memory memory;
	struct balancer_list ended;	// ended work whose callback has not been called yet
	struct vg_balancing_entry *log; // ring buffer
	size_t log_count, log_next;
	struct vg_balancer_info info;
};
// Reads how much work each virtual GPU has (struct balancer_load). Creates queues for new virtual GPUs, and removes
// those of closed ones. The caller frees *ret_loads.
enum vg_status balancer_take_snapshot(struct vg_balancer *balancer, struct balancer_load **ret_loads,
				      size_t *ret_count);
struct balancer_queue *balancer_queue_find(const struct vg_balancer *balancer, struct balancer_key key);
// Chooses a virtual GPU for the work, and adds the work to its queue. Call without locks. Fails with NOT_FOUND, STATE,
// CLOSED or NO_MEMORY.
enum vg_status balancer_enqueue(struct vg_balancer *balancer, struct vg_balanced *work);

// ---- the thread (balancer_thread.c) ------------------------------------------------------------------------

void *balancer_run(void *balancer);
// Notes that a piece of work has ended. The scheduler of the compute units calls this function; `user` is the work
// (struct vg_balanced).
void balancer_notice(void *user);

// ---- rounds (balancer_round.c) -----------------------------------------------------------------------------

enum vg_status balancer_round(struct vg_balancer *balancer, size_t *ret_taken);
// Gives all lent shares back to their lenders, and removes all added compute units.
void balancer_give_back(struct vg_balancer *balancer);

// ---- managers and their executions (balancer_source.c) -----------------------------------------------------

enum vg_status balancer_retain_manager(struct vg_manager *manager);
void balancer_release_manager(struct vg_manager *manager);
// Reads the load of each virtual GPU of the managers that are not closed. The caller frees *ret_loads.
enum vg_status balancer_read(struct vg_manager *const *managers, size_t count, struct balancer_load **ret_loads,
			     size_t *ret_count);
enum balancer_fate {
	BALANCER_BOUND,	    // the work was submitted: *ret_execution is set
	BALANCER_FAILED,    // *ret_status is the reason; if the last error has the same status, its text explains it
	BALANCER_LATER,	    // not submitted: the virtual GPU is paused, so try again later
	BALANCER_ELSEWHERE, // not submitted: the virtual GPU is closed or in error, so choose another one
};
enum balancer_fate balancer_submit(struct vg_manager *manager, struct balancer_key key, struct vg_balanced *work,
				   struct vg_execution **ret_execution, enum vg_status *ret_status);
enum vg_execution_state balancer_state(const struct vg_execution *execution);
// Returns the status with which an execution failed, and sets the last error.
enum vg_status balancer_failure(struct vg_execution *execution);
void balancer_stop(struct vg_execution *execution);
void balancer_retain(struct vg_execution *execution);
void balancer_release(struct vg_execution *execution);
enum vg_status balancer_migrate(struct vg_manager *manager, struct balancer_key from, struct balancer_key to,
				size_t count, size_t *ret_moved);
enum vg_status balancer_adjust(struct vg_manager *manager, struct balancer_key from, struct balancer_key to,
			       double share);
enum vg_status balancer_scale(struct vg_manager *manager, struct balancer_key key, int units);
enum vg_status balancer_preempt(struct vg_manager *manager, struct balancer_key key, bool *ret_preempted);

// Begins a public function: returns an error if `pointer` is NULL or the process was forked.
#define BALANCER_USABLE(pointer)                                                                                       \
	do {                                                                                                           \
		if (!(pointer))                                                                                        \
			return vg_fail(VG_INVALID, 0, "%s is NULL", #pointer);                                         \
		if (core_forked)                                                                                       \
			return vg_fail(VG_STATE, 0, "this process was forked: the balancer's thread is the parent's"); \
	} while (0)
