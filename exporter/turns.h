// Keeps what vGPUs did on their GPUs in the last seconds: turns, waiting, and other phases. The daemon records that
// only while requests arrive, so turns_follow() is only for readers that want turns. All readers share the parts. The
// memory is bounded. Used by the server's thread only.
#pragma once
#include <stdint.h>

#include <virgate/journal.h>

enum { TURNS_MOST = 4096 };

// A phase of a vGPU, or a part of it. The part with the number n is at [n % TURNS_MOST].
struct turns_part {
	char vgpu[64];
	int device;
	char phase[16];
	uint64_t turn, begin_ns, end_ns, charged_ns;
	uint64_t launches; // VG_HISTORY_UNKNOWN: not shown
};

struct turns {
	char problem[512];    // why the daemon does not answer; "": it does
	uint64_t since_ns;    // when the recording began
	uint64_t now_ns;      // the time of the daemon's last answer, by the clock of the parts
	uint64_t first, last; // the numbers of the parts; no parts: first is last + 1
	uint64_t gap;	      // after the part with this number some are missing; 0: none
	struct turns_part at[TURNS_MOST];
};

// Returns the parts, valid until the next call. Asks the daemon for new ones, at most twice a second.
const struct turns *turns_follow(struct vg_node *node);
