// Helpers for code that runs after a driver call, which leaves the caches cold. VG_HOT: the linker places the function
// beside other hot functions.
#pragma once
#include <stdlib.h>
#include <string.h>

enum { VG_LINE = 64 };

#define VG_HOT __attribute__((hot))
// For rare branches of hot functions: keeps their code out of the cache lines of the hot code.
#define VG_COLD __attribute__((cold, noinline))

// Allocates zeroed memory at the begin of a cache line; free it with free(). Returns NULL if there is no memory.
static inline void *vg_lines(size_t size)
{
	size_t whole = (size + VG_LINE - 1) / VG_LINE * VG_LINE;
	void *memory = aligned_alloc(VG_LINE, whole);

	return memory ? memset(memory, 0, whole) : NULL;
}
