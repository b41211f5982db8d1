// Managers and their virtual GPUs, as this room sees them. Any thread.
//
// A manager's table names its vGPUs and does not hold them: the last handle closes a vGPU. A call on a vGPU is inside
// its gate, so that whoever closes the vGPU can wait for it. Lock order: a manager's `lock`, then that of the promises;
// a budget's and a vGPU's alone. None is held over a call of the driver or the daemon, but `closing`, `setting` and
// `creating`, which are there for that.
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

// Ids that vGPUs ever had, as runs without gaps, in order.
struct manager_ids {
	struct id_run {
		int first, last;
	} * runs;
	size_t count, capacity;
};

struct vg_manager {
	struct core_object object;
	struct vg_context *context;	   // held: the device's primary one
	struct vg_manager_options options; // without zeros
	struct vg_compute *compute;	   // held
	struct vg_memory_space_options memory_options;
	uint64_t memory;	      // of the device
	struct vg_mutex lock;	      // of what follows
	struct vg_virtual_gpu *vgpus; // by id, linked by `next`
	unsigned count;
	struct manager_ids ids;
	unsigned streams; // active ones

	pthread_mutex_t creating;	  // one share that is not said at a time; and `operations`
	struct operation_set *operations; // held; NULL: there was none yet
	atomic_bool lost;		  // the context is
};

// Who is inside, and whether anybody may still come in.
struct manager_gate {
	atomic_uint inside;
	atomic_bool shut;
	pthread_mutex_t lock; // of waiting
	pthread_cond_t empty;
};
void manager_gate_init(struct manager_gate *gate);
void manager_gate_finish(struct manager_gate *gate);
bool manager_gate_enter(struct manager_gate *gate);
void manager_gate_leave(struct manager_gate *gate);
// Nobody comes in from here on. manager_gate_wait(): until those inside have left.
void manager_gate_shut(struct manager_gate *gate);
void manager_gate_wait(struct manager_gate *gate);

struct vg_virtual_gpu {
	struct core_object object;
	struct vg_manager *manager; // held
	// Under the manager's lock.
	struct vg_virtual_gpu *next;
	bool admitted, listed; // `listed`: others may find it
	uint64_t promised;

	int id;
	uint64_t serial; // of the process: no other ever has it, as another may have the id
	char name[MANAGER_NAME];
	unsigned streams;
	bool shared;
	struct manager_gate gate;
	struct manager_budget budget;
	struct vg_memory_space *space; // held; NULL: memory is not virtualized
	struct plain_memory *plain;    // instead

	pthread_mutex_t closing; // whoever closes it has it; who comes second waits
	bool closed;		 // under `closing`: nothing is left of it
	pthread_mutex_t setting; // one change of its limits, or move of its memory, at a time
	atomic_bool moving;	 // a move has `setting`

	struct vg_compute_unit *unit; // held
	atomic_bool at_rest;	      // all its work has ended, and no more comes
	atomic_bool paused, used;
	atomic_bool no_tensor_cores, no_mixed_precision;
	atomic_uint *active_streams; // stream.c

	struct vg_mutex lock;		       // of the next two (operation.h)
	struct manager_workspace **workspaces; // by stream; NULL: there was none yet
	struct manager_workspace *unused;
};

// ---- calls -------------------------------------------------------------------------------------------

// STATE in a forked child.
enum vg_status manager_usable(void);
// INVALID, CLOSED, STATE.
enum vg_status manager_check(const struct vg_manager *manager);
// A call on a vGPU: it stays as it is until manager_leave(). INVALID, CLOSED, STATE.
enum vg_status manager_enter(struct vg_virtual_gpu *vgpu);
// manager_enter(), and takes `setting`. The callback of a move may call this, so it is STATE during a move.
enum vg_status manager_begin_change(struct vg_virtual_gpu *vgpu);
// manager_leave() after that.
enum vg_status manager_end_change(struct vg_virtual_gpu *vgpu, enum vg_status status);
// Passes `status` on, having noted whether it says that the context is lost.
enum vg_status manager_leave(struct vg_virtual_gpu *vgpu, enum vg_status status);
// The driver said something after which it says nothing else.
bool manager_is_lost(struct vg_manager *manager);
// STATE, in words.
enum vg_status manager_lost(const struct vg_virtual_gpu *vgpu);

// ---- a manager's table (table.c) -----------------------------------------------------------------------

// A place for a vGPU, with the id that it asks for, or a free one; its limit is promised. EXISTS, LIMIT, CLOSED.
enum vg_status manager_admit(struct vg_virtual_gpu *vgpu, uint64_t limit);
// Others may find it from here on. CLOSED, NO_MEMORY.
enum vg_status manager_publish(struct vg_virtual_gpu *vgpu);
void manager_dismiss(struct vg_virtual_gpu *vgpu);
// With a reference; NULL: no such one.
struct vg_virtual_gpu *manager_get(struct vg_manager *manager, int id);
// All of them, by id, each with a reference; manager_let_go() ends that. NO_MEMORY.
enum vg_status manager_get_all(struct vg_manager *manager, struct vg_virtual_gpu ***ret_vgpus, size_t *ret_count);
void manager_let_go(struct vg_virtual_gpu **vgpus, size_t count);
// It is promised `limit` in place of `before`. LIMIT.
enum vg_status manager_promise(struct vg_virtual_gpu *vgpu, uint64_t before, uint64_t limit);

// Notes an id; false: no memory.
bool manager_ids_add(struct manager_ids *ids, int id);
bool manager_ids_have(const struct manager_ids *ids, int id);
// The lowest that is not among them; 0: there is none.
int manager_ids_next(const struct manager_ids *ids);

// ---- promises over all managers of the process (promise.c) ----------------------------------------------

// False, with what there is left, where it would pass `total`.
bool promise_take(const struct vg_device *device, uint64_t total, uint64_t bytes, uint64_t *ret_left);
void promise_give(const struct vg_device *device, uint64_t bytes);
uint64_t promise_left(const struct vg_device *device, uint64_t total);

// ---- life of a vGPU (life.c) -----------------------------------------------------------------------------

// Whoever comes first ends it, the others wait. BUSY while it has work, where `instead` names the function that cancels
// that; NULL: this is that one.
enum vg_status manager_end(struct vg_virtual_gpu *vgpu, const char *instead);
enum vg_virtual_gpu_status manager_status_of(struct vg_virtual_gpu *vgpu);

// ---- streams (stream.c) -----------------------------------------------------------------------------------

// Before work is submitted to a virtual stream, which is active then, and after that: it stays so if it was `used`, or
// was before, or if others submit. INVALID (no such one), LIMIT (the manager's total).
enum vg_status manager_stream_take(struct vg_virtual_gpu *vgpu, unsigned stream);
void manager_stream_give(struct vg_virtual_gpu *vgpu, unsigned stream, bool used);
// As manager_stream_take(), but alone, and as if it had never been used. False: it is not active, or somebody submits.
bool manager_stream_claim(struct vg_virtual_gpu *vgpu, unsigned stream, bool *ret_active);
// INVALID, in words.
enum vg_status manager_no_stream(const struct vg_virtual_gpu *vgpu, unsigned stream);
unsigned manager_active_streams(const struct vg_virtual_gpu *vgpu);
void manager_streams_give_back(struct vg_virtual_gpu *vgpu);
