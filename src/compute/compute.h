// Declares functions of compute units and schedulers for other directories, in addition to the public interface. Any
// thread may call them, unless said otherwise.
#pragma once
#include <stdbool.h>

#include "core/core.h"
#include "virgate/compute.h"
#include "virgate/context.h"
#include "virgate/stream.h"

// Creates a scheduler. `direct`: submits the work of each compute unit at once to the unit's own driver streams,
// without shares, quanta, groups or time measurement. Otherwise works like vg_compute_create().
enum vg_status compute_create(struct vg_device *device, const struct vg_compute_options *options, bool direct,
			      struct vg_compute **ret_compute);

struct vg_ledger;
// Makes the compute unit's work wait for the turns of the ledger's vGPU, as programs inside that vGPU do. The ledger
// must have a slot of this process, and stay open until the unit is closed. Fails with NO_MEMORY or STATE.
enum vg_status compute_take_turns(struct vg_compute_unit *unit, const struct vg_ledger *ledger);

// Describes work other than a registered kernel: an operation or a copy.
struct compute_job {
	const char *name; // the scheduler copies the name
	// Submits the job's next kernel or copy to `stream`, and sets *ret_more if another one follows. The scheduler's
	// thread calls this without locks, with the device's primary context current. Must not wait for work of any
	// compute unit.
	enum vg_status (*step)(void *user, struct vg_stream *stream, bool *ret_more);
	// Called once after the job has ended in any state, on any thread and without locks. Not called if
	// compute_submit() failed. Closing the compute unit waits until the callback returns. Must not close units. May
	// be NULL.
	void (*free)(void *user);
	void *user;
	unsigned stream;
	int priority;
};
enum vg_status compute_submit(struct vg_compute_unit *unit, const struct compute_job *job,
			      struct vg_execution **ret_execution);
// Queues a kernel like vg_compute_unit_execute(). `ended`, if not NULL, is called once after the kernel has ended in
// any state, on any thread and without locks. It is not called if this function fails.
enum vg_status compute_execute(struct vg_compute_unit *unit, const struct vg_work *work, void (*ended)(void *user),
			       void *user, struct vg_execution **ret_execution);

// Makes `stream` wait for all work of the compute unit that is at the driver already, but not for queued work.
enum vg_status compute_fence(struct vg_compute_unit *unit, struct vg_stream *stream);
// Waits until all running executions of a paused compute unit have ended. compute_fence() is not enough for that,
// because an execution of many launches continues in later quanta.
enum vg_status compute_wait_for_running(struct vg_compute_unit *unit);
// Lets `to`, a compute unit of the same scheduler, run up to `count` executions queued in `from`, newest first. The
// executions keep their order in their stream. They still belong to `from`: functions that wait for, find or close the
// work of `from` include them. They wait in the queue of `to`, use its turns, and count as its GPU time. When `to` is
// closed, those that are not completely launched return to `from`.
enum vg_status compute_migrate(struct vg_compute_unit *from, struct vg_compute_unit *to, size_t count,
			       size_t *ret_moved);
// Ends the compute unit's turn, and the unit's open quantum if there is one.
enum vg_status compute_preempt(struct vg_compute_unit *unit, bool *ret_preempted);

// Makes all work fail. Call this after a driver call outside the scheduler returned `result`, an error after which no
// work can run in the context. Does not change the calling thread's last error.
void compute_lost(struct vg_compute *compute, CUresult result);
// Writes why the context failed; "": it has not failed.
void compute_failure(struct vg_compute *compute, char *ret_text, size_t size);

// Begins to close the compute unit `alone`, or, if that is NULL, the scheduler with all its units. The units accept no
// more work, and their work is cancelled. If there is work and `instead` is not NULL, changes nothing and fails with
// BUSY; the error names `instead` as the function that cancels work. After success, compute_unit_wait_gone() waits
// until the unit has ended.
enum vg_status compute_shut(struct vg_compute *compute, struct vg_compute_unit *alone, const char *instead);
void compute_unit_wait_gone(struct vg_compute_unit *unit);
// Closes a scheduler for which compute_shut() has succeeded.
void compute_finish(struct vg_compute *compute);
