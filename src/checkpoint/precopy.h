// The rounds of a migration before the processes are stopped: device memory of evictable vGPUs goes over while programs
// run. In each round the memory moves to the host, and its file there is opened; then the memory returns and the program
// runs on, while the file, which is nobody else's any more, is written into packs and sent. One thread.
#pragma once
#include "checkpoint/device_out.h"
#include "checkpoint/dump.h"
#include "checkpoint/stream.h"

struct precopy {
	const char *function;
	const struct vg_dump_options *dump;
	struct phase *phase;
	struct frames *frames;
	struct packs packs;
	struct device_bases bases; // the last round, alone
	struct image_draft drafts[2]; // of the last two rounds
	struct device_base base; // the last round, for the dump that follows
	unsigned rounds;
	uint64_t sent_bytes;
	char warning[240]; // why it did not help; "": it did
};
// Runs the rounds. Sends the end of the packs, also if there were none. precopy_finish() is needed after every outcome.
// UNSUPPORTED: nothing is in an evictable vGPU. STATE: the phase wants to stop; and what a dump refuses.
enum vg_status precopy_run(struct precopy *precopy);
void precopy_finish(struct precopy *precopy);
