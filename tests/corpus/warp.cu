// Kernels of the corpus that use warp operations: votes, matches, shuffles of every kind, divergent warps, and SIMD on
// bytes and half-words.
#include "corpus.cuh"

KERNEL(votes)
{
	unsigned x = in[THREAD], lane = threadIdx.x % 32, sum = 0;

	sum += __all_sync(~0u, x > 100) + 2 * __any_sync(~0u, x > 0xf0000000);
	sum ^= __ballot_sync(~0u, x & 1);
	sum = sum * 5 + __match_any_sync(~0u, x & 7);
	int all_equal;
	sum += __match_all_sync(~0u, x >> 31, &all_equal) + all_equal;
	if (lane & 1) { // only half of the warp runs this
		unsigned members = 0xaaaaaaaa;
		sum += __reduce_add_sync(members, x & 255) + __popc(__ballot_sync(members, x & 2));
		sum ^= __shfl_sync(members, x, (lane + 2) | 1);
	}
	__syncwarp();
	sum += __activemask() == ~0u;
	out[THREAD] = sum;
}

KERNEL(shuffles)
{
	unsigned x = in[THREAD], lane = threadIdx.x % 32;
	word64 wide = (word64)x << 32 | lane;
	double real = (double)x / 3;

	x += __shfl_sync(~0u, x, lane * 7, 32) ^ __shfl_sync(~0u, x, lane + 1, 8);
	x += __shfl_up_sync(~0u, x, 3, 16) * 3 + __shfl_down_sync(~0u, x, 5, 16);
	x ^= __shfl_xor_sync(~0u, x, 21) + __shfl_xor_sync(~0u, x, 9, 4);
	wide = __shfl_up_sync(~0u, wide, 1) + __shfl_xor_sync(~0u, wide, 31);
	real = __shfl_down_sync(~0u, real, 2) + real;
	out[4 * THREAD] = x;
	((word64 *)out)[2 * THREAD + 1] = wide ^ (word64)__double_as_longlong(real);
}

// This kernel and the next one call intrinsics on bytes and half-words. Of intrinsics that compile to the same
// instructions, they call only one.
KERNEL(simd_bytes)
{
	unsigned a = in[2 * THREAD], b = in[2 * THREAD + 1], *r = out + 32 * THREAD;

	r[0] = __vadd4(a, b), r[1] = __vsub4(a, b), r[2] = __vaddus4(a, b), r[3] = __vsubus4(a, b);
	r[4] = __vaddss4(a, b), r[5] = __vsubss4(a, b), r[6] = __vavgu4(a, b), r[7] = __vavgs4(a, b);
	r[8] = __vabsdiffu4(a, b), r[9] = __vabsdiffs4(a, b), r[10] = __vminu4(a, b), r[11] = __vmins4(a, b);
	r[12] = __vmaxu4(a, b), r[13] = __vmaxs4(a, b), r[14] = __vcmpeq4(a, b), r[15] = __vcmpgtu4(a, b);
	r[16] = __vcmplts4(a, b), r[17] = __vseteq4(a, b & 0x0fff0fff), r[18] = __vsetltu4(a, b);
	r[19] = __vsadu4(a, b), r[20] = __vsads4(a, b), r[21] = __vabs4(a), r[22] = __vneg4(a), r[23] = __vabsss4(a);
	r[24] = __vhaddu4(a, b), r[25] = __vnegss4(b), r[26] = __usad(a, b, 7), r[27] = __sad(a, b, 9);
	r[28] = __hadd(a, b), r[29] = __urhadd(a, b), r[30] = __mul24(a, b), r[31] = __umul24(a, b);
}

KERNEL(simd_halves)
{
	unsigned a = in[2 * THREAD], b = in[2 * THREAD + 1], *r = out + 32 * THREAD;

	r[0] = __vadd2(a, b), r[1] = __vsub2(a, b), r[2] = __vaddus2(a, b), r[3] = __vsubus2(a, b);
	r[4] = __vaddss2(a, b), r[5] = __vsubss2(a, b), r[6] = __vavgu2(a, b), r[7] = __vavgs2(a, b);
	r[8] = __vabsdiffu2(a, b), r[9] = __vabsdiffs2(a, b), r[10] = __vminu2(a, b), r[11] = __vmins2(a, b);
	r[12] = __vmaxu2(a, b), r[13] = __vmaxs2(a, b), r[14] = __vcmpeq2(a, b), r[15] = __vcmpgtu2(a, b);
	r[16] = __vcmplts2(a, b), r[17] = __vseteq2(a, b), r[18] = __vsetltu2(a, b), r[19] = __vsadu2(a, b);
	r[20] = __vsads2(a, b), r[21] = __vabs2(a), r[22] = __vneg2(a), r[23] = __vabsss2(a);
	r[24] = __vimax3_s32(a, b, a ^ b), r[25] = __viaddmax_s32(a, b, 5), r[26] = __vimin_s16x2_relu(a, b);
	r[27] = __viaddmax_s16x2(a, b, a), r[28] = __vimax3_u16x2(a, b, a + b), r[29] = __vimin3_s16x2(a, b, a - b);
	bool high, low;
	r[30] = __vibmax_s16x2(a, b, &high, &low);
	r[30] += high * 2 + low;
	r[31] = __viaddmin_u32(a, b, a >> 3);
}

KERNEL(bit_fields)
{
	unsigned a = in[2 * THREAD], b = in[2 * THREAD + 1], r;
	word64 wide = (word64)a << 32 | b, w;

	asm("bfe.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b & 255), "r"(a & 63));
	out[16 * THREAD] = r;
	asm("bfe.u64 %0, %1, %2, %3;" : "=l"(w) : "l"(wide), "r"(b & 63), "r"(a & 63));
	out[16 * THREAD + 1] = (unsigned)w ^ (unsigned)(w >> 32);
	asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(a), "r"(b), "r"(b & 63), "r"(a >> 8 & 63));
	out[16 * THREAD + 2] = r;
	asm("bfi.b64 %0, %1, %2, %3, %4;" : "=l"(w) : "l"(wide), "l"(~wide), "r"(b & 127), "r"(a & 63));
	out[16 * THREAD + 3] = (unsigned)w ^ (unsigned)(w >> 32);
	asm("bfind.s32 %0, %1;" : "=r"(r) : "r"((int)a >> (b & 31)));
	out[16 * THREAD + 4] = r;
	asm("bfind.shiftamt.u64 %0, %1;" : "=r"(r) : "l"(wide >> (b & 63)));
	out[16 * THREAD + 5] = r;
	asm("fns.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b & 31), "r"((int)(b >> 8 & 15) - 7));
	out[16 * THREAD + 6] = r;
	asm("bmsk.clamp.b32 %0, %1, %2;" : "=r"(r) : "r"(a & 63), "r"(b & 63));
	out[16 * THREAD + 7] = r;
	asm("szext.wrap.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b & 63));
	out[16 * THREAD + 8] = r;
	asm("shf.l.clamp.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(a & 63));
	out[16 * THREAD + 9] = r;
	asm("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(a & 63));
	out[16 * THREAD + 10] = r;
	asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(a ^ b));
	out[16 * THREAD + 11] = r;
	asm("prmt.b32.rc16 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(a));
	out[16 * THREAD + 12] = r;
	asm("szext.clamp.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b & 63));
	out[16 * THREAD + 13] = r;
	asm("prmt.b32.b4e %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(a));
	out[16 * THREAD + 14] = r + __popcll(wide) + __clzll(wide) + __ffsll(wide);
	out[16 * THREAD + 15] = (unsigned)(__brevll(wide) >> 7);
}
