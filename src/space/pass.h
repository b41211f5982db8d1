// Plans and finishes one pass of a compaction, which moves blocks to fuller pages. Call with the space's lock held.
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
	uint64_t bytes_left;	     // number of bytes that the compaction may still move
	uint64_t bytes;		     // number of bytes to move in this pass
	bool bounded;		     // a block was not moved, because then more bytes would have moved than allowed
	struct space_chunk *sources; // chunks to be emptied, linked by `next`
	size_t count;
	struct space_move move[SPACE_MOVER_PIECES];
};

// Plans moves within the bounds, and adds them to the space's list of copies. `count` is 0 if there is nothing to move.
void space_pass_plan(struct space_pass *pass);
// Ends the pass. If the blocks were `moved`, gives them their new cells; otherwise frees the new cells. Puts chunks
// that are now empty before *list, to be freed.
void space_pass_finish(struct space_pass *pass, bool moved, struct space_chunk **list);
