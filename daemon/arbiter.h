// Turns on the devices, decided by src/turn in a thread for each device that has something to enforce. The main thread
// says which vGPUs take part; an arbiter's lock guards all that both use, the mapped ledgers included.
#pragma once
#include "daemon/node.h"
#include "turn/turn.h"

// Lets the vGPUs that have tenants take part, with their present terms, and no others. After every event.
void arbiter_follow(struct node *node);
// The vGPU takes part no more: its ledger is about to be unmapped.
void arbiter_forget(struct vgpu *vgpu);
// Tells which processes of the vGPU, by slot of its ledger, were stopped at `seen_ns`. A process that shows life at its
// gate later counts as continued before the next call.
struct arbiter_stops {
	uint64_t slots[VG_LEDGER_SLOTS / 64];
	uint64_t seen_ns;
};
void arbiter_set_stops(struct vgpu *vgpu, const struct arbiter_stops *stops);
// The present time as the pages have it: the kernel's own CLOCK_MONOTONIC, whatever time namespace this process is in.
uint64_t arbiter_now(void);
// Opens the gate of a ledger that an earlier daemon left.
void arbiter_open_gate(struct vg_ledger *ledger);
// Its threads have ended when this returns; all gates are open.
void arbiter_end_all(struct node *node);

// What `ps` and `inspect` show.
struct arbiter_report {
	struct turn_account account;
	struct turn_total total;
	enum turn_regime regime;
	enum turn_reason reason; // why the share is not being held
	uint64_t since_ns;	 // since when
	bool is_holder;
	double recent;	  // the part of the device's time in the last 10 s
	double handovers; // a second, of the device, in the last 10 s
};
// False: the vGPU takes no part.
bool arbiter_read(const struct vgpu *vgpu, struct arbiter_report *ret_report);
