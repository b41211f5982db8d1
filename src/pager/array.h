// Arrays of pointers that grow. The caller holds the lock of the array.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

// Makes room for one more pointer behind `used`, in an array that `array` points to. Returns false if there is no
// memory.
static inline bool pager_array_reserve(void *array, size_t used, size_t *capacity)
{
	size_t more = *capacity ? *capacity * 2 : 64;
	void **grown;

	if (used < *capacity)
		return true;
	grown = realloc(*(void **)array, more * sizeof *grown);
	if (!grown)
		return false;
	*(void **)array = grown;
	*capacity = more;
	return true;
}
