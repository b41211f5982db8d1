// A room is the place in pinned host memory (pager/host.h) for one chunk of device memory. It keeps the chunk's bytes
// after they have returned to the device. So blocks that do not change until the next move need not be copied again
// (pager/blocks.h). Call these functions in the pager's thread with the gate closed. But any thread that frees device
// memory may give back the rooms of that memory.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PAGER_BLOCK = 2 << 20 };

struct hash_node;

struct pager_room {
	uint64_t at;		   // where the room begins in the host; 0: there is no room
	uint64_t changed;	   // one bit for each block: the next move to the host must copy the block
	struct hash_node *digests; // digests of the blocks; NULL: not computed
	bool is_hashed;		   // the digests are those of the bytes that are on the device now
	bool is_copy;		   // the digests are those of the bytes that are in the host
};

// Takes a room of `size` bytes, at most PAGER_CHUNK. Does nothing if the chunk has a room already. Returns false if too
// little pinned host memory is free.
bool pager_room_take(struct pager_room *room, size_t size);
// Gives back the room, if there is one.
void pager_room_give(struct pager_room *room, size_t size);
// Marks all blocks as changed. Call it before a move to the host. Hashing the device memory then finds the unchanged
// blocks and clears their marks (pager/blocks.h).
void pager_room_begin(struct pager_room *room, size_t size);
// Returns the bytes of the unchanged blocks, which need not be copied.
uint64_t pager_room_unchanged(const struct pager_room *room, size_t size);
