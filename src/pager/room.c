#include "pager/room.h"

#include <stdlib.h>

#include "pager/host.h"

bool pager_room_take(struct pager_room *room, size_t size)
{
	if (!room->at)
		room->at = pager_host_take(size);
	return room->at != 0;
}

void pager_room_give(struct pager_room *room, size_t size)
{
	if (room->at)
		pager_host_give(room->at, size);
	free(room->digests);
	*room = (struct pager_room){0};
}

void pager_room_begin(struct pager_room *room, size_t size)
{
	size_t count = size / PAGER_BLOCK;

	room->changed = count < 64 ? (1ull << count) - 1 : UINT64_MAX;
	room->is_hashed = false;
}

uint64_t pager_room_unchanged(const struct pager_room *room, size_t size)
{
	return size - (uint64_t)__builtin_popcountll(room->changed) * PAGER_BLOCK;
}
