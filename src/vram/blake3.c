// Computes BLAKE3 as https://github.com/BLAKE3-team/BLAKE3-specs specifies. Stores the root of a subtree only until the
// neighbouring subtree on its right is complete.
#include "vram/blake3.h"

#include <string.h>

enum { CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8, KEYED_HASH = 16 };
enum { BLOCK_BYTES = 64, CHUNK_BYTES = 1024, LEVELS = 54 }; // 2⁶⁴ bytes have 2⁵⁴ chunks, so the tree has 54 levels

static const uint32_t iv[4] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a};
static const uint8_t permutation[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};
// Indexes of the four state words that each step mixes: first the columns, then the diagonals.
static const uint8_t mixed[8][4] = {{0, 4, 8, 12},  {1, 5, 9, 13},  {2, 6, 10, 14}, {3, 7, 11, 15},
				    {0, 5, 10, 15}, {1, 6, 11, 12}, {2, 7, 8, 13},  {3, 4, 9, 14}};

struct node {
	uint32_t word[8];
};

static uint32_t rotate_right(uint32_t x, unsigned bits)
{
	return x >> bits | x << (32 - bits);
}

static uint32_t load_word(const uint8_t *bytes)
{
	return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static void mix_words(uint32_t v[16], const uint8_t at[4], uint32_t x, uint32_t y)
{
	uint32_t a = v[at[0]], b = v[at[1]], c = v[at[2]], d = v[at[3]];

	a += b + x;
	d = rotate_right(d ^ a, 16);
	c += d;
	b = rotate_right(b ^ c, 12);
	a += b + y;
	d = rotate_right(d ^ a, 8);
	c += d;
	b = rotate_right(b ^ c, 7);
	v[at[0]] = a;
	v[at[1]] = b;
	v[at[2]] = c;
	v[at[3]] = d;
}

static void compress_block(struct node *h, const uint8_t block[BLOCK_BYTES], uint64_t counter, uint32_t bytes,
			   uint32_t flags)
{
	uint32_t v[16], m[16], before[16];

	memcpy(v, h->word, sizeof h->word);
	memcpy(v + 8, iv, sizeof iv);
	v[12] = (uint32_t)counter;
	v[13] = (uint32_t)(counter >> 32);
	v[14] = bytes;
	v[15] = flags | KEYED_HASH;
	for (int i = 0; i < 16; i++)
		m[i] = load_word(block + 4 * i);
	for (int round = 0; round < 7; round++) {
		for (int i = 0; i < 8; i++)
			mix_words(v, mixed[i], m[2 * i], m[2 * i + 1]);
		memcpy(before, m, sizeof m);
		for (int i = 0; i < 16; i++)
			m[i] = before[permutation[i]];
	}
	for (int i = 0; i < 8; i++)
		h->word[i] = v[i] ^ v[i + 8];
}

static void store_node(const struct node *node, uint8_t bytes[32])
{
	for (int i = 0; i < 32; i++)
		bytes[i] = (uint8_t)(node->word[i / 4] >> 8 * (i % 4));
}

static struct node hash_chunk(const struct node *key, const uint8_t *data, size_t size, uint64_t counter, uint32_t root)
{
	uint32_t flags = CHUNK_START;
	struct node h = *key;

	for (; size > BLOCK_BYTES; data += BLOCK_BYTES, size -= BLOCK_BYTES) {
		compress_block(&h, data, counter, BLOCK_BYTES, flags);
		flags = 0;
	}
	uint8_t last[BLOCK_BYTES] = {0};
	if (size)
		memcpy(last, data, size);
	compress_block(&h, last, counter, (uint32_t)size, flags | CHUNK_END | root);
	return h;
}

static struct node join_nodes(const struct node *key, const struct node *left, const struct node *right, uint32_t root)
{
	uint8_t block[BLOCK_BYTES];
	struct node h = *key;

	store_node(left, block);
	store_node(right, block + 32);
	compress_block(&h, block, 0, BLOCK_BYTES, PARENT | root);
	return h;
}

void vram_blake3(const void *data, size_t size, const uint8_t key[VRAM_KEY_BYTES], uint8_t ret_root[VRAM_ROOT_BYTES])
{
	struct node waiting[LEVELS], root, node;
	const uint8_t *bytes = data;
	uint64_t chunk = 0;
	int count = 0;

	for (int i = 0; i < 8; i++)
		root.word[i] = load_word(key + 4 * i);
	const struct node key_words = root;
	// Chunk n (counted from 1) completes as many subtrees as the number n has zero bits at its end.
	for (; size > CHUNK_BYTES; bytes += CHUNK_BYTES, size -= CHUNK_BYTES) {
		node = hash_chunk(&key_words, bytes, CHUNK_BYTES, chunk++, 0);
		for (uint64_t number = chunk; number % 2 == 0; number /= 2)
			node = join_nodes(&key_words, &waiting[--count], &node, 0);
		waiting[count++] = node;
	}
	node = hash_chunk(&key_words, bytes, size, chunk, count ? 0 : ROOT);
	while (count > 0) {
		count--;
		node = join_nodes(&key_words, &waiting[count], &node, count ? 0 : ROOT);
	}
	store_node(&node, ret_root);
}
