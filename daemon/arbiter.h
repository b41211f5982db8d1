// Gives the vGPUs their turns on the devices. A thread for each device with compute shares calls src/turn, which
// decides. An arbiter's lock guards all that this thread and the main thread use, the mapped ledgers included. Main
// thread only.
#pragma once
#include "daemon/node.h"
#include "daemon/phase_log.h"
#include "turn/turn.h"

// Gives each vGPU that has tenants a seat at an arbiter, with its present terms. Removes all other vGPUs from their
// arbiters. Call it after every event.
void arbiter_follow(struct node *node);
// Removes the vGPU from its arbiter. Call it before the vGPU's ledger is unmapped.
void arbiter_forget(struct vgpu *vgpu);
// The processes of a vGPU that were stopped (SIGSTOP) at `seen_ns`: one bit for each slot of its ledger.
struct arbiter_stops {
	uint64_t slots[VG_LEDGER_SLOTS / 64];
	uint64_t seen_ns;
};
// Informs the arbiter of the stopped processes. A process that looks at its gate after `seen_ns` counts as running
// again.
void arbiter_set_stops(struct vgpu *vgpu, const struct arbiter_stops *stops);
// Returns the time by the clock of turn/page.h: the kernel's own CLOCK_MONOTONIC, whatever time namespace this process
// is in.
uint64_t arbiter_now(void);
// Opens the gate in a ledger that an earlier daemon left, so that launches of the vGPU do not wait for a turn any more.
// Also makes the processes stop counting launches and copies for a trace.
void arbiter_open_gate(struct vg_ledger *ledger);
// Ends all threads, and opens all gates.
void arbiter_end_all(struct node *node);

// Figures of one vGPU for `virgate ps` and `virgate inspect`.
struct arbiter_report {
	struct turn_account account;
	struct turn_total total;
	enum turn_regime regime;
	enum turn_reason reason; // why the vGPU does not get its share
	uint64_t since_ns;	 // the time since which the reason holds
	double recent;		 // the part of the device's time that the vGPU had in the last 10 s, from 0 to 1
	// how often per second the turn passed from one vGPU to another, as the mean of the last 10 s
	double handovers;
};
// Reads the figures of the vGPU. Returns false if the vGPU has no arbiter.
bool arbiter_read(const struct vgpu *vgpu, struct arbiter_report *ret_report);
// Returns the vGPU that has the turn on the device; NULL: none.
const struct vgpu *arbiter_holder(size_t device);

// Begins or ends two things: recording the phases (turn/turn.h) of all vGPUs that take part in turns, and counting the
// launches and copies of all vGPUs. Call it again with the same value to include new vGPUs. A vGPU without an arbiter
// has no phases.
void arbiter_trace(struct node *node, bool wanted);
// Adds a record of each vGPU's present phase, up to now, to the logs. The rest of the phase will get another record.
void arbiter_cut_phases(void);
// Copies the records of all devices as phase_log_read() does, with the same results.
size_t arbiter_read_phases(const struct phase_range *range, struct phase_record *ret_records, size_t most,
			   bool *ret_lost);
