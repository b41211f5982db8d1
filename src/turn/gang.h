// Joins the devices of a job to one vGPU of the arbiter, so that the job has its turns on all of them at the same time.
// A part is the job's vGPU on one device. Only the daemon's arbiter threads call these functions.
//
// A collective operation ends on a device only after it has begun on all devices of the job. If the turn ends when the
// operation has begun on some devices only, it never ends there by itself: the job is torn. Then a device without work
// in flight may launch although the gate is closed, one launch at a time. This exception ends when all work that was in
// flight on the other devices has ended.
#pragma once
#include "turn/turn.h"
#include "virgate/vgpu.h"

enum { TURN_PARTS = VG_GPUS_MOST };

// What the arbiter remembers of a job between decisions; all zero at first.
struct turn_gang {
	// One bit for each part. If the job is torn, the bit is 1 for a part whose work in flight may wait for other
	// parts. If the job is not torn, all bits are 0.
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
