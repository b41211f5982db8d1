// Declares an arena: memory that is allocated in pieces, lives as long as a module, and is freed at once. One thread.
#pragma once

#include <stddef.h>

struct ptx_arena {
	struct ptx_arena_chunk *chunks;
	size_t left;
};

// Allocates zeroed memory, aligned to 16 bytes. NULL: out of memory.
void *ptx_arena_allocate(struct ptx_arena *arena, size_t size);
// Copies a text and terminates the copy. NULL: out of memory.
char *ptx_arena_copy_text(struct ptx_arena *arena, const char *text, size_t length);
void ptx_arena_finish(struct ptx_arena *arena);
