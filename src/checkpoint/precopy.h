// Runs the precopy rounds of a migration, which transfer the device memory of evictable vGPUs while the programs run.
// In each round the pager moves the memory to the host, and the migration opens the pager's file. Then the memory
// returns to the GPU, and the program continues. Meanwhile the migration writes the file, which no other process uses
// any more, into packs and sends them. Then a thread sends the packs of the image. For one thread, except for
// precopy_send_last().
#pragma once
#include "base/status.h"
#include "checkpoint/device/out.h"
#include "checkpoint/dump.h"
#include "checkpoint/move/stream.h"

// The thread that sends the packs of the image while the dump continues. As long as it exists, it alone uses
// precopy->frames and precopy->packs.
struct precopy_last {
	pthread_t thread;
	bool is_running;    // the thread exists
	int directory;	    // the draft's directory
	unsigned count;	    // number of packs
	struct phase phase; // of the thread: counts the bytes, and can be asked to stop
	enum vg_status status;
	struct vg_kept_error error; // of `status`
};

struct precopy {
	const struct vg_dump_options *dump;
	struct phase *phase;
	struct frames *frames;
	struct packs packs;
	struct device_bases bases;    // the packs of the last round only
	struct image_draft drafts[2]; // the packs of the last two rounds
	struct device_base base;      // base for the dump that follows: the memory of the last round
	struct precopy_last last;
	unsigned rounds;
	uint64_t sent_bytes;
	char warning[240]; // says why the rounds did not shorten the stop; "": they did
};
// Sends the device memory in rounds while the processes run. The first round sends all of it. Each later round sends
// what has changed since the round before. Call precopy_finish() after every outcome. UNSUPPORTED (no process is in an
// evictable vGPU), STATE (the progress function asked to stop), and the errors of vg_checkpoint_dump().
enum vg_status precopy_run(struct precopy *precopy);
// Begins to send the packs of the image that is being made after the rounds, in a thread. A pack that cannot be opened
// is sent with the image. The function is a struct device_packed; `user` is the struct precopy. Any thread.
void precopy_send_last(void *user, const struct image_draft *draft, unsigned count);
// Waits until the packs of the image are sent, and tells the receiver that no more packs follow. Adds the sent bytes to
// the phase, and stores the phase in precopy->frames. Returns the errors of stream_send_pack().
enum vg_status precopy_end_packs(struct precopy *precopy, struct phase *phase);
void precopy_finish(struct precopy *precopy);
