// One pass of a compaction. Under the space's lock.
#pragma once
#include "space/memory.h"
#include "space/mover.h"

struct space_move {
	struct vg_movable_block *block;
	struct space_chunk *to;
	size_t cell;
};

struct space_pass {
	struct vg_memory_space *space;
	uint64_t bytes_left;	     // of the call's bound
	uint64_t bytes;		     // of this pass
	bool bounded;		     // something stayed because of a bound
	struct space_chunk *sources; // by `next`
	size_t count;
	struct space_move move[SPACE_MOVER_PIECES];
};

// The moves that there are to make, within the bounds, in the pass and in the space's list of copies; none: count is 0.
void space_pass_plan(struct space_pass *pass);
// The blocks are where they were planned to be, or, where nothing was `moved`, as they were. Chunks that are empty now
// are put before *list, to be given back.
void space_pass_finish(struct space_pass *pass, bool moved, struct space_chunk **list);
