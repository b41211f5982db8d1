// Defines number types in memory, and the wider types for computing. f16 and bf16 are stored as plain bits, so that no
// header of the toolkit is needed. bf16 is converted with integer instructions, because not every architecture has
// instructions for it.
#pragma once
#include <stdint.h>

#define INLINE static __device__ __forceinline__

struct f16 {
	uint16_t bits;
};
struct bf16 {
	uint16_t bits;
};

INLINE float widen(float x)
{
	return x;
}

INLINE double widen(double x)
{
	return x;
}

INLINE float widen(f16 x)
{
	float wide;

	asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
	return wide;
}

INLINE float widen(bf16 x)
{
	return __uint_as_float((uint32_t)x.bits << 16);
}

INLINE void narrow(float x, float &ret)
{
	ret = x;
}

INLINE void narrow(double x, double &ret)
{
	ret = x;
}

INLINE void narrow(float x, f16 &ret)
{
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(ret.bits) : "f"(x));
}

// Rounds to nearest, ties to even. A NaN keeps its sign.
INLINE void narrow(float x, bf16 &ret)
{
	uint32_t bits = __float_as_uint(x), nan = (bits & 0x7fffffff) > 0x7f800000;

	ret.bits = nan ? (uint16_t)(bits >> 16 | 0x0040) : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// The type for computing.
template <typename T> struct wide {
	typedef float type;
};
template <> struct wide<double> {
	typedef double type;
};

INLINE float exponential(float x)
{
	return expf(x);
}

INLINE double exponential(double x)
{
	return exp(x);
}

template <typename W> INLINE W sigmoid(W x)
{
	return 1 / (1 + exponential(-x));
}

// Returns x * sigmoid(at). Returns 0 if sigmoid(at) is 0, even if x is infinite.
template <typename W> INLINE W times_sigmoid(W x, W at)
{
	W factor = sigmoid(at);

	return factor == 0 ? 0 : x * factor;
}

// GELU's approximation with tanh. Computes (1 + tanh(u)) / 2 as sigmoid(2 u), which loses no digits for negative u.
template <typename W> INLINE W gelu(W x)
{
	return times_sigmoid(x, (W)1.5957691216057308 * x * (1 + (W)0.044715 * x * x));
}
