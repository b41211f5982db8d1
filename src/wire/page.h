// The page of a publication: a file of the daemon's that readers map, to know without asking whether what they hold is
// the current generation and whether it is asked back. It outlives the daemon, and the next one goes on with it.
// The daemon writes; any thread of any process reads.
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#include "wire/wire.h"

enum { VG_PAGE_MAGIC = 0x31504756 /* "VGP1" */, VG_PAGE_SIZE = 4096, VG_PAGE_ID = 16 };

struct vg_wire_page {
	uint32_t magic;
	uint32_t owner;	    // user
	uint8_t id[VG_PAGE_ID]; // of the publication: random, never another's
	char name[VG_WIRE_NAME];
	// For the next daemon: who has it published, and what generations came before.
	int64_t publisher; // pid as the daemon sees it; 0: none that it sees
	uint64_t publisher_start;
	uint64_t newest; // the last generation that was given out
	// For readers.
	_Atomic uint64_t current;     // the generation that may be opened; 0: none
	_Atomic uint64_t asked;	      // generations up to this one are asked back; 0: none
	_Atomic uint64_t deadline_ns; // by when, on the monotonic clock
};
_Static_assert(sizeof(struct vg_wire_page) <= VG_PAGE_SIZE, "a page");
