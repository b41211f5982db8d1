// Kernels of the corpus that generate random numbers: Philox 4x32-10, xorshift128, and PCG64; and one that computes pi
// by the Monte Carlo method.
#include "corpus.cuh"

KERNEL(philox)
{
	unsigned c[4] = {THREAD, step, 7, 9}, key0 = in[0], key1 = in[1];

	for (int round = 0; round < 10; round++) {
		unsigned high0 = __umulhi(0xd2511f53, c[0]), low0 = 0xd2511f53 * c[0];
		unsigned high1 = __umulhi(0xcd9e8d57, c[2]), low1 = 0xcd9e8d57 * c[2];
		c[0] = high1 ^ c[1] ^ key0, c[1] = low1;
		c[2] = high0 ^ c[3] ^ key1, c[3] = low0;
		key0 += 0x9e3779b9, key1 += 0xbb67ae85;
	}
	((uint4 *)out)[THREAD] = make_uint4(c[0], c[1], c[2], c[3]);
}

KERNEL(xorshift)
{
	uint4 s = ((const uint4 *)in)[THREAD];
	unsigned sum = 0;

	for (unsigned i = 0; i < n; i++) {
		unsigned t = s.x ^ s.x << 11;
		s.x = s.y, s.y = s.z, s.z = s.w;
		s.w ^= s.w >> 19 ^ t ^ t >> 8;
		sum = sum * 31 + s.w;
	}
	out[THREAD] = sum;
}

KERNEL(pcg64)
{
	unsigned __int128 state = (unsigned __int128)in[THREAD] << 77 | in[THREAD + 1];
	unsigned __int128 factor = (unsigned __int128)2549297995355413924ull << 64 | 4865540595714422341ull;

	for (unsigned i = 0; i < n; i++) {
		state = state * factor + 2 * THREAD + 1;
		unsigned by = (unsigned)(state >> 122);
		word64 folded = (word64)(state >> 64) ^ (word64)state;
		((word64 *)out)[THREAD] ^= folded >> by | folded << (-by & 63);
	}
}

KERNEL(monte_carlo)
{
	unsigned x = in[THREAD] | 1, hits = 0;

	for (unsigned i = 0; i < n; i++) {
		x = x * 1664525 + 1013904223;
		float u = (float)(x >> 8) * 0x1p-24f;
		x = x * 1664525 + 1013904223;
		float v = (float)(x >> 8) * 0x1p-24f;
		hits += fmaf(u, u, v * v) < 1;
	}
	hits = __reduce_add_sync(~0u, hits);
	if (threadIdx.x % 32 == 0)
		atomicAdd(out, hits);
}
