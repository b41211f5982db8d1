// The compile cache, as programs use it.
#pragma once
#include "core/object.h"
#include "core/program.h"
#include "virgate/compile_cache.h"

// All that a compilation's result depends on, as bytes.
struct core_cache_key {
	unsigned char *data;
	size_t size;
	bool failed;	  // memory was short
	bool of_a_moment; // the source asks for the time: nothing is kept
};

// INVALID if the compiler reads files that no digest stands for; NO_MEMORY. core_cache_key_finish() in any case.
enum vg_status core_cache_key_make(const struct vg_program *program, enum vg_code_type target,
				   const struct core_arguments *arguments, const struct vg_compile_options *options,
				   struct core_cache_key *ret_key);
void core_cache_key_finish(struct core_cache_key *key);

// Whether the cache has it, whole.
bool core_cache_get(struct vg_compile_cache *cache, const struct core_cache_key *key,
		    struct core_compiled *ret_compiled);
// Keeps it, if that is possible: a cache that cannot be written to does not fail a compilation.
void core_cache_put(struct vg_compile_cache *cache, const struct core_cache_key *key,
		    const struct core_compiled *compiled);
