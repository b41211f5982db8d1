// Helpers for code that runs after a driver call, when the CPU's caches are cold. VG_HOT makes the linker place a
// function next to other hot functions.
#pragma once
#include <stdlib.h>
#include <string.h>

enum { VG_LINE = 64 };

#define VG_HOT __attribute__((hot))
// VG_COLD is for functions on rare paths: their code stays out of the cache lines of hot functions.
#define VG_COLD __attribute__((cold, noinline))

// Allocates zeroed memory that begins at a cache line; free it with free(). Returns NULL if no memory is left.
static inline void *vg_lines(size_t size)
{
	size_t whole = (size + VG_LINE - 1) / VG_LINE * VG_LINE;
	void *memory = aligned_alloc(VG_LINE, whole);

	return memory ? memset(memory, 0, whole) : NULL;
}
