// Managers and their virtual GPUs, for this directory only. Any thread. A manager's table has no references to its
// vGPUs: releasing the last handle closes a vGPU. A call on a vGPU is inside its gate, so that the closing thread can
// wait for it. Lock order: a manager's `lock`, then the lock of promises; the locks of a budget and of a vGPU are taken
// alone. No lock is held during a call of the driver or the daemon, except `closing`, `setting` and `creating`.
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/mutex.h"
#include "core/context.h"
#include "core/object.h"
#include "manager/budget.h"
#include "virgate/manager.h"

struct manager_workspace;
struct operation_set;
struct plain_memory;

enum { MANAGER_NAME = 64, MANAGER_VGPUS = 1024, MANAGER_STREAMS = 4096 };

// Ids that vGPUs ever had, as runs without gaps, in ascending order.
struct manager_ids {
	struct id_run {
		int first, last;
	} * runs;
	size_t count, capacity;
};

struct vg_manager {
	struct core_object object;
	struct vg_context *context;	   // a reference to the device's primary context
	struct vg_manager_options options; // with defaults filled in
	struct vg_compute *compute;	   // a reference
	struct vg_memory_space_options memory_options;
	uint64_t memory;	      // of the device, in bytes
	struct vg_mutex lock;	      // protects the members below
	struct vg_virtual_gpu *vgpus; // by id, linked by `next`
	unsigned count;
	struct manager_ids ids;
	unsigned streams; // number of active streams

	pthread_mutex_t creating;	  // serializes the choice of equal shares, and the creation of `operations`
	struct operation_set *operations; // a reference; NULL: not created yet
	atomic_bool lost;		  // the context is lost
};

// Counts the calls inside, and can be shut against new ones.
struct manager_gate {
	atomic_uint inside;
	atomic_bool shut;
	pthread_mutex_t lock; // for waiting
	pthread_cond_t empty;
};
void manager_gate_init(struct manager_gate *gate);
void manager_gate_finish(struct manager_gate *gate);
bool manager_gate_enter(struct manager_gate *gate);
void manager_gate_leave(struct manager_gate *gate);
// Refuses new calls from here on. manager_gate_wait() waits until all calls have left.
void manager_gate_shut(struct manager_gate *gate);
void manager_gate_wait(struct manager_gate *gate);

struct vg_virtual_gpu {
	struct core_object object;
	struct vg_manager *manager; // a reference
	// Under the manager's lock.
	struct vg_virtual_gpu *next;
	bool admitted, listed; // `listed`: manager_get() can find it
	uint64_t promised;

	int id;
	uint64_t serial; // unique in the process, unlike the id
	char name[MANAGER_NAME];
	unsigned streams;
	bool shared;
	struct manager_gate gate;
	struct manager_budget budget;
	struct vg_memory_space *space; // a reference; NULL: memory is not virtualized
	struct plain_memory *plain;    // NULL: memory is virtualized

	pthread_mutex_t closing; // locked by the thread that closes it; other threads wait
	bool closed;		 // under `closing`: all parts are freed
	pthread_mutex_t setting; // serializes changes of limits and moves of memory
	atomic_bool moving;	 // the owner of `setting` moves memory

	struct vg_compute_unit *unit; // a reference
	atomic_bool at_rest;	      // all its work has ended, and no more is accepted
	atomic_bool paused, used;
	atomic_bool no_tensor_cores, no_mixed_precision;
	atomic_uint *active_streams; // see stream.c

	struct vg_mutex lock;		       // protects the two members below (operation.h)
	struct manager_workspace **workspaces; // by stream; NULL: none yet
	struct manager_workspace *unused;
};

// ---- calls -------------------------------------------------------------------------------------------

// Fails with STATE in a forked child.
enum vg_status manager_usable(void);
// INVALID, CLOSED, STATE.
enum vg_status manager_check(const struct vg_manager *manager);
// Begins a call on a vGPU, which is not closed until manager_leave(). INVALID, CLOSED, STATE.
enum vg_status manager_enter(struct vg_virtual_gpu *vgpu);
// Calls manager_enter() and locks `setting`. Fails with STATE during a move, because the callback of the move may call
// it.
enum vg_status manager_begin_change(struct vg_virtual_gpu *vgpu);
// Ends what manager_begin_change() began.
enum vg_status manager_end_change(struct vg_virtual_gpu *vgpu, enum vg_status status);
// Ends a call. Returns `status`, after recording whether it says that the context is lost.
enum vg_status manager_leave(struct vg_virtual_gpu *vgpu, enum vg_status status);
// Returns whether the context is lost: every call on it fails.
bool manager_is_lost(struct vg_manager *manager);
// Sets the error for a lost context: STATE.
enum vg_status manager_lost(const struct vg_virtual_gpu *vgpu);

// ---- a manager's table (table.c) -----------------------------------------------------------------------

// Adds a vGPU to the table, with its id or a free one, and reserves its limit. EXISTS, LIMIT, CLOSED.
enum vg_status manager_admit(struct vg_virtual_gpu *vgpu, uint64_t limit);
// Makes the vGPU visible to manager_get(). CLOSED, NO_MEMORY.
enum vg_status manager_publish(struct vg_virtual_gpu *vgpu);
void manager_dismiss(struct vg_virtual_gpu *vgpu);
// Returns a new reference, or NULL if not found.
struct vg_virtual_gpu *manager_get(struct vg_manager *manager, int id);
// Returns a new reference to each vGPU, by id; manager_release_all() releases them. NO_MEMORY.
enum vg_status manager_get_all(struct vg_manager *manager, struct vg_virtual_gpu ***ret_vgpus, size_t *ret_count);
void manager_release_all(struct vg_virtual_gpu **vgpus, size_t count);
// Changes what is reserved for the vGPU from `before` to `limit`. LIMIT.
enum vg_status manager_promise(struct vg_virtual_gpu *vgpu, uint64_t before, uint64_t limit);

// Records an id. Returns false without memory.
bool manager_ids_add(struct manager_ids *ids, int id);
bool manager_ids_have(const struct manager_ids *ids, int id);
// Returns the lowest id that is not recorded; 0: all are.
int manager_ids_next(const struct manager_ids *ids);

// ---- promises over all managers of the process (promise.c) ----------------------------------------------

// Returns false, with the bytes that are left, if the sum would exceed `total`.
bool promise_reserve(const struct vg_device *device, uint64_t total, uint64_t bytes, uint64_t *ret_left);
void promise_return(const struct vg_device *device, uint64_t bytes);
uint64_t promise_left(const struct vg_device *device, uint64_t total);

// ---- life of a vGPU (life.c) -----------------------------------------------------------------------------

// Closes a vGPU; other threads that close it wait. BUSY while it has work: `instead` names the function that cancels
// work; NULL: cancel it.
enum vg_status manager_end(struct vg_virtual_gpu *vgpu, const char *instead);
enum vg_virtual_gpu_status manager_status_of(struct vg_virtual_gpu *vgpu);

// ---- streams (stream.c) -----------------------------------------------------------------------------------

// Begins and ends a submission to a virtual stream, which makes the stream active. It stays active if it was `used`, or
// was active before, or if others submit. INVALID (no such stream), LIMIT (the manager's total).
enum vg_status manager_stream_begin(struct vg_virtual_gpu *vgpu, unsigned stream);
void manager_stream_end(struct vg_virtual_gpu *vgpu, unsigned stream, bool used);
// Begins a submission if no other is under way, and clears the mark that the stream was used. Returns false if the
// stream is not active, or if another thread submits.
bool manager_stream_claim(struct vg_virtual_gpu *vgpu, unsigned stream, bool *ret_active);
// Sets the error for an invalid stream: INVALID.
enum vg_status manager_no_stream(const struct vg_virtual_gpu *vgpu, unsigned stream);
unsigned manager_active_streams(const struct vg_virtual_gpu *vgpu);
void manager_streams_give_back(struct vg_virtual_gpu *vgpu);
