// Matrices of small integers: every sum is exact in a float, in any order and with any algorithm.
#pragma once
#include <stddef.h>

static inline void small_numbers(float *values, size_t count, unsigned step)
{
	for (size_t i = 0; i < count; i++)
		values[i] = (float)(int)(i * step % 7) - 3;
}

// Counts the elements of c that differ from a (m x k) times b (k x n).
static inline size_t wrong_elements(const float *a, const float *b, const float *c, size_t m, size_t n, size_t k)
{
	size_t wrong = 0;

	for (size_t i = 0; i < m * n; i++) {
		float sum = 0;
		for (size_t l = 0; l < k; l++)
			sum += a[i / n * k + l] * b[l * n + i % n];
		wrong += sum != c[i];
	}
	return wrong;
}
