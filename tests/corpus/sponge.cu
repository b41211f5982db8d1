// Kernels of the corpus that hash: Keccak-f[1600], BLAKE3's compression of a chunk, and SipHash.
#include "corpus.cuh"

static __constant__ word64 keccak_round[24] = {
	0x0000000000000001, 0x0000000000008082, 0x800000000000808a, 0x8000000080008000, 0x000000000000808b,
	0x0000000080000001, 0x8000000080008081, 0x8000000000008009, 0x000000000000008a, 0x0000000000000088,
	0x0000000080008009, 0x000000008000000a, 0x000000008000808b, 0x800000000000008b, 0x8000000000008089,
	0x8000000000008003, 0x8000000000008002, 0x8000000000000080, 0x000000000000800a, 0x800000008000000a,
	0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008};

static __device__ __forceinline__ word64 turn(word64 x, unsigned by) { return by ? x << by | x >> (64 - by) : x; }

KERNEL(keccak)
{
	word64 a[25];

	for (int i = 0; i < 25; i++)
		a[i] = i < 16 ? (word64)in[16 * THREAD + i] * 0x100000001 : 0;
	for (int round = 0; round < 24; round++) {
		word64 c[5], moved[25];
#pragma unroll
		for (int x = 0; x < 5; x++)
			c[x] = a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20];
#pragma unroll
		for (int i = 0; i < 25; i++)
			a[i] ^= c[(i + 4) % 5] ^ turn(c[(i + 1) % 5], 1);
		int x = 1, y = 0;
		moved[0] = a[0];
#pragma unroll
		for (int t = 0; t < 24; t++) {
			int next = (2 * x + 3 * y) % 5;
			moved[y + 5 * next] = turn(a[x + 5 * y], (t + 1) * (t + 2) / 2 % 64);
			x = y, y = next;
		}
#pragma unroll
		for (int i = 0; i < 25; i++)
			a[i] = moved[i] ^ (~moved[i / 5 * 5 + (i + 1) % 5] & moved[i / 5 * 5 + (i + 2) % 5]);
		a[0] ^= keccak_round[round];
	}
	for (int i = 0; i < 25; i++)
		((word64 *)out)[25 * THREAD + i] = a[i];
}

static __constant__ unsigned blake_start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
					       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
static __constant__ byte blake_order[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};

static __device__ __forceinline__ void blake_mix(unsigned *s, int a, int b, int c, int d, unsigned x, unsigned y)
{
	s[a] += s[b] + x;
	s[d] = rotate_right(s[d] ^ s[a], 16);
	s[c] += s[d];
	s[b] = rotate_right(s[b] ^ s[c], 12);
	s[a] += s[b] + y;
	s[d] = rotate_right(s[d] ^ s[a], 8);
	s[c] += s[d];
	s[b] = rotate_right(s[b] ^ s[c], 7);
}

// Compresses a chunk of two blocks in each thread.
KERNEL(blake3)
{
	unsigned chain[8];

	for (int i = 0; i < 8; i++)
		chain[i] = blake_start[i];
	for (int block = 0; block < 2; block++) {
		unsigned s[16], m[16], next[16];
		for (int i = 0; i < 8; i++)
			s[i] = chain[i], s[8 + i] = blake_start[i & 3];
		s[12] = THREAD, s[13] = 0, s[14] = 64, s[15] = block ? 2 : 1;
		for (int i = 0; i < 16; i++)
			m[i] = in[16 * ((2 * THREAD + block) % n) + i];
#pragma unroll
		for (int round = 0; round < 7; round++) {
			blake_mix(s, 0, 4, 8, 12, m[0], m[1]);
			blake_mix(s, 1, 5, 9, 13, m[2], m[3]);
			blake_mix(s, 2, 6, 10, 14, m[4], m[5]);
			blake_mix(s, 3, 7, 11, 15, m[6], m[7]);
			blake_mix(s, 0, 5, 10, 15, m[8], m[9]);
			blake_mix(s, 1, 6, 11, 12, m[10], m[11]);
			blake_mix(s, 2, 7, 8, 13, m[12], m[13]);
			blake_mix(s, 3, 4, 9, 14, m[14], m[15]);
			for (int i = 0; i < 16; i++)
				next[i] = m[blake_order[i]];
			for (int i = 0; i < 16; i++)
				m[i] = next[i];
		}
		for (int i = 0; i < 8; i++)
			chain[i] = s[i] ^ s[i + 8];
	}
	for (int i = 0; i < 8; i++)
		out[8 * THREAD + i] = chain[i];
}

KERNEL(siphash)
{
	word64 k0 = 0x0706050403020100, k1 = 0x0f0e0d0c0b0a0908;
	word64 v[4] = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261,
		       k1 ^ 0x7465646279746573};

	for (int i = 0; i <= 8; i++) {
		word64 m = i < 8 ? ((const word64 *)in)[8 * THREAD + i] : 64ull << 56;
		v[3] ^= m;
		for (int k = 0; k < (i < 8 ? 2 : 6); k++) {
			if (i == 8 && k == 2)
				v[0] ^= m, v[2] ^= 0xff;
			v[0] += v[1], v[1] = turn(v[1], 13) ^ v[0], v[0] = turn(v[0], 32);
			v[2] += v[3], v[3] = turn(v[3], 16) ^ v[2];
			v[0] += v[3], v[3] = turn(v[3], 21) ^ v[0];
			v[2] += v[1], v[1] = turn(v[1], 17) ^ v[2], v[2] = turn(v[2], 32);
		}
		if (i < 8)
			v[0] ^= m;
	}
	((word64 *)out)[THREAD] = v[0] ^ v[1] ^ v[2] ^ v[3];
}
