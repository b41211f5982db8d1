// Defines the page of a publication: a file of the daemon that readers map. It tells readers, without a request,
// whether their generation is the current one, and whether the publisher wants readers to close it. When the daemon
// ends, the file stays, and the next daemon writes to the same file. Only the daemon writes it. Any thread of any
// process may read it.
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#include "wire/wire.h"

enum { VG_PAGE_MAGIC = 0x31504756 /* "VGP1" */, VG_PAGE_SIZE = 4096, VG_PAGE_ID = 16 };

struct vg_wire_page {
	uint32_t magic;
	uint32_t owner;		// user id
	uint8_t id[VG_PAGE_ID]; // a random and unique id of the publication
	char name[VG_WIRE_NAME];
	// For the next daemon: the publisher's process, and the number of generations.
	int64_t publisher; // the publisher's pid in the daemon's pid namespace; 0: unknown
	uint64_t publisher_start;
	uint64_t newest; // the last generation that was published
	// For readers.
	_Atomic uint64_t current; // the generation that readers may open; 0: no generation
	_Atomic uint64_t asked;	  // the publisher wants readers to close all generations up to this one; 0: none
	// Time, on the monotonic clock, by which readers must close the generations up to `asked`.
	_Atomic uint64_t deadline_ns;
};
_Static_assert(sizeof(struct vg_wire_page) <= VG_PAGE_SIZE, "a page");
