// Reads and trims the directory of a compile cache. Any thread, any number of processes.
#pragma once
#include <stdint.h>

#include "core/compile_cache.h"

struct vg_compile_cache {
	struct core_object object;
	char *path;
	int directory; // descriptor
	uint64_t limit;
	_Atomic uint64_t hits, misses, damaged, failed;
};

struct core_cache_sum {
	uint64_t entries, bytes;
};
// Opens or creates the directory. Fails with DENIED if a user other than its owner may write to it, or if another user
// owns it. Fails with SYSTEM for other errors.
enum vg_status core_cache_directory_open(struct vg_compile_cache *cache);
// Counts the entries, and removes the least recently used ones until at most `most` bytes are left. `ret_sum` may be
// NULL. Returns 0, or a negative errno.
int core_cache_directory_trim(const struct vg_compile_cache *cache, uint64_t most, struct core_cache_sum *ret_sum);
// Returns the path of virgate/programs in XDG_CACHE_HOME or ~/.cache, to be freed; NULL with a SYSTEM or NO_MEMORY
// error.
char *core_cache_directory_default(void);
