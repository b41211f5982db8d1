// Joins the devices of a job to one vGPU of the arbiter, so that the job has its turns on all of them at the same time.
// A part is the job's vGPU on one device. Only the daemon's arbiter threads call these functions.
//
// A collective operation on one device ends only when all others have begun theirs. If the turn ends before the others
// have begun, the work of that device never ends by itself: the job is torn. So the job's other devices may launch
// although the gate is closed: those without work in flight, one launch at a time. This ends when the work that waited
// for their launches has ended.
#pragma once
#include "turn/turn.h"
#include "virgate/vgpu.h"

enum { TURN_PARTS = VG_GPUS_MOST };

// What the arbiter remembers of a job between decisions; all zero at first.
struct turn_gang {
	// One bit for each part: the part has work in flight that may wait for other parts; 0: the job is not torn.
	uint32_t stuck;
	// From this time on, the work of the parts in `stuck` is late, so the other parts may launch.
	uint64_t due_ns;
	bool is_due;
};

// Computes what the arbiter must know about the job as a whole (`facts`) from what it knows about each of its devices.
void turn_gang_read(struct turn_gang *gang, const struct turn_facts *parts, unsigned int count, uint64_t now,
		    struct turn_facts *ret_facts);
// Computes the gate for the job's device `index` from the gate of the whole job, which has at least two devices.
void turn_gang_gate(const struct turn_gang *gang, const struct turn_gate *gate, unsigned int index,
		    const struct turn_facts *part, struct turn_gate *ret_gate);
