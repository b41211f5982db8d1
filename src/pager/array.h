// Makes arrays of pointers grow. The caller holds the lock that protects the array.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

// Makes room for one more pointer after `used` pointers. `array` points to the array, which may move. Returns false if
// no memory is left.
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
