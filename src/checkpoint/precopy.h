// The precopy rounds of a migration: device memory of evictable vGPUs is transferred while the programs run. In each
// round the pager moves the memory to the host, and the migration opens the pager's file. Then the memory returns, and
// the program continues. Meanwhile the migration writes the file, which no other process uses any more, into packs and
// sends them. One thread.
#pragma once
#include "checkpoint/device/out.h"
#include "checkpoint/dump.h"
#include "checkpoint/move/stream.h"

struct precopy {
	const struct vg_dump_options *dump;
	struct phase *phase;
	struct frames *frames;
	struct packs packs;
	struct device_bases bases;    // the last round only
	struct image_draft drafts[2]; // of the last two rounds
	struct device_base base;      // the last round, for the dump after it
	unsigned rounds;
	uint64_t sent_bytes;
	char warning[240]; // why precopy did not help; "": it helped
};
// Runs the rounds, and sends the end of the packs even if there are no packs. precopy_finish() is needed after every
// outcome. UNSUPPORTED (no process is in an evictable vGPU), STATE (the phase wants to stop), and all refusals of a
// dump.
enum vg_status precopy_run(struct precopy *precopy);
void precopy_finish(struct precopy *precopy);
