// Kernels of the corpus that compute in f16 and bf16: a dot product of pairs, axpy, a row like that of a softmax, and
// all conversions of f16.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "corpus.cuh"

// Converts two bytes of the input to two numbers that are so small that no sum overflows.
static __device__ __half2 two_bytes(unsigned x, float scale, float shift)
{
	return __floats2half2_rn((x & 255) * scale - shift, (x >> 8 & 255) * scale - shift);
}

KERNEL(half_dot)
{
	__half2 sum = __floats2half2_rn(0, 0);

	for (unsigned i = threadIdx.x; i < n; i += 32) {
		__half2 a = __hmul2_rn(two_bytes(in[i], 1 / 256.0f, 0), __floats2half2_rn(0.5f, -0.75f));
		sum = __hfma2(a, two_bytes(in[n + i], 1 / 128.0f, 1), sum);
	}
	for (int by = 16; by; by /= 2)
		sum = __hadd2_rn(sum, __shfl_down_sync(~0u, sum, by));
	((__half2 *)out)[2 * threadIdx.x] = sum;
	((__half *)out)[4 * threadIdx.x + 2] = __hadd_rn(__low2half(sum), __hneg(__high2half(sum)));
}

KERNEL(bfloat_axpy)
{
	__nv_bfloat162 x = ((const __nv_bfloat162 *)in)[THREAD], y = ((const __nv_bfloat162 *)in)[n + THREAD];
	__nv_bfloat162 factor = __floats2bfloat162_rn(1.5f, -0.3f);

	((__nv_bfloat162 *)out)[4 * THREAD] = __hfma2(factor, x, y);
	((__nv_bfloat162 *)out)[4 * THREAD + 1] = __hadd2_rn(x, y);
	((__nv_bfloat162 *)out)[4 * THREAD + 2] = __hmul2_rn(x, y);
	((__nv_bfloat162 *)out)[4 * THREAD + 3] = __hmax2(x, __hsub2_rn(y, x));
}

// Converts every f16 value to other types. Each thread converts 64 values.
KERNEL(half_conversions)
{
	unsigned digest = 0;

	for (unsigned code = THREAD * 64; code < THREAD * 64 + 64; code++) {
		__half h = __ushort_as_half((unsigned short)code);
		digest = digest * 31 + __float_as_uint(__half2float(h));
		digest = digest * 31 + (unsigned)__half2int_rn(h) + (unsigned)__half2uint_rd(h);
		digest = digest * 31 + (unsigned)__half2ll_ru(h) + (unsigned)__half2short_rz(h);
		digest = digest * 31 + __half_as_ushort(hrint(h)) + __half_as_ushort(hceil(h)) * 7;
		digest =
			digest * 31 + __half_as_ushort(__hadd_sat(h, h)) + __heq(h, h) + 2 * __hltu(h, __float2half(1));
		digest = digest * 31 + __half_as_ushort(__habs(h)) + __half_as_ushort(__hmin(h, __float2half(0.3f)));
	}
	out[THREAD] = digest;
}

KERNEL(half_roundings)
{
	float x = __uint_as_float(in[THREAD]), y = __uint_as_float((in[THREAD] & 0x8fffffff) | 0x30000000);
	double z = (double)y * 1.000001;
	unsigned short *r = (unsigned short *)out + 16 * THREAD;

	r[0] = __half_as_ushort(__float2half_rn(y)), r[1] = __half_as_ushort(__float2half_rz(y));
	r[2] = __half_as_ushort(__float2half_rd(y)), r[3] = __half_as_ushort(__float2half_ru(y));
	r[4] = __half_as_ushort(__float2half_rn(x)), r[5] = __half_as_ushort(__float2half_ru(x));
	r[6] = __bfloat16_as_ushort(__float2bfloat16_rn(x)), r[7] = __bfloat16_as_ushort(__float2bfloat16_rz(x));
	r[8] = __bfloat16_as_ushort(__float2bfloat16_rd(y)), r[9] = __bfloat16_as_ushort(__float2bfloat16_ru(y));
	r[10] = __half_as_ushort(__double2half(z)), r[11] = __half_as_ushort(__int2half_rn((int)in[THREAD] >> 13));
	r[12] = __half_as_ushort(__uint2half_rd(in[THREAD] >> 12)),
	r[13] = __half_as_ushort(__ll2half_ru((int)in[THREAD] >> 16));
	r[14] = __bfloat16_as_ushort(__double2bfloat16(z)),
	r[15] = __bfloat16_as_ushort(__int2bfloat16_rn((int)in[THREAD]));
}

// Computes approximate functions of halves, and reciprocal and root in f32.
KERNEL(half_functions)
{
	float x = (float)(in[THREAD] & 0xffff) / 16384.0f - 2;
	__half h = __float2half(x);
	__half *r = (__half *)out + 8 * THREAD;

	r[0] = hexp2(h), r[1] = hexp(h), r[2] = htanh_approx(h), r[3] = hrcp(__float2half(x + 5));
	r[4] = hsqrt(__habs(h)), r[5] = hsin(h), r[6] = hlog2(__float2half(x + 3)), r[7] = hrsqrt(__float2half(x + 3));
}
