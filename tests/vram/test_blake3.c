// Compares the BLAKE3 hashes that the host computes with the published test vectors.
#include "test.h"
#include "vram_test.h"

TEST(matches_published_vectors)
{
	uint8_t *data = pattern(vectors[VECTOR_COUNT - 1].size), root[VRAM_ROOT_BYTES];

	for (size_t i = 0; i < VECTOR_COUNT; i++) {
		vram_blake3(data, vectors[i].size, (const uint8_t *)vector_key, root);
		CHECK_STR(hex(root), vectors[i].root);
	}
	free(data);
}

TEST(every_bit_of_the_key_changes_the_hash)
{
	uint8_t key[VRAM_KEY_BYTES] = {0}, root[VRAM_ROOT_BYTES], other[VRAM_ROOT_BYTES];

	vram_blake3("abc", 3, key, root);
	for (int bit = 0; bit < 8 * VRAM_KEY_BYTES; bit++) {
		key[bit / 8] ^= 1 << bit % 8;
		vram_blake3("abc", 3, key, other);
		CHECK(memcmp(root, other, sizeof root) != 0);
		key[bit / 8] ^= 1 << bit % 8;
	}
}
