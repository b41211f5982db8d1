// Keeps the newest phases (turn/turn.h) of the vGPUs of one arbiter, for a trace. The caller holds the arbiter's lock.
#pragma once
#include "daemon/node.h"

enum { PHASE_RECORDS = 2048 }; // for each device of the arbiter

// One phase of a vGPU, or a part of one: the client of a trace joins adjacent parts of the same phase and turn. Times
// are those of arbiter_now().
struct phase_record {
	uint64_t number; // unique in this daemon: the records of all logs are counted together
	char vgpu[VG_LEDGER_NAME];
	uid_t owner;
	gid_t group;
	size_t device;
	enum turn_phase phase;
	uint32_t turn; // number of the vGPU's latest turn
	uint64_t begin_ns, end_ns;
	uint64_t charged_ns; // the GPU time that the vGPU was charged in the phase
	uint64_t launches;   // how many launches the vGPU's processes reported in the phase
};

// The records with numbers larger than `after`, and at most `last`.
struct phase_range {
	uint64_t after, last;
};

struct phase_log;
// Creates a log with room for PHASE_RECORDS records of each device. Returns NULL if there is no memory.
struct phase_log *phase_log_create(unsigned int devices);
void phase_log_destroy(struct phase_log *log);
// Adds the record with the next free number. Any thread.
void phase_log_add(struct phase_log *log, const struct phase_record *record);
// Returns the number of the newest record of all logs. A thread may still be storing a record with this or a lower
// number; it holds the lock of that log until it has done so. Any thread.
uint64_t phase_log_newest(void);
// Copies the records of the range, oldest first, into an array with room for `most`. Returns their number. Sets
// *ret_lost to true if records of the range were overwritten; else leaves it unchanged.
size_t phase_log_read(const struct phase_log *log, const struct phase_range *range, struct phase_record *ret_records,
		      size_t most, bool *ret_lost);
