// Implements the approximate functions: computes them in a wider type and rounds once. The errors are within the bounds
// that the PTX ISA documents, but the results may differ from those of a GPU.
#include "float.h"

#define PLAIN_AND_FTZ(text, function, ...)                                              \
	PTX_SCALAR1(function##_f32, f32, f32, ptx_canonical_f32((f32)(__VA_ARGS__)))    \
	PTX_SCALAR1(function##_ftz_f32, f32, f32, function##_flushed(ptx_flush_f32(x))) \
	PTX_ROW1(text ".f32", function##_f32, f32, f32)                                 \
	PTX_ROW1(text ".ftz.f32", function##_ftz_f32, f32, f32)
#define APPROXIMATE(text, function, ...)                                     \
	static inline f32 function##_flushed(f32 x)                          \
	{                                                                    \
		return ptx_flush_f32(ptx_canonical_f32((f32)(__VA_ARGS__))); \
	}                                                                    \
	PLAIN_AND_FTZ(text, function, __VA_ARGS__)

// Returns the angle, or 0 for a small one. A GPU divides the angle by 2 pi and flushes a small quotient to 0.
static inline f64 reduced_angle(f32 x)
{
	return fabs((f64)x) * 0.15915494309189535 < 0x1p-126 ? copysign(0, (f64)x) : (f64)x;
}
APPROXIMATE("sin.approx", sin_approx, sin(reduced_angle(x)))
APPROXIMATE("cos.approx", cos_approx, cos((f64)x))
APPROXIMATE("ex2.approx", ex2_approx, exp2((f64)x))
APPROXIMATE("lg2.approx", lg2_approx, log2((f64)x))
APPROXIMATE("rsqrt.approx", rsqrt_approx, 1 / sqrt((f64)x))
APPROXIMATE("sqrt.approx", sqrt_approx, sqrt((f64)x))
APPROXIMATE("rcp.approx", rcp_approx, 1 / (f64)x)
PTX_SCALAR1(tanh_approx, f32, f32, ptx_canonical_f32((f32)tanh((f64)x)))
PTX_ROW1("tanh.approx.f32", tanh_approx, f32, f32)

// Divides as a GPU does: multiplies by the reciprocal, which is flushed to 0 for a divisor above 2^126.
static inline f32 divide_approximately(f32 x, f32 y)
{
	f32 magnitude = ptx_from_bits_f32(ptx_bits_f32(y) & 0x7fffffff);

	if (magnitude > 0x1p126f && magnitude < INFINITY)
		return ptx_canonical_f32(x * copysignf(0, y));
	return ptx_canonical_f32(x / y);
}
PTX_OP2("div.approx.f32", div_approx_f32, f32, f32, f32, divide_approximately(x, y))
PTX_OP2("div.approx.ftz.f32", div_approx_ftz_f32, f32, f32, f32,
	ptx_flush_f32(divide_approximately(ptx_flush_f32(x), ptx_flush_f32(y))))
PTX_OP2("div.full.f32", div_full_f32, f32, f32, f32, ptx_canonical_f32(x / y))
PTX_OP2("div.full.ftz.f32", div_full_ftz_f32, f32, f32, f32,
	ptx_flush_f32(ptx_canonical_f32(ptx_flush_f32(x) / ptx_flush_f32(y))))

// The approximate functions of f64 with .ftz use and return only the upper 32 bits.
static inline f64 high_word(f64 x)
{
	u64 bits = ptx_bits_f64(x) & 0xffffffff00000000u;
	return ptx_from_bits_f64(bits & 0x7ff0000000000000u ? bits : bits & PTX_SIGN(u64));
}
// If the argument is NaN, an H200 returns the f32 NaN in the upper 32 bits. But rsqrt without .ftz keeps the payload of
// its source.
static inline f64 nan_or_high_word(f64 x)
{
	return x == x ? high_word(x) : ptx_from_bits_f64(0x7fffffff00000000u);
}
PTX_OP1("rcp.approx.ftz.f64", rcp_approx_ftz_f64, f64, f64, nan_or_high_word(1 / high_word(x)))
PTX_OP1("rsqrt.approx.ftz.f64", rsqrt_approx_ftz_f64, f64, f64, nan_or_high_word(1 / sqrt(high_word(x))))
PTX_OP1("rsqrt.approx.f64", rsqrt_approx_f64, f64, f64, x == x ? ptx_canonical_f64(1 / sqrt(x)) : ptx_quiet_f64(x))
