// A room in pinned host memory (pager/host.h) for a chunk of device memory, and what lies in it. It keeps the bytes
// after they have returned to the device, so that blocks that do not change until the next move need not be copied
// again (pager/blocks.h). The pager's thread with the gate closed; a thread that destroys the memory may give back its
// rooms, too.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PAGER_BLOCK = 2 << 20 };

struct hash_node;

struct pager_room {
	uint64_t at;		   // where it begins in the host; 0: there is no room
	uint64_t changed;	   // a bit for each block: the next move to the host must copy it
	struct hash_node *digests; // of its blocks; NULL: none
	bool is_hashed;		   // these are the digests of the bytes that are on the device now
	bool is_copy;		   // the bytes in the host are those whose digests these are
};

// Takes a room of `size` bytes, of PAGER_CHUNK at most, unless there is one. Returns false if the host has none.
bool pager_room_take(struct pager_room *room, size_t size);
// Gives back the room, if there is one.
void pager_room_give(struct pager_room *room, size_t size);
// Marks all blocks as changed, before a move to the host.
void pager_room_begin(struct pager_room *room, size_t size);
// Returns the bytes of the blocks that need not be copied.
uint64_t pager_room_unchanged(const struct pager_room *room, size_t size);
