// Hashes bytes to detect accidental damage. A hash collision does no harm, because an entry contains its whole key.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t core_cache_mix(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

// Returns the hash of the bytes. Different seeds give independent hashes.
static inline uint64_t core_cache_hash(const void *data, size_t size, uint64_t seed)
{
	const unsigned char *bytes = data;
	uint64_t hash = core_cache_mix(seed ^ 0x2545f4914f6cdd1d, (uint64_t)size ^ 0x9e3779b97f4a7c15), word;

	for (; size >= sizeof word; bytes += sizeof word, size -= sizeof word) {
		memcpy(&word, bytes, sizeof word);
		// If `word` is equal to `hash`, the product is 0. Then the shifted hash keeps part of the earlier
		// words.
		hash = core_cache_mix(hash ^ word, 0xd6e8feb86659fd93) + (hash >> 32) +
		       1; // prevents the hash from staying 0 while the words are 0
	}
	word = 0;
	memcpy(&word, bytes, size);
	return core_cache_mix(core_cache_mix(hash ^ word, 0xa0761d6478bd642f), 0xe7037ed1a0b428db);
}
