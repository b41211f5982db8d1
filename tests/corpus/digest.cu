// Kernels of the corpus that compute SHA-256, SHA-1, MD5 and CRC-32. Each thread has a message of 64 bytes.
#include "corpus.cuh"

static __constant__ unsigned sha256_key[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static __device__ void sha256_block(unsigned *state, const unsigned *message)
{
	unsigned w[64], s[8];

	for (int i = 0; i < 16; i++)
		w[i] = message[i];
	for (int i = 16; i < 64; i++) {
		unsigned x = w[i - 15], y = w[i - 2];
		w[i] = w[i - 16] + w[i - 7] + (rotate_right(x, 7) ^ rotate_right(x, 18) ^ x >> 3) +
		       (rotate_right(y, 17) ^ rotate_right(y, 19) ^ y >> 10);
	}
	for (int i = 0; i < 8; i++)
		s[i] = state[i];
	for (int i = 0; i < 64; i++) {
		unsigned e = s[4], a = s[0];
		unsigned one = s[7] + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) +
			       ((e & s[5]) ^ (~e & s[6])) + sha256_key[i] + w[i];
		unsigned two = (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) +
			       ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
		for (int k = 7; k > 0; k--)
			s[k] = s[k - 1];
		s[4] += one;
		s[0] = one + two;
	}
	for (int i = 0; i < 8; i++)
		state[i] += s[i];
}

KERNEL(sha256)
{
	unsigned state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
			     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
	unsigned padding[16] = {0x80000000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 512};

	sha256_block(state, in + 16 * THREAD);
	sha256_block(state, padding);
	for (int i = 0; i < 8; i++)
		out[8 * THREAD + i] = state[i];
}

KERNEL(sha1)
{
	unsigned w[80], a = 0x67452301, b = 0xefcdab89, c = 0x98badcfe, d = 0x10325476, e = 0xc3d2e1f0;

	for (int i = 0; i < 16; i++)
		w[i] = __byte_perm(in[16 * THREAD + i], 0, 0x0123);
	for (int i = 16; i < 80; i++)
		w[i] = rotate_left(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	for (int i = 0; i < 80; i++) {
		unsigned mix = i < 20 ? ((b & c) | (~b & d)) + 0x5a827999
			     : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
			     : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
				      : (b ^ c ^ d) + 0xca62c1d6;
		unsigned next = rotate_left(a, 5) + mix + e + w[i];
		e = d, d = c, c = rotate_left(b, 30), b = a, a = next;
	}
	out[5 * THREAD] = a, out[5 * THREAD + 1] = b, out[5 * THREAD + 2] = c;
	out[5 * THREAD + 3] = d, out[5 * THREAD + 4] = e;
}

KERNEL(md5)
{
	// Key i is the integer part of 2^32 |sin(i + 1)|.
	static const unsigned keys[64] = {
		0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
		0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
		0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
		0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
		0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
		0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
		0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
		0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391
	};
	const unsigned turns[16] = {7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21};
	unsigned a = 0x67452301, b = 0xefcdab89, c = 0x98badcfe, d = 0x10325476;

	for (int i = 0; i < 64; i++) {
		unsigned mix, word;
		switch (i / 16) {
		case 0: mix = (b & c) | (~b & d), word = i; break;
		case 1: mix = (d & b) | (~d & c), word = (5 * i + 1) % 16; break;
		case 2: mix = b ^ c ^ d, word = (3 * i + 5) % 16; break;
		default: mix = c ^ (b | ~d), word = 7 * i % 16; break;
		}
		mix += a + keys[i] + in[16 * THREAD + word];
		a = d, d = c, c = b;
		b += rotate_left(mix, turns[i / 16 * 4 + i % 4]);
	}
	out[4 * THREAD] = a, out[4 * THREAD + 1] = b, out[4 * THREAD + 2] = c, out[4 * THREAD + 3] = d;
}

KERNEL(crc32)
{
	__shared__ unsigned table[256];

	for (unsigned i = threadIdx.x; i < 256; i += blockDim.x) {
		unsigned x = i;
		for (int bit = 0; bit < 8; bit++)
			x = x >> 1 ^ (x & 1 ? 0xedb88320 : 0);
		table[i] = x;
	}
	__syncthreads();
	const byte *text = (const byte *)in + 64 * THREAD;
	unsigned crc = ~0u;
	for (int i = 0; i < 64; i++)
		crc = crc >> 8 ^ table[(crc ^ text[i]) & 255];
	out[THREAD] = ~crc;
}

KERNEL(adler32)
{
	const byte *text = (const byte *)in + 64 * THREAD;
	unsigned low = 1, high = 0;

	for (int i = 0; i < 64; i++) {
		low = (low + text[i]) % 65521;
		high = (high + low) % 65521;
	}
	out[THREAD] = high << 16 | low;
}
