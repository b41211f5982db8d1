// Joins the devices of a job to one vGPU of the arbiter, so that the job has its turns on all of them at the same time.
// A part is the job's vGPU on one device. The daemon's arbiter threads.
#pragma once
#include "turn/turn.h"

enum { TURN_PARTS = 16 };

// Makes the facts of the job from those of its parts.
void turn_gang_read(const struct turn_facts *parts, unsigned int count, struct turn_facts *ret_facts);
// Makes the gate of a part from that of the job. A part that lags behind may launch after the turn until the work of the
// others has ended, because that work may wait for it.
void turn_gang_gate(const struct turn_gate *gate, const struct turn_facts *part, struct turn_gate *ret_gate);
