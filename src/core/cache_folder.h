// The folder of a compile cache. Any thread, any number of processes.
#pragma once
#include <stdint.h>

#include "core/compile_cache.h"

struct vg_compile_cache {
	struct core_object object;
	char *path;
	int folder;
	uint64_t limit;
	_Atomic uint64_t hits, misses, damaged, failed;
};

struct core_cache_sum {
	uint64_t entries, bytes;
};
// Opens or makes the folder, ours alone. DENIED, SYSTEM.
enum vg_status core_cache_folder_open(struct vg_compile_cache *cache);
// Counts the entries, and removes the longest unused until they have at most `most` bytes. 0, or a negative errno.
int core_cache_folder_trim(const struct vg_compile_cache *cache, uint64_t most, struct core_cache_sum *ret_sum);
// virgate/programs in XDG_CACHE_HOME or ~/.cache; NULL with a VG_SYSTEM or NO_MEMORY error.
char *core_cache_folder_default(void);
