// One pass of a compaction. Call with the space's lock.
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
	uint64_t bytes_left;	     // of the bound for the call
	uint64_t bytes;		     // in this pass
	bool bounded;		     // a block was skipped because of a bound
	struct space_chunk *sources; // by `next`
	size_t count;
	struct space_move move[SPACE_MOVER_PIECES];
};

// Plans moves within the bounds, in the pass and in the space's list of copies. Without moves, count is 0.
void space_pass_plan(struct space_pass *pass);
// Gives the blocks their new cells if they were `moved`, or frees these otherwise. Puts chunks that are empty now
// before *list, to be freed.
void space_pass_finish(struct space_pass *pass, bool moved, struct space_chunk **list);
