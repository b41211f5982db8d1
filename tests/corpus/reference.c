// Computes on the host the expected outputs of kernels whose results are the same on every machine.
#include <stdlib.h>
#include <string.h>

#include "corpus.h"
#include "wide.h"

void corpus_wide_division(const uint32_t *in, uint32_t *out, size_t threads)
{
	for (size_t thread = 0; thread < threads; thread++) {
		const struct wide_operands o = wide_operands_take(in + 8 * thread);
		size_t at = 0;
#define PUT(expression)                                                            \
	{                                                                          \
		wide value = (wide)(expression);                                   \
		memcpy(out + 4 * (threads * at++ + thread), &value, sizeof value); \
	}
		WIDE_DIVISIONS(PUT)
#undef PUT
	}
}

void corpus_carry_flags(const uint32_t *in, uint32_t *out, size_t threads)
{
	uint64_t edge[CARRY_EDGES];

	memcpy(edge, in, sizeof edge);
	for (size_t thread = 0; thread < threads; thread++) {
		const uint64_t wide_x = edge[thread % CARRY_EDGES], wide_y = edge[thread / CARRY_EDGES % CARRY_EDGES];
		const uint64_t wide_z = edge[(thread * 7 + thread / CARRY_EDGES) % CARRY_EDGES];
		size_t at = 0;
#define PUT(T, bits, text, flag)                                                                \
	for (unsigned f = 0; f < 2; f++) {                                                      \
		const T x = (T)wide_x, y = (T)wide_y, z = (T)wide_z;                            \
		const uint32_t left = (uint32_t)(flag), seen[4] = {left, left - 1, left, left}; \
		(void)z;                                                                        \
		memcpy(out + 4 * (threads * at++ + thread), seen, sizeof seen);                 \
	}
		CARRY_FLAGS_ALL(PUT)
#undef PUT
	}
}

void corpus_bulk_tiles(const uint32_t *in, uint32_t *out, size_t threads)
{
	(void)threads;
	for (unsigned i = 0; i < 2048; i++)
		out[i] = in[i] * 3 + i / 256 * 256;
}

void corpus_reference(const struct corpus_case *one, struct corpus_result *ret_result)
{
	uint32_t *in = calloc(one->in_words, 4), *out = calloc(one->out_words, 4);

	if (!in || !out)
		abort();
	corpus_fill(one, in);
	one->reference(in, out, (size_t)one->grid[0] * one->block[0]);
	corpus_result_make(one, out, one->out_words, ret_result);
	free(in);
	free(out);
}
