// Caches answers of a library's heuristics by key (the description of an operation). Any thread.
#pragma once
#include "base/mutex.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CACHE_SLOTS = 256, CACHE_KEY = 128, CACHE_VALUE = 96 };

// A cache of all zeros is empty. A key's hash determines its index. A new key replaces an older one with the same
// index.
struct operation_cache {
	struct vg_mutex lock;
	struct {
		bool used;
		unsigned char key[CACHE_KEY], value[CACHE_VALUE];
	} slots[CACHE_SLOTS];
};

// Finds the value of a key. Keys are compared byte by byte, so padding must be zero. Returns false if the key is not in
// the cache.
bool operation_cache_find(struct operation_cache *cache, const void *key, size_t key_size, void *ret_value,
			  size_t value_size);
void operation_cache_keep(struct operation_cache *cache, const void *key, size_t key_size, const void *value,
			  size_t value_size);
