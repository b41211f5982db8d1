#include "sim/ptx/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 64 << 10 };

struct ptx_arena_chunk {
	struct ptx_arena_chunk *next;
	uint8_t *end;
	_Alignas(16) uint8_t bytes[];
};

void *ptx_arena_allocate(struct ptx_arena *arena, size_t size)
{
	size = (size + 15) & ~(size_t)15;
	if (size > PTRDIFF_MAX / 2)
		return NULL;
	if (!arena->chunks || arena->left < size) {
		size_t room = size > CHUNK ? size : CHUNK;
		struct ptx_arena_chunk *chunk = calloc(1, sizeof *chunk + room);
		if (!chunk)
			return NULL;
		chunk->next = arena->chunks;
		chunk->end = chunk->bytes + room;
		arena->chunks = chunk;
		arena->left = room;
	}
	void *allocated = arena->chunks->end - arena->left;
	arena->left -= size;
	return allocated;
}

char *ptx_arena_copy_text(struct ptx_arena *arena, const char *text, size_t length)
{
	char *copy = ptx_arena_allocate(arena, length + 1);
	if (copy)
		memcpy(copy, text, length);
	return copy;
}

void ptx_arena_finish(struct ptx_arena *arena)
{
	for (struct ptx_arena_chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
	arena->chunks = NULL;
	arena->left = 0;
}
