// Kernels of the corpus: AES-128, ChaCha20 and XTEA.
#include "corpus.cuh"

static __device__ unsigned multiply_field(unsigned x, unsigned y)
{
	unsigned product = 0;

	for (; y; y >>= 1, x = (x << 1 ^ (x & 0x80 ? 0x11b : 0)) & 255)
		if (y & 1)
			product ^= x;
	return product;
}

// Computes the substitution box of AES, with all threads of the block. Each element is an inverse in the field, and
// then an affine map of it.
static __device__ void make_box(byte *box)
{
	for (unsigned i = threadIdx.x; i < 256; i += blockDim.x) {
		unsigned inverse = 1, power = i; // i^254
		for (int bit = 1; bit < 8; bit++) {
			power = multiply_field(power, power);
			inverse = multiply_field(inverse, power);
		}
		unsigned x = i ? inverse : 0, doubled = x | x << 8;
		box[i] = x ^ doubled >> 7 ^ doubled >> 6 ^ doubled >> 5 ^ doubled >> 4 ^ 0x63;
	}
	__syncthreads();
}

static __device__ unsigned substitute(const byte *box, unsigned x)
{
	return box[x & 255] | box[x >> 8 & 255] << 8 | box[x >> 16 & 255] << 16 | (unsigned)box[x >> 24] << 24;
}

KERNEL(aes128)
{
	__shared__ byte box[256];
	__shared__ unsigned key[44];

	make_box(box);
	if (threadIdx.x == 0) {
		unsigned constant = 1;
		for (int i = 0; i < 44; i++) {
			unsigned last = i ? key[i - 1] : 0;
			if (i < 4) {
				key[i] = in[i];
				continue;
			}
			if (i % 4 == 0) {
				last = substitute(box, __funnelshift_r(last, last, 8)) ^ constant;
				constant = multiply_field(constant, 2);
			}
			key[i] = key[i - 4] ^ last;
		}
	}
	__syncthreads();
	unsigned state[4], next[4];
	for (int i = 0; i < 4; i++)
		state[i] = in[4 * THREAD + i] ^ key[i];
	for (int round = 1; round <= 10; round++) {
#pragma unroll
		for (int i = 0; i < 4; i++) {
			unsigned row = (state[i] & 0xff) | (state[(i + 1) & 3] & 0xff00) |
				       (state[(i + 2) & 3] & 0xff0000) | (state[(i + 3) & 3] & 0xff000000);
			row = substitute(box, row);
			if (round < 10) {
				unsigned twice = (row & 0x7f7f7f7f) << 1 ^ (row >> 7 & 0x01010101) * 0x1b;
				unsigned turned = __byte_perm(row ^ twice, 0, 0x0321);
				row = twice ^ turned ^ __byte_perm(row, 0, 0x1032) ^ __byte_perm(row, 0, 0x2103);
			}
			next[i] = row ^ key[4 * round + i];
		}
		for (int i = 0; i < 4; i++)
			state[i] = next[i];
	}
	for (int i = 0; i < 4; i++)
		out[4 * THREAD + i] = state[i];
}

#define QUARTER(a, b, c, d)                                                                                            \
	a += b, d = rotate_left(d ^ a, 16), c += d, b = rotate_left(b ^ c, 12);                                        \
	a += b, d = rotate_left(d ^ a, 8), c += d, b = rotate_left(b ^ c, 7)

KERNEL(chacha20)
{
	unsigned start[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, in[0], in[1], in[2], in[3],
			      in[4], in[5], in[6], in[7], THREAD, in[8], in[9], in[10]};
	unsigned x[16];

	for (int i = 0; i < 16; i++)
		x[i] = start[i];
#pragma unroll 2
	for (int round = 0; round < 10; round++) {
		QUARTER(x[0], x[4], x[8], x[12]);
		QUARTER(x[1], x[5], x[9], x[13]);
		QUARTER(x[2], x[6], x[10], x[14]);
		QUARTER(x[3], x[7], x[11], x[15]);
		QUARTER(x[0], x[5], x[10], x[15]);
		QUARTER(x[1], x[6], x[11], x[12]);
		QUARTER(x[2], x[7], x[8], x[13]);
		QUARTER(x[3], x[4], x[9], x[14]);
	}
	for (int i = 0; i < 4; i++)
		((uint4 *)out)[4 * THREAD + i] =
			make_uint4(x[4 * i] + start[4 * i], x[4 * i + 1] + start[4 * i + 1],
				   x[4 * i + 2] + start[4 * i + 2], x[4 * i + 3] + start[4 * i + 3]);
}

KERNEL(xtea)
{
	uint2 v = ((const uint2 *)in)[THREAD];
	unsigned sum = 0;

	for (int i = 0; i < 32; i++) {
		v.x += ((v.y << 4 ^ v.y >> 5) + v.y) ^ (sum + in[sum & 3]);
		sum += 0x9e3779b9;
		v.y += ((v.x << 4 ^ v.x >> 5) + v.x) ^ (sum + in[sum >> 11 & 3]);
	}
	((uint2 *)out)[THREAD] = v;
}
