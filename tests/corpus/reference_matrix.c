// Computes on the host the expected outputs of matrix.cu. They are sums of small integers, which every type represents
// exactly.
#include <string.h>

#include "corpus.h"
#include "matrix.h"

static int compute_element(const uint32_t *in, unsigned row, unsigned column, unsigned depth)
{
	int sum = 0;

	for (unsigned k = 0; k < depth; k++)
		sum += MATRIX_ELEMENT(in, 0, row, k) * MATRIX_ELEMENT(in, 1, column, k);
	return sum;
}

// Computes the product of one tile, and stores it by rows. Halves represent the results exactly, because these are
// integers below 2048.
static void put_integers(const uint32_t *in, unsigned m, unsigned n, unsigned depth, uint32_t *out)
{
	for (unsigned i = 0; i < m * n; i++)
		out[i] = (uint32_t)compute_element(in, i / n, i % n, depth);
}

static void put_floats(const uint32_t *in, unsigned m, unsigned n, unsigned depth, uint32_t *out)
{
	for (unsigned i = 0; i < m * n; i++) {
		float sum = (float)compute_element(in, i / n, i % n, depth);
		memcpy(out + i, &sum, sizeof sum);
	}
}

static uint16_t to_half(int value)
{
	unsigned magnitude = (unsigned)(value < 0 ? -value : value), exponent = 25;

	if (!magnitude)
		return 0;
	while (magnitude < 1024) {
		magnitude *= 2;
		exponent--;
	}
	return (uint16_t)((value < 0) << 15 | exponent << 10 | (magnitude & 1023));
}

void corpus_matrix_whole(const uint32_t *in, uint32_t *out, size_t threads)
{
	(void)threads;
	put_floats(in, MATRIX_SIZE, MATRIX_SIZE, MATRIX_SIZE, out);
}

void corpus_matrix_bytes(const uint32_t *in, uint32_t *out, size_t threads)
{
	(void)threads;
	put_integers(in, 16, 16, 16, out);
	put_integers(in, 8, 32, 16, out + 256);
	put_integers(in, 32, 8, 16, out + 512);
}

void corpus_matrix_floats(const uint32_t *in, uint32_t *out, size_t threads)
{
	uint16_t halves[256];

	(void)threads;
	put_floats(in, 8, 32, 16, out);
	for (unsigned i = 0; i < 256; i++)
		halves[i] = to_half(compute_element(in, i / 8, i % 8, 16));
	memcpy(out + 256, halves, sizeof halves);
	put_floats(in, 16, 16, 16, out + 384);
}

void corpus_matrix_doubles(const uint32_t *in, uint32_t *out, size_t threads)
{
	(void)threads;
	for (unsigned i = 0; i < 64; i++) {
		double sum = compute_element(in, i / 8, i % 8, 4);
		memcpy(out + 2 * i, &sum, sizeof sum);
	}
}
