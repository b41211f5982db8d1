// Computes 64-bit FNV-1a hashes, for tables, names and checksums. They are no protection against an attacker. Any
// thread. Source: Fowler, Noll and Vo, http://www.isthe.com/chongo/tech/comp/fnv/
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define VG_HASH_EMPTY UINT64_C(0xcbf29ce484222325) // the hash of zero bytes

// Continues a hash: `hash` covers earlier bytes. Returns the hash of those bytes followed by the given ones.
static inline uint64_t vg_hash_add(uint64_t hash, const void *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static inline uint64_t vg_hash(const void *bytes, size_t size)
{
	return vg_hash_add(VG_HASH_EMPTY, bytes, size);
}

static inline uint64_t vg_hash_text(const char *text)
{
	return vg_hash(text, strlen(text));
}
