// Caches the results of vg_program_compile(). Any thread.
#pragma once
#include "core/object.h"
#include "core/program.h"
#include "virgate/compile_cache.h"

// A key: everything that the result of a compilation depends on, as bytes.
struct core_cache_key {
	unsigned char *data;
	size_t size;
	bool failed;   // true: an allocation failed
	bool has_time; // true: the source contains the time of compilation, so the result is not stored
};

// Fills in *ret_key, which must be zeroed. Call core_cache_key_finish() also after a failure. Fails with INVALID if the
// compiler may read files, and the options contain no digest (hash) of these files. Other failures are NO_MEMORY, and
// NOT_FOUND or NO_DRIVER for a tool that cannot be used.
enum vg_status core_cache_key_make(const struct vg_program *program, enum vg_code_type target,
				   const struct core_arguments *arguments, const struct vg_compile_options *options,
				   struct core_cache_key *ret_key);
void core_cache_key_finish(struct core_cache_key *key);

// Reads an entry. Returns false if the entry is missing or damaged.
bool core_cache_get(struct vg_compile_cache *cache, const struct core_cache_key *key,
		    struct core_compiled *ret_compiled);
// Stores an entry. A failure does not fail the compilation: it is logged and counted in the statistics.
void core_cache_put(struct vg_compile_cache *cache, const struct core_cache_key *key,
		    const struct core_compiled *compiled);
