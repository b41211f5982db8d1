// Functions of units for other rooms, beyond the public interface. Any thread, unless said otherwise.
#pragma once
#include <stdbool.h>

#include "core/core.h"
#include "virgate/compute.h"
#include "virgate/context.h"
#include "virgate/stream.h"

// `direct`: submits each unit's work at once, to driver streams of its own: no shares, quanta, groups or time
// measurement. Otherwise like vg_compute_create().
enum vg_status compute_create(struct vg_device *device, const struct vg_compute_options *options, bool direct,
			      struct vg_compute **ret_compute);

struct vg_ledger;
// Makes the unit's work wait for the turns of the ledger's vGPU, as programs inside that vGPU do. The ledger must have
// a slot of this process, and stay open until the unit is closed. NO_MEMORY, STATE.
enum vg_status compute_take_turns(struct vg_compute_unit *unit, const struct vg_ledger *ledger);

// Work other than registered kernels: operations and copies.
struct compute_job {
	const char *name; // copied
	// Submits the next kernel or copy to `stream`, and sets *ret_more if others follow. Called on the scheduler's
	// thread without locks, with the device's primary context current. Must not wait for work of any unit.
	enum vg_status (*step)(void *user, struct vg_stream *stream, bool *ret_more);
	// Called once after the end in any state, unless compute_submit() failed; closing the unit waits for it. Called
	// on any thread without locks. Must not close units. May be NULL.
	void (*free)(void *user);
	void *user;
	unsigned stream;
	int priority;
};
enum vg_status compute_submit(struct vg_compute_unit *unit, const struct compute_job *job,
			      struct vg_execution **ret_execution);
// Like vg_compute_unit_execute(). `ended`, if not NULL, is called like a job's `free`.
enum vg_status compute_execute(struct vg_compute_unit *unit, const struct vg_work *work, void (*ended)(void *user),
			       void *user, struct vg_execution **ret_execution);

// Makes `stream` wait for all work of the unit that was submitted to the driver so far, but not for queued work.
enum vg_status compute_fence(struct vg_compute_unit *unit, struct vg_stream *stream);
// Waits until all running executions of a paused unit have ended. A fence is not enough, because an execution of many
// launches continues in later quanta.
enum vg_status compute_wait_for_running(struct vg_compute_unit *unit);
// Lets another unit of the same scheduler run up to `count` executions queued in this unit, newest first. They keep
// their order in their stream, and this unit still syncs, closes and finds them. They wait in the other unit's queue
// and use its turns, and their time is charged to it. A closed unit returns them.
enum vg_status compute_migrate(struct vg_compute_unit *from, struct vg_compute_unit *to, size_t count,
			       size_t *ret_moved);
// Ends the unit's turn, and its quantum if it is open.
enum vg_status compute_preempt(struct vg_compute_unit *unit, bool *ret_preempted);

// Fails all work, because the driver reported to another caller that every call on the context fails. Keeps the last
// error.
void compute_lost(struct vg_compute *compute, CUresult result);
void compute_failure(struct vg_compute *compute, char *ret_text, size_t size); // why it has; "": it has not

// Begins to close all units and their scheduler, or only `alone`: accepts no more work and cancels the rest. BUSY,
// without any change, while there is work: `instead` names the function that cancels work; NULL: cancel it.
// compute_unit_wait_gone() waits until such a unit has ended.
enum vg_status compute_shut(struct vg_compute *compute, struct vg_compute_unit *alone, const char *instead);
void compute_unit_wait_gone(struct vg_compute_unit *unit);
// Closes the scheduler after compute_shut().
void compute_finish(struct vg_compute *compute);
