// Kernels of the corpus that compute with long integers: products with carries, Montgomery products, 128-bit sums, and
// powers.
#include "corpus.cuh"

// Multiplies numbers of 256 bits. A number has eight words.
KERNEL(big_multiply)
{
	unsigned a[8], b[8], r[16];

	for (int i = 0; i < 8; i++)
		a[i] = in[16 * THREAD + i], b[i] = in[16 * THREAD + 8 + i];
	for (int i = 0; i < 16; i++)
		r[i] = 0;
#pragma unroll
	for (int i = 0; i < 8; i++) {
		unsigned carry = 0;
#pragma unroll
		for (int j = 0; j < 8; j++) {
			unsigned low, high;
			asm("mad.lo.cc.u32 %0, %2, %3, %4;\n\tmadc.hi.u32 %1, %2, %3, 0;"
			    : "=r"(low), "=r"(high) : "r"(a[i]), "r"(b[j]), "r"(r[i + j]));
			asm("add.cc.u32 %0, %2, %3;\n\taddc.u32 %1, %4, 0;"
			    : "=r"(r[i + j]), "=r"(carry) : "r"(low), "r"(carry), "r"(high));
		}
		r[i + 8] = carry;
	}
	for (int i = 0; i < 16; i++)
		out[16 * THREAD + i] = r[i];
}

// Adds and subtracts 128-bit integers with chains of four instructions that pass on the carry.
KERNEL(big_add)
{
	const uint4 x = ((const uint4 *)in)[2 * THREAD], y = ((const uint4 *)in)[2 * THREAD + 1];
	uint4 sum, difference;
	unsigned above, borrow;
	word64 low, high;

	asm("add.cc.u32 %0, %5, %9;\n\taddc.cc.u32 %1, %6, %10;\n\taddc.cc.u32 %2, %7, %11;\n\t"
	    "addc.cc.u32 %3, %8, %12;\n\taddc.u32 %4, 0, 0;"
	    : "=r"(sum.x), "=r"(sum.y), "=r"(sum.z), "=r"(sum.w), "=r"(above)
	    : "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(y.x), "r"(y.y), "r"(y.z), "r"(y.w));
	asm("sub.cc.u32 %0, %5, %9;\n\tsubc.cc.u32 %1, %6, %10;\n\tsubc.cc.u32 %2, %7, %11;\n\t"
	    "subc.cc.u32 %3, %8, %12;\n\tsubc.u32 %4, 0, 0;"
	    : "=r"(difference.x), "=r"(difference.y), "=r"(difference.z), "=r"(difference.w), "=r"(borrow)
	    : "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(y.x), "r"(y.y), "r"(y.z), "r"(y.w));
	asm("{.reg .u64 a, b;\n\tmov.b64 a, {%2, %3};\n\tmov.b64 b, {%4, %5};\n\t"
	    "mad.lo.cc.u64 %0, a, b, a;\n\tmadc.hi.u64 %1, a, b, b;}"
	    : "=l"(low), "=l"(high) : "r"(x.x), "r"(x.y), "r"(y.x), "r"(y.y));
	((uint4 *)out)[4 * THREAD] = sum;
	((uint4 *)out)[4 * THREAD + 1] = difference;
	((uint4 *)out)[4 * THREAD + 2] = make_uint4(above, borrow, 0, 0);
	((ulonglong2 *)out)[4 * THREAD + 3] = make_ulonglong2(low, high);
}

// Returns x * y / 2^64 modulo `modulus` (Montgomery's reduction). The kernel montgomery_power uses it to compute powers
// modulo 2^64 - 2^32 + 1.
static __device__ word64 montgomery(word64 x, word64 y, word64 modulus, word64 negative_inverse)
{
	word64 low = x * y, high = __umul64hi(x, y), m = low * negative_inverse;
	word64 carry = low != 0, sum = high + __umul64hi(m, modulus);
	bool over = sum < high;

	sum += carry;
	over |= sum < carry;
	return over || sum >= modulus ? sum - modulus : sum;
}

KERNEL(montgomery_power)
{
	word64 modulus = 0xffffffff00000001, inverse = 1;

	for (int i = 0; i < 6; i++)
		inverse *= 2 - modulus * inverse;
	word64 one = (word64)-1 % modulus + 1, square = one;
	for (int i = 0; i < 64; i++) { // doubles 64 times, to compute 2^128 modulo the modulus
		bool over = square >> 63;
		square <<= 1;
		if (over || square >= modulus)
			square -= modulus;
	}
	word64 base = montgomery(((const word64 *)in)[THREAD] % modulus, square, modulus, -inverse), power = one;
	for (unsigned e = n + THREAD; e; e >>= 1) {
		if (e & 1)
			power = montgomery(power, base, modulus, -inverse);
		base = montgomery(base, base, modulus, -inverse);
	}
	((word64 *)out)[THREAD] = montgomery(power, 1, modulus, -inverse);
}

KERNEL(wide_products)
{
	word64 x = ((const word64 *)in)[2 * THREAD], y = ((const word64 *)in)[2 * THREAD + 1];
	unsigned __int128 product = (unsigned __int128)x * y;
	__int128 signed_product = (__int128)(long long)x * (long long)y;
	word64 *r = (word64 *)out + 10 * THREAD;

	r[0] = (word64)product;
	r[1] = (word64)(product >> 64);
	r[2] = (word64)signed_product;
	r[3] = (word64)(signed_product >> 64);
	r[4] = x / (y >> (y & 63) | 1);
	r[5] = x % (y >> (y & 63) | 1);
	r[6] = (word64)((long long)x / ((long long)y >> 17 | 1));
	r[7] = (word64)((long long)x % ((long long)y >> 17 | 1));
	r[8] = (word64)__mul64hi((long long)x, (long long)y);
	r[9] = (word64)((unsigned)x / ((unsigned)y >> 9 | 1)) << 32 | (unsigned)((int)x % ((int)y >> 5 | 1));
}
