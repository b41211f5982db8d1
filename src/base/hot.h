// Functions of a path that a driver call's cold caches make dear: the linker puts them side by side.
#pragma once
#include <stdlib.h>
#include <string.h>

enum { VG_LINE = 64 };

#define VG_HOT __attribute__((hot))
// Branches of such a path that are seldom taken: kept out of its lines.
#define VG_COLD __attribute__((cold, noinline))

// Zeroed memory that begins a line of the cache, which holds what the path reads of it; for free(). NULL: none left.
static inline void *vg_lines(size_t size)
{
	size_t whole = (size + VG_LINE - 1) / VG_LINE * VG_LINE;
	void *memory = aligned_alloc(VG_LINE, whole);

	return memory ? memset(memory, 0, whole) : NULL;
}
