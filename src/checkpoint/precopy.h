// Runs the precopy rounds of a migration, which transfer the device memory of evictable vGPUs while the programs run.
// In each round the pager moves the memory to the host, and the migration opens the pager's file. Then the memory
// returns to the GPU, and the program continues. Meanwhile the migration writes the file, which no other process uses
// any more, into packs and sends them. One thread.
#pragma once
#include "checkpoint/device/out.h"
#include "checkpoint/dump.h"
#include "checkpoint/move/stream.h"

struct precopy {
	const struct vg_dump_options *dump;
	struct phase *phase;
	struct frames *frames;
	struct packs packs;
	struct device_bases bases;    // the packs of the last round only
	struct image_draft drafts[2]; // the packs of the last two rounds
	struct device_base base;      // base for the dump that follows: the memory of the last round
	unsigned rounds;
	uint64_t sent_bytes;
	char warning[240]; // says why the rounds did not shorten the stop; "": they did
};
// Sends the device memory in rounds while the processes run: first all of it, then what has changed. Then tells the
// receiver that no more packs follow. The caller must call precopy_finish() after every outcome. Returns UNSUPPORTED
// (no process is in an evictable vGPU), STATE (the progress function asked to stop), or what vg_checkpoint_dump()
// returns.
enum vg_status precopy_run(struct precopy *precopy);
void precopy_finish(struct precopy *precopy);
