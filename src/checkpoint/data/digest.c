// Implements BLAKE3, see https://github.com/BLAKE3-team/BLAKE3-specs. A block is a complete binary tree of BLAKE3's
// chunks. All chunks are hashed first, then the nodes of each level, eight at a time.
#include "checkpoint/data/digest.h"

#include <stdbool.h>
#include <string.h>

enum { CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8, KEYED_HASH = 16 };
enum { LANES = 8, WORDS = 16, BLOCK = 64, CHUNK = 1024, ROUNDS = 7 };
#define ALWAYS_INLINE static inline __attribute__((always_inline))

typedef uint32_t lanes_t __attribute__((vector_size(4 * LANES)));

static const uint32_t iv[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
			       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
// For each round of BLAKE3, the order in which the round uses the words of the message.
static const uint8_t schedule[ROUNDS][WORDS] = {
	{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8},
	{3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1}, {10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6},
	{12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4}, {9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7},
	{11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13}};

// The arguments of one call of hash_lanes(): `lanes` inputs, each of `blocks` * 64 bytes, one after another in memory.
struct work {
	const uint8_t *data;
	unsigned lanes, blocks;
	const uint32_t *key;
	bool counts; // true: the inputs are chunks, which BLAKE3 numbers; false: they are nodes of the tree
	uint32_t number;
	// Flags for all 64-byte blocks, for the first block only, and for the last block only.
	uint32_t flags, first, last;
};

ALWAYS_INLINE uint32_t load(const uint8_t *bytes)
{
	uint32_t word;

	memcpy(&word, bytes, sizeof word); // assumes a little-endian machine, as the whole project does
	return word;
}

ALWAYS_INLINE void mix(lanes_t *a, lanes_t *b, lanes_t *c, lanes_t *d, const lanes_t *x, const lanes_t *y)
{
	*a += *b + *x;
	*d ^= *a;
	*d = *d >> 16 | *d << 16;
	*c += *d;
	*b ^= *c;
	*b = *b >> 12 | *b << 20;
	*a += *b + *y;
	*d ^= *a;
	*d = *d >> 8 | *d << 24;
	*c += *d;
	*b ^= *c;
	*b = *b >> 7 | *b << 25;
}

ALWAYS_INLINE void mix_round(lanes_t v[WORDS], const lanes_t m[WORDS], const uint8_t at[WORDS])
{
	mix(&v[0], &v[4], &v[8], &v[12], &m[at[0]], &m[at[1]]);
	mix(&v[1], &v[5], &v[9], &v[13], &m[at[2]], &m[at[3]]);
	mix(&v[2], &v[6], &v[10], &v[14], &m[at[4]], &m[at[5]]);
	mix(&v[3], &v[7], &v[11], &v[15], &m[at[6]], &m[at[7]]);
	mix(&v[0], &v[5], &v[10], &v[15], &m[at[8]], &m[at[9]]);
	mix(&v[1], &v[6], &v[11], &v[12], &m[at[10]], &m[at[11]]);
	mix(&v[2], &v[7], &v[8], &v[13], &m[at[12]], &m[at[13]]);
	mix(&v[3], &v[4], &v[9], &v[14], &m[at[14]], &m[at[15]]);
}

// Hashes all inputs at once. Writes 32 bytes for each input to `out`, which may be the same buffer as `data`.
ALWAYS_INLINE void hash_lanes(const struct work *work, uint8_t *out)
{
	size_t stride = (size_t)work->blocks * BLOCK;
	lanes_t h[8], v[WORDS], m[WORDS], number = {0};
	const uint8_t *from[LANES];

	for (unsigned lane = 0; lane < LANES; lane++) {
		from[lane] = work->data + (lane < work->lanes ? lane : 0) * stride;
		number[lane] = work->counts ? work->number + lane : 0;
	}
	for (int i = 0; i < 8; i++)
		h[i] = (lanes_t){0} + work->key[i];
	for (unsigned block = 0; block < work->blocks; block++) {
		uint32_t flags =
			work->flags | (block == 0 ? work->first : 0) | (block + 1 == work->blocks ? work->last : 0);
		for (int i = 0; i < WORDS; i++) {
			size_t at = (size_t)block * BLOCK + 4 * (size_t)i;
			m[i] = (lanes_t){load(from[0] + at), load(from[1] + at), load(from[2] + at),
					 load(from[3] + at), load(from[4] + at), load(from[5] + at),
					 load(from[6] + at), load(from[7] + at)};
		}
		for (int i = 0; i < 8; i++)
			v[i] = h[i];
		for (int i = 0; i < 4; i++)
			v[8 + i] = (lanes_t){0} + iv[i];
		v[12] = number;
		v[13] = (lanes_t){0};
		v[14] = (lanes_t){0} + (uint32_t)BLOCK;
		v[15] = (lanes_t){0} + flags;
#pragma GCC unroll 7
		for (int round = 0; round < ROUNDS; round++)
			mix_round(v, m, schedule[round]);
		for (int i = 0; i < 8; i++)
			h[i] = v[i] ^ v[8 + i];
	}
	for (unsigned lane = 0; lane < work->lanes; lane++)
		for (int i = 0; i < 8; i++) {
			uint32_t word = h[i][lane];
			memcpy(out + lane * DIGEST_BYTES + 4 * (size_t)i, &word, sizeof word);
		}
}

// Sanitizers would check each access to the vectors on the stack, which takes much longer than the hash itself.
#define NO_SANITIZER __attribute__((no_sanitize("thread", "address", "undefined")))

NO_SANITIZER static void hash_plain(const struct work *work, uint8_t *out)
{
	hash_lanes(work, out);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) NO_SANITIZER static void hash_avx2(const struct work *work, uint8_t *out)
{
	hash_lanes(work, out);
}
#endif

static void hash_inputs(const struct work *work, uint8_t *out)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2")) {
		hash_avx2(work, out);
		return;
	}
#endif
	hash_plain(work, out);
}

static void hash_tree(const void *data, size_t size, const uint32_t key[8], uint32_t flags, uint8_t *ret_digest)
{
	uint8_t nodes[DIGEST_MOST / CHUNK * DIGEST_BYTES];
	size_t count = size / CHUNK;
	struct work work = {.blocks = CHUNK / BLOCK,
			    .key = key,
			    .counts = true,
			    .flags = flags,
			    .first = CHUNK_START,
			    .last = CHUNK_END};

	for (size_t i = 0; i < count; i += LANES) {
		work.data = (const uint8_t *)data + i * CHUNK;
		work.lanes = LANES;
		work.number = (uint32_t)i;
		hash_inputs(&work, nodes + i * DIGEST_BYTES);
	}
	for (count /= 2; count > 0; count /= 2) {
		work = (struct work){.blocks = 1, .key = key, .flags = flags | PARENT | (count == 1 ? ROOT : 0)};
		for (size_t i = 0; i < count; i += LANES) {
			work.data = nodes + i * BLOCK;
			work.lanes = count - i < LANES ? (unsigned)(count - i) : LANES;
			hash_inputs(&work, nodes + i * DIGEST_BYTES);
		}
	}
	memcpy(ret_digest, nodes, DIGEST_BYTES);
}

void digest_block(const void *data, size_t size, uint8_t ret_digest[DIGEST_BYTES])
{
	hash_tree(data, size, iv, 0, ret_digest);
}

void digest_block_keyed(const void *data, size_t size, const uint8_t key[DIGEST_BYTES],
			uint8_t ret_digest[DIGEST_BYTES])
{
	uint32_t words[8];

	memcpy(words, key, sizeof words);
	hash_tree(data, size, words, KEYED_HASH, ret_digest);
}
