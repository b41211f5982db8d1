// The phases of the vGPUs of one device (turn/turn.h), for a trace: the newest PHASE_RECORDS. The caller holds the
// arbiter's lock.
#pragma once
#include "daemon/node.h"

enum { PHASE_RECORDS = 2048 };

// One phase of a vGPU, or a part of it. A reader joins adjacent parts of the same phase and turn. Times are those of
// arbiter_now().
struct phase_record {
	uint64_t number; // every record of this daemon has the next number, whatever the device
	char vgpu[VG_LEDGER_NAME];
	uid_t owner;
	gid_t group;
	size_t device;
	enum turn_phase phase;
	uint32_t turn; // the number of the vGPU's last turn
	uint64_t begin_ns, end_ns;
	uint64_t charged_ns; // the GPU time that the vGPU was charged in the phase
	uint64_t launches;   // how many launches its processes reported in the phase
};

// Only records with numbers above `after` and up to `last`.
struct phase_range {
	uint64_t after, last;
};

struct phase_log;
// Returns NULL if there is no memory.
struct phase_log *phase_log_create(void);
void phase_log_destroy(struct phase_log *log);
// Adds the record with the next number. Any thread.
void phase_log_add(struct phase_log *log, const struct phase_record *record);
// Returns the number of the newest record of all logs. A record with this number, or a lower one, is in its log as soon
// as the lock of that log is free. Any thread.
uint64_t phase_log_newest(void);
// Copies the records of the range, oldest first, into an array with room for `most`. Returns how many. *ret_lost: true
// if the log no longer has all records of the range; else unchanged.
size_t phase_log_read(const struct phase_log *log, const struct phase_range *range, struct phase_record *ret_records,
		      size_t most, bool *ret_lost);
