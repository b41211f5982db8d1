// Computes on the host the expected outputs of cluster.cu.
#include "corpus.h"

// BLOCKS is the number of blocks of a cluster, THREADS of threads of a block, and WORDS of words of the histogram's
// input.
enum { BLOCKS = 4, THREADS = 128, WORDS = 4096 };

void corpus_cluster_histogram(const uint32_t *in, uint32_t *out, size_t threads)
{
	for (unsigned i = 0; i < WORDS; i++)
		out[in[i] & 255]++;
	out[256] = (uint32_t)(threads / THREADS / BLOCKS);
}

void corpus_cluster_ring(const uint32_t *in, uint32_t *out, size_t threads)
{
	uint32_t sums[BLOCKS], passed[BLOCKS];

	for (size_t i = 0; i < threads; i++) {
		size_t cluster = i / (BLOCKS * THREADS), thread = i % THREADS, rank = i / THREADS % BLOCKS;
		for (unsigned r = 0; r < BLOCKS; r++)
			sums[r] = in[(cluster * BLOCKS + r) * THREADS + thread];
		for (unsigned round = 0; round < BLOCKS; round++) {
			for (unsigned r = 0; r < BLOCKS; r++)
				passed[(r + 1) % BLOCKS] = sums[r];
			for (unsigned r = 0; r < BLOCKS; r++)
				sums[r] = passed[r] ^ sums[r] * 2654435761u;
		}
		out[i] = sums[rank] + (uint32_t)(rank * THREADS + thread) + BLOCKS + (uint32_t)rank + BLOCKS * THREADS;
	}
}
