#include <string.h>

#include "corpus.h"

static uint64_t draw_random(uint64_t *state) // splitmix64
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static const uint32_t edge_f32[24] = {
	0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x80800001, 0x3f800000,
	0xbf800000, 0x3f800001, 0x3effffff, 0x3f000000, 0x40200000, 0xc0600000, 0x4b000001, 0x4effffff,
	0xcf000000, 0x5f7fffff, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00123, 0x477ff000,
};
static const uint64_t edge_f64[24] = {
	0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x800fffffffffffff, 0x0010000000000000,
	0x3ff0000000000000, 0xbff0000000000000, 0x3ff0000000000001, 0x3fdfffffffffffff, 0x3fe0000000000000,
	0x4004000000000000, 0xc00c000000000000, 0x41dfffffffc00000, 0xc1e0000000100000, 0x43e0000000000000,
	0x36a0000000000001, 0x380fffffe0000000, 0x47efffffefffffff, 0x7fefffffffffffff, 0xffefffffffffffff,
	0x7ff0000000000000, 0xfff0000000000000, 0x40effdffffffffff, 0x3e6fffffffffffff,
};
static const uint16_t edge_f16[24] = {
	0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x8401, 0x3c00, 0xbc00, 0x3c01, 0x37ff, 0x3800,
	0x4100, 0xc300, 0x6401, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e01, 0x1400, 0x0c01, 0x57f8, 0x2e66,
};
static const uint16_t edge_bf16[24] = {
	0x0000, 0x8000, 0x0001, 0x8001, 0x007f, 0x0080, 0x8081, 0x3f80, 0xbf80, 0x3f81, 0x3eff, 0x3f00,
	0x4020, 0xc060, 0x4b01, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc1, 0x2000, 0x1f81, 0x5f01, 0x4f00,
};
static const uint64_t edge_integer[24] = {
	0,
	1,
	2,
	3,
	31,
	32,
	33,
	63,
	64,
	0x7f,
	0x80,
	0xff,
	0x7fff,
	0x8000,
	0xffff,
	0xffffff,
	0x7fffffff,
	0x80000000,
	0xffffffff,
	0x8000000000000001,
	0x7fffffffffffffff,
	0xffffffffffffffff,
	0x0123456789abcdef,
	0xffffffff80000000,
};

static void copy_table(uint32_t *words, size_t count, const void *table, size_t bytes)
{
	memset(words, 0, 4 * count);
	memcpy(words, table, bytes < 4 * count ? bytes : 4 * count);
}

void corpus_fill(const struct corpus_case *one, uint32_t *words)
{
	size_t count = one->in_words;
	uint64_t seed = 1 + count;

	switch (one->input) {
	case CORPUS_WORDS:
		for (size_t i = 0; i < count; i++)
			words[i] = (uint32_t)(draw_random(&seed) >> 32);
		return;
	case CORPUS_F32:
		for (size_t i = 0; i < count; i++) {
			float x = (float)(int32_t)(draw_random(&seed) >> 40) * 0x1p-23f - 1;
			memcpy(words + i, &x, sizeof x);
		}
		return;
	case CORPUS_F64:
		for (size_t i = 0; i + 1 < count; i += 2) {
			double x = (double)(int64_t)(draw_random(&seed) >> 11) * 0x1p-52 - 1;
			memcpy(words + i, &x, sizeof x);
		}
		return;
	case CORPUS_EDGE_F32:
		copy_table(words, count, edge_f32, sizeof edge_f32);
		return;
	case CORPUS_EDGE_F64:
		copy_table(words, count, edge_f64, sizeof edge_f64);
		return;
	case CORPUS_EDGE_F16:
		copy_table(words, count, edge_f16, sizeof edge_f16);
		return;
	case CORPUS_EDGE_BF16:
		copy_table(words, count, edge_bf16, sizeof edge_bf16);
		return;
	case CORPUS_EDGE_U32: {
		for (size_t i = 0; i < count; i++)
			words[i] = (uint32_t)(i < 24 ? edge_integer[i] ^ edge_integer[i] >> 32 : 0);
		return;
	}
	case CORPUS_EDGE_U64:
		copy_table(words, count, edge_integer, sizeof edge_integer);
		return;
	}
}
