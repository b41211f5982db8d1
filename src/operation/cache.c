#include "operation/cache.h"

#include <string.h>

#include "base/hash.h"

static size_t slot_of(const void *key, size_t size)
{
	uint64_t hash = vg_hash(key, size);

	return (hash ^ hash >> 32) % CACHE_SLOTS;
}

bool operation_cache_find(struct operation_cache *cache, const void *key, size_t key_size, void *ret_value,
			  size_t value_size)
{
	size_t slot = slot_of(key, key_size);

	vg_mutex_lock(&cache->lock);
	bool found = cache->slots[slot].used && memcmp(cache->slots[slot].key, key, key_size) == 0;
	if (found)
		memcpy(ret_value, cache->slots[slot].value, value_size);
	vg_mutex_unlock(&cache->lock);
	return found;
}

void operation_cache_keep(struct operation_cache *cache, const void *key, size_t key_size, const void *value,
			  size_t value_size)
{
	size_t slot = slot_of(key, key_size);

	vg_mutex_lock(&cache->lock);
	memcpy(cache->slots[slot].key, key, key_size);
	memcpy(cache->slots[slot].value, value, value_size);
	cache->slots[slot].used = true;
	vg_mutex_unlock(&cache->lock);
}
