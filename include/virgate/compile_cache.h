/* A cache of compiled programs on disk, for all processes of a user. */
#ifndef VIRGATE_COMPILE_CACHE_H
#define VIRGATE_COMPILE_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_compile_cache;

struct vg_compile_cache_options {
	size_t size;	  /* sizeof(struct vg_compile_cache_options) */
	const char *path; /* a directory, created if missing; NULL: virgate/programs in XDG_CACHE_HOME or ~/.cache */
	/* Limit for the size of all entries; 0: 256 MiB. The least recently used entries are removed first. */
	uint64_t bytes;
};

/* Opens the cache in a directory. An entry is found by everything that the result depends on: source, options, target,
 * name expressions, version of the tool, digest. A program whose source or macros use the date or the time (__DATE__,
 * __TIME__, __TIMESTAMP__) is never stored, and a damaged entry is detected: both are compiled again. `options` may be
 * NULL. The caller owns *ret_cache and ends it with vg_compile_cache_destroy(). INVALID (a relative path), DENIED
 * (others may write to the directory), SYSTEM (the directory cannot be used: says why), NO_MEMORY. Any thread, any
 * number of processes. */
VG_PUBLIC enum vg_status vg_compile_cache_open(const struct vg_compile_cache_options *options,
					       struct vg_compile_cache **ret_cache);
/* Closes the object: the program may not use it any more. May be closed twice. Any thread. */
VG_PUBLIC enum vg_status vg_compile_cache_close(struct vg_compile_cache *cache);
/* Drops the caller's reference; the files are kept. Accepts NULL. Any thread. */
VG_PUBLIC void vg_compile_cache_destroy(struct vg_compile_cache *cache);
/* Removes all entries of the cache. CLOSED, SYSTEM. Any thread. */
VG_PUBLIC enum vg_status vg_compile_cache_clear(struct vg_compile_cache *cache);

/* Returns the path of the directory; not NULL. */
VG_PUBLIC const char *vg_compile_cache_path(const struct vg_compile_cache *cache);
struct vg_compile_cache_statistics {
	uint64_t hits, misses, damaged, failed; /* counts of this object; `failed`: entries that could not be written */
	uint64_t entries, bytes;		/* what the directory contains now */
};
/* Reads the figures. CLOSED, SYSTEM. Any thread. */
VG_PUBLIC enum vg_status vg_compile_cache_get_statistics(struct vg_compile_cache *cache,
							 struct vg_compile_cache_statistics *ret_statistics);

#ifdef __cplusplus
}
#endif
#endif
