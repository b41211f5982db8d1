// Fills host memory of processes during the precopy rounds of a migration, so that little is left to do when the
// processes arrive. One thread.
#pragma once
#include "checkpoint/image/device_index.h"
#include "checkpoint/move/stream.h"
#include "checkpoint/process/phase.h"

struct prefill {
	struct packs *packs;
	struct device_index index; // what the files hold
	int *fds;		   // a file for each memory of the index; -1: there was no room
};
// Fills the files with the blocks that have changed since the last precopy round. Marks the packs of the round as
// checked if there was room for every memory, and removes the packs that the index does not use. `prefill` is a struct
// prefill. `phase` may be NULL. INTEGRITY, STATE (the phase wants to stop), SYSTEM, NO_MEMORY.
enum vg_status prefill_round(void *prefill, const void *index, size_t length, struct phase *phase);
// Returns the file for the memory of a process, and the blocks that it holds; -1: no file of this size. The prefill
// keeps the file.
int prefill_find(const struct prefill *prefill, const struct device_memory *memory,
		 const struct device_block **ret_have);
// The same, but the caller closes the file, and prefill_find() does not find it any more. The prefill keeps the blocks.
int prefill_take(struct prefill *prefill, const struct device_memory *memory, const struct device_block **ret_have);
void prefill_finish(struct prefill *prefill);
