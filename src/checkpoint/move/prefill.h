// Fills host memory for processes during the precopy rounds of a migration, so that less remains to be done when the
// processes arrive. One thread.
#pragma once
#include "checkpoint/image/device_index.h"
#include "checkpoint/move/stream.h"
#include "checkpoint/process/phase.h"

struct prefill {
	struct packs *packs;
	struct device_index index; // index of the contents of the files
	int *fds;		   // a file for each memory of the index; -1: no room for one
};
// Writes the blocks that have changed since the last precopy round to `fds`. If none of these is -1, all packs of the
// round have been read, so marks them as checked. Removes the packs whose blocks the new index does not contain.
// `prefill` points to a struct prefill. `phase` may be NULL. INTEGRITY, STATE (the progress function asked to stop),
// SYSTEM, NO_MEMORY.
enum vg_status prefill_round(void *prefill, const void *index, size_t length, struct phase *phase);
// Returns the file for the memory of a process, and the blocks that the file contains. Returns -1 if there is no file
// of this size. The prefill keeps ownership of the file.
int prefill_find(const struct prefill *prefill, const struct device_memory *memory,
		 const struct device_block **ret_have);
// Takes the file that prefill_find() would return. The caller closes it, and later calls of prefill_find() do not
// return it. The prefill keeps ownership of the blocks.
int prefill_take(struct prefill *prefill, const struct device_memory *memory, const struct device_block **ret_have);
void prefill_finish(struct prefill *prefill);
