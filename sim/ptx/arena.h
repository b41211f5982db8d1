// Memory that lives as long as a module: taken piecemeal, given back at once. One thread.
#pragma once

#include <stddef.h>

struct ptx_arena {
	struct ptx_arena_chunk *chunks;
	size_t left;
};

// Zeroed, aligned to 16. NULL when memory is out.
void *ptx_arena_take(struct ptx_arena *arena, size_t size);
char *ptx_arena_text(struct ptx_arena *arena, const char *text, size_t length);
void ptx_arena_finish(struct ptx_arena *arena);
