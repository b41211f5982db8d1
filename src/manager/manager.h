// Declares managers and their virtual GPUs for this directory. Any thread. A manager's table has no references to its
// vGPUs: releasing the last handle closes a vGPU. Each call on a vGPU passes the vGPU's gate (struct manager_gate), so
// that the closing thread can wait for the call. Lock order: a manager's `lock`, then the lock of promises (reserved
// limits). The locks of a budget and of a vGPU are taken alone. No lock is held during a call of the driver or the
// daemon, except `closing`, `setting` and `creating`.
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

// All ids that vGPUs ever had, as a sorted list of ranges.
struct manager_ids {
	struct id_run {
		int first, last;
	} * runs;
	size_t count, capacity;
};

struct vg_manager {
	struct core_object object;
	struct vg_context *context;	   // owns a reference to the device's primary context
	struct vg_manager_options options; // the program's options, with defaults filled in
	struct vg_compute *compute;	   // owns a reference
	struct vg_memory_space_options memory_options;
	uint64_t memory;	      // size of the device's memory, in bytes
	struct vg_mutex lock;	      // protects the members below
	struct vg_virtual_gpu *vgpus; // linked by `next`, in the order of their ids
	unsigned count;
	struct manager_ids ids;
	unsigned streams; // number of active streams

	// Held while a new vGPU takes its equal share, and while `operations` is created.
	pthread_mutex_t creating;
	struct operation_set *operations; // owns a reference; NULL: not created yet
	atomic_bool lost;		  // the context is lost
};

// Counts the calls in progress on a vGPU. The gate can be shut, so that new calls fail.
struct manager_gate {
	atomic_uint inside;
	atomic_bool shut;
	pthread_mutex_t lock; // locked by threads that wait until no call is in progress
	pthread_cond_t empty;
};
void manager_gate_init(struct manager_gate *gate);
void manager_gate_finish(struct manager_gate *gate);
bool manager_gate_enter(struct manager_gate *gate);
void manager_gate_leave(struct manager_gate *gate);
// Makes new calls fail from now on. manager_gate_wait() then waits until no call is in progress.
void manager_gate_shut(struct manager_gate *gate);
void manager_gate_wait(struct manager_gate *gate);

struct vg_virtual_gpu {
	struct core_object object;
	struct vg_manager *manager; // owns a reference
	// The manager's lock protects the members below.
	struct vg_virtual_gpu *next;
	bool admitted, listed; // `admitted`: the vGPU is in the table; `listed`: manager_get() can find it
	uint64_t promised;

	int id;
	uint64_t serial; // unique in the process; an id may be reused
	char name[MANAGER_NAME];
	unsigned streams;
	bool shared;
	struct manager_gate gate;
	struct manager_budget budget;
	struct vg_memory_space *space; // virtualized memory; owns a reference; NULL: the vGPU has `plain` instead
	// Memory allocated directly by the driver (manager/plain.h); NULL: the vGPU has `space`.
	struct plain_memory *plain;

	pthread_mutex_t closing; // locked by the thread that closes the vGPU; other closing threads wait
	bool closed;		 // protected by `closing`: all parts are freed
	pthread_mutex_t setting; // held during changes of limits and moves of memory
	atomic_bool moving;	 // the thread that holds `setting` is moving memory

	struct vg_compute_unit *unit; // owns a reference
	atomic_bool at_rest;	      // true: all work of the compute unit has ended, and the unit accepts no more work
	atomic_bool paused, used;
	atomic_bool no_tensor_cores, no_mixed_precision;
	atomic_uint *active_streams; // state of each virtual stream, see stream.c

	struct vg_mutex lock;		       // protects `workspaces` and `unused` (operation.h)
	struct manager_workspace **workspaces; // the workspaces, indexed by stream; NULL: none was allocated yet
	struct manager_workspace *unused;
};

// ---- calls -------------------------------------------------------------------------------------------

// Returns STATE in a forked child.
enum vg_status manager_usable(void);
// Checks that the manager can be used. Fails with INVALID, CLOSED or STATE.
enum vg_status manager_check(const struct vg_manager *manager);
// Begins a call that uses the vGPU: until manager_leave(), vg_virtual_gpu_close() of it fails with BUSY. Returns OK,
// INVALID, CLOSED or STATE.
enum vg_status manager_enter(struct vg_virtual_gpu *vgpu);
// Begins a change: calls manager_enter() and locks `setting`. Fails with STATE while memory is being moved. The
// program's progress callback may make such a call during the move; it would wait forever for the lock of its own
// thread.
enum vg_status manager_begin_change(struct vg_virtual_gpu *vgpu);
// Unlocks `setting`, and returns the result of manager_leave() for `status`.
enum vg_status manager_end_change(struct vg_virtual_gpu *vgpu, enum vg_status status);
// Ends a call on a vGPU. Records whether `status` says that the context is lost, and returns `status`.
enum vg_status manager_leave(struct vg_virtual_gpu *vgpu, enum vg_status status);
// Returns whether the context is lost, so that every call on it fails.
bool manager_is_lost(struct vg_manager *manager);
// Sets the error for a lost context, and returns STATE.
enum vg_status manager_lost(const struct vg_virtual_gpu *vgpu);

// ---- a manager's table (table.c) -----------------------------------------------------------------------

// Adds a vGPU to the table, with the wanted id or an unused one, and reserves its limit. Fails with EXISTS, LIMIT or
// CLOSED.
enum vg_status manager_admit(struct vg_virtual_gpu *vgpu, uint64_t limit);
// Makes the vGPU visible to manager_get(). Fails with CLOSED or NO_MEMORY.
enum vg_status manager_publish(struct vg_virtual_gpu *vgpu);
void manager_dismiss(struct vg_virtual_gpu *vgpu);
// Finds a vGPU by id, and returns a new reference, or NULL if not found.
struct vg_virtual_gpu *manager_get(struct vg_manager *manager, int id);
// Lists all vGPUs in the order of their ids, with new references; manager_release_all() releases them. Fails with
// NO_MEMORY.
enum vg_status manager_get_all(struct vg_manager *manager, struct vg_virtual_gpu ***ret_vgpus, size_t *ret_count);
void manager_release_all(struct vg_virtual_gpu **vgpus, size_t count);
// Changes the limit that is reserved for the vGPU from `before` to `limit`. Fails with LIMIT.
enum vg_status manager_promise(struct vg_virtual_gpu *vgpu, uint64_t before, uint64_t limit);

// Records an id. Returns false if out of memory.
bool manager_ids_add(struct manager_ids *ids, int id);
bool manager_ids_have(const struct manager_ids *ids, int id);
// Returns the lowest id that was never used; 0: all were used.
int manager_ids_next(const struct manager_ids *ids);

// ---- promises over all managers of the process (promise.c) ----------------------------------------------

// Reserves or returns memory of a device. Returns false, with the bytes that are left, if the sum would exceed `total`.
bool promise_reserve(const struct vg_device *device, uint64_t total, uint64_t bytes, uint64_t *ret_left);
void promise_return(const struct vg_device *device, uint64_t bytes);
uint64_t promise_left(const struct vg_device *device, uint64_t total);

// ---- life of a vGPU (life.c) -----------------------------------------------------------------------------

// Closes a vGPU. If another thread is closing it, waits for that thread. If the vGPU has work and `instead` is NULL,
// cancels the work. If it has work and `instead` is a function's name, fails with BUSY; the error recommends that
// function.
enum vg_status manager_end(struct vg_virtual_gpu *vgpu, const char *instead);
enum vg_virtual_gpu_status manager_status_of(struct vg_virtual_gpu *vgpu);

// ---- streams (stream.c) -----------------------------------------------------------------------------------

// manager_stream_begin() begins a submission to a virtual stream, and makes the stream active. It fails with INVALID
// (no such stream) or LIMIT (the manager has too many active streams). manager_stream_end() ends the submission. The
// stream then stays active if work was submitted (`used`), or was before, or if another thread is submitting.
enum vg_status manager_stream_begin(struct vg_virtual_gpu *vgpu, unsigned stream);
void manager_stream_end(struct vg_virtual_gpu *vgpu, unsigned stream, bool used);
// Prepares to make an active stream inactive: begins a submission, and clears the bit that says that work was submitted
// before. The caller ends this submission by manager_stream_end(). If the stream is not active, or another thread is
// submitting to it, changes nothing and returns false. *ret_active: whether the stream was active.
bool manager_stream_claim(struct vg_virtual_gpu *vgpu, unsigned stream, bool *ret_active);
// Sets and returns the error INVALID for a stream number.
enum vg_status manager_no_stream(const struct vg_virtual_gpu *vgpu, unsigned stream);
unsigned manager_active_streams(const struct vg_virtual_gpu *vgpu);
void manager_streams_give_back(struct vg_virtual_gpu *vgpu);
