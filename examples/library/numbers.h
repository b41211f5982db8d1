// Matrices of small whole numbers: every sum is exact in a float, whatever its order and algorithm.
#pragma once
#include <stddef.h>

static inline void small_numbers(float *values, size_t count, unsigned step)
{
	for (size_t i = 0; i < count; i++)
		values[i] = (float)(int)(i * step % 7) - 3;
}

// How many elements of c are not those of a (m x k) times b (k x n).
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
