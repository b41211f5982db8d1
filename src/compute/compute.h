// What other rooms may do with units beyond the public interface. Any thread, unless said otherwise.
#pragma once
#include <stdbool.h>

#include "core/core.h"
#include "virgate/compute.h"
#include "virgate/context.h"
#include "virgate/stream.h"

// `direct`: each unit's work goes to driver streams of its own as it comes, beside all others': no shares, quanta,
// groups or account. `function` is what errors name. As vg_compute_create().
enum vg_status compute_create(struct vg_device *device, const struct vg_compute_options *options, bool direct,
			      struct vg_compute **ret_compute);

struct vg_ledger;
// The unit's work waits for the turns of the ledger's vGPU on the device, as programs inside that vGPU do. The ledger, in
// which this process has a slot, stays open until the unit is gone. NO_MEMORY, STATE.
enum vg_status compute_take_turns(struct vg_compute_unit *unit, const struct vg_ledger *ledger);

// Work that is not a registered kernel: operations, copies.
struct compute_job {
	const char *name; // copied
	// Queues its next piece, one kernel or copy, on `stream`; *ret_more while there are others. By the scheduler's
	// thread, the device's primary context being current, under no lock; it may not wait for work of any unit.
	enum vg_status (*step)(void *user, struct vg_stream *stream, bool *ret_more);
	// Once, after the end in whatever state, unless compute_submit() failed, and before whoever closes the unit
	// goes on. By whatever thread, under no lock; it may not close units. NULL: nothing.
	void (*free)(void *user);
	void *user;
	unsigned stream;
	int priority;
};
enum vg_status compute_submit(struct vg_compute_unit *unit, const struct compute_job *job,
			      struct vg_execution **ret_execution);
// As vg_compute_unit_execute(); `ended`, unless NULL, is called as a job's `free` is.
enum vg_status compute_execute(struct vg_compute_unit *unit, const struct vg_work *work, void (*ended)(void *user),
			       void *user, struct vg_execution **ret_execution);

// Makes `stream` wait for all work of the unit that was handed to the driver so far. What is queued is not waited for.
enum vg_status compute_fence(struct vg_compute_unit *unit, struct vg_stream *stream);
// Waits until all executions of a paused unit that have begun have ended. One of many launches goes on in later quanta, so
// a fence is not enough.
enum vg_status compute_wait_for_running(struct vg_compute_unit *unit);
// Lets another unit of the same scheduler run up to `count` executions that are queued in this one, newest first. They
// stay in the order of their stream, and this unit's to sync, close and find: what changes is whose queue they stand
// in, whose turns they take and whose account is charged. A unit that is closed gives them back.
enum vg_status compute_migrate(struct vg_compute_unit *from, struct vg_compute_unit *to, size_t count,
			       size_t *ret_moved);
// Ends the unit's quantum, if it has one that takes more, and its turn.
enum vg_status compute_preempt(struct vg_compute_unit *unit, bool *ret_preempted);

// Somebody else was told by the driver that every call on the context fails: all work does. Keeps the last error.
void compute_lost(struct vg_compute *compute, CUresult result);
void compute_failure(struct vg_compute *compute, char *ret_text, size_t size); // why it has; "": it has not

// The beginning of an end, of all units and their scheduler or of one `alone`: no more work comes, and what there is is
// cancelled. All or nothing: BUSY while some has not ended, where `instead` names the function that cancels it; NULL:
// this is that one. compute_unit_wait_gone(): until such a unit has ended.
enum vg_status compute_shut(struct vg_compute *compute, struct vg_compute_unit *alone, const char *instead);
void compute_unit_wait_gone(struct vg_compute_unit *unit);
// vg_compute_close(), after compute_shut().
void compute_finish(struct vg_compute *compute);
