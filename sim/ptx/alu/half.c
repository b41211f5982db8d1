// Implements f16 and bf16 arithmetic, single and in pairs. It computes in f64, which represents sums and products of
// f16, and products of bf16, exactly. Other results are first rounded to odd, so that rounding them again is correct.
#include "half.h"

static inline f64 exact_add(f64 x, f64 y)
{
	return ptx_add_to_odd(x, y);
}
static inline f64 exact_sub(f64 x, f64 y)
{
	return ptx_add_to_odd(x, -y);
}
static inline f64 exact_mul(f64 x, f64 y)
{
	return x * y;
}

#define LANE2(name, type, operation, in, out, result)                                                  \
	static inline u16 name(u16 x, u16 y)                                                           \
	{                                                                                              \
		f64 exact = operation((f64)ptx_##type##_value(in(x)), (f64)ptx_##type##_value(in(y))); \
		return out(ptx_##type##_from(result(exact), PTX_NEAREST));                             \
	}
#define LANE3(name, type, in, out, result)                                                     \
	static inline u16 name(u16 x, u16 y, u16 z)                                            \
	{                                                                                      \
		f64 product = (f64)ptx_##type##_value(in(x)) * (f64)ptx_##type##_value(in(y)); \
		f64 exact = ptx_add_to_odd(product, (f64)ptx_##type##_value(in(z)));           \
		return out(ptx_##type##_from(result(exact), PTX_NEAREST));                     \
	}

#define SUM_OR_PRODUCT(name)                                                                         \
	LANE2(name##_f16, f16, exact_##name, ptx_keep_16, ptx_keep_16, ptx_keep_f64)                 \
	LANE2(name##_ftz_f16, f16, exact_##name, ptx_flush_f16, ptx_flush_f16, ptx_keep_f64)         \
	LANE2(name##_sat_f16, f16, exact_##name, ptx_keep_16, ptx_keep_16, ptx_saturate_f64)         \
	LANE2(name##_ftz_sat_f16, f16, exact_##name, ptx_flush_f16, ptx_flush_f16, ptx_saturate_f64) \
	LANE2(name##_bf16, bf16, exact_##name, ptx_keep_16, ptx_keep_16, ptx_keep_f64)               \
	PTX_HALF2(#name, f16, name##_f16)                                                            \
	PTX_HALF2(#name ".ftz", f16, name##_ftz_f16)                                                 \
	PTX_HALF2(#name ".sat", f16, name##_sat_f16)                                                 \
	PTX_HALF2(#name ".ftz.sat", f16, name##_ftz_sat_f16)                                         \
	PTX_HALF2(#name, bf16, name##_bf16)                                                          \
	PTX_HALF2_ALIAS(#name ".rn", f16, name##_f16)                                                \
	PTX_HALF2_ALIAS(#name ".rn.ftz", f16, name##_ftz_f16)                                        \
	PTX_HALF2_ALIAS(#name ".rn.sat", f16, name##_sat_f16)                                        \
	PTX_HALF2_ALIAS(#name ".rn.ftz.sat", f16, name##_ftz_sat_f16)                                \
	PTX_HALF2_ALIAS(#name ".rn", bf16, name##_bf16)
SUM_OR_PRODUCT(add)
SUM_OR_PRODUCT(sub)
SUM_OR_PRODUCT(mul)

#define FUSED(modifiers, name, type, in, out, result) \
	LANE3(name, type, in, out, result)            \
	PTX_HALF3("fma.rn" modifiers, type, name)
FUSED("", fma_f16, f16, ptx_keep_16, ptx_keep_16, ptx_keep_f64)
FUSED(".ftz", fma_ftz_f16, f16, ptx_flush_f16, ptx_flush_f16, ptx_keep_f64)
FUSED(".sat", fma_sat_f16, f16, ptx_keep_16, ptx_keep_16, ptx_saturate_f64)
FUSED(".ftz.sat", fma_ftz_sat_f16, f16, ptx_flush_f16, ptx_flush_f16, ptx_saturate_f64)
FUSED(".relu", fma_relu_f16, f16, ptx_keep_16, ptx_keep_16, ptx_relu_f64)
FUSED(".ftz.relu", fma_ftz_relu_f16, f16, ptx_flush_f16, ptx_flush_f16, ptx_relu_f64)
FUSED("", fma_bf16, bf16, ptx_keep_16, ptx_keep_16, ptx_keep_f64)
FUSED(".relu", fma_relu_bf16, bf16, ptx_keep_16, ptx_keep_16, ptx_relu_f64)

#define SIGN_FORMS(type, infinity)                             \
	static inline u16 canonical_##type(u16 x)              \
	{                                                      \
		return (x & 0x7fff) > (infinity) ? 0x7fff : x; \
	}                                                      \
	static inline u16 abs_##type(u16 x)                    \
	{                                                      \
		return canonical_##type(x & 0x7fff);           \
	}                                                      \
	static inline u16 neg_##type(u16 x)                    \
	{                                                      \
		return canonical_##type(x ^ 0x8000);           \
	}                                                      \
	PTX_HALF1("abs", type, abs_##type)                     \
	PTX_HALF1("neg", type, neg_##type)
SIGN_FORMS(f16, 0x7c00)
SIGN_FORMS(bf16, 0x7f80)
static inline u16 abs_ftz_f16(u16 x)
{
	return ptx_flush_f16(abs_f16(x));
}
static inline u16 neg_ftz_f16(u16 x)
{
	return ptx_flush_f16(neg_f16(x));
}
PTX_HALF1("abs.ftz", f16, abs_ftz_f16)
PTX_HALF1("neg.ftz", f16, neg_ftz_f16)

// Maps the bits of a half to an integer of the same order, where -0 is below +0.
static inline s32 order(u16 x)
{
	return x & 0x8000 ? 0x7fff - (s32)x : (s32)x;
}
static inline int above(u16 x, u16 y)
{
	return order(x) > order(y);
}
static inline int below(u16 x, u16 y)
{
	return order(x) < order(y);
}

// Defines min or max. `infinity` has the bits of infinity. If one source is NaN, the result is the other source, or NaN
// if nan_wins is set.
#define CHOOSE(name, better, in, infinity, nan_wins)                                      \
	static inline u16 name(u16 x0, u16 y0)                                            \
	{                                                                                 \
		u16 x = in(x0), y = in(y0);                                               \
		int x_nan = (x & 0x7fff) > (infinity), y_nan = (y & 0x7fff) > (infinity); \
		if (nan_wins ? x_nan || y_nan : x_nan && y_nan)                           \
			return 0x7fff;                                                    \
		return x_nan ? y : y_nan ? x : better(y, x) ? y : x;                      \
	}
// Defines min or max with .xorsign: chooses by magnitude, and gives the result the sign of the product.
#define CHOOSE_XORSIGN(name, chooser)                                         \
	static inline u16 name(u16 x, u16 y)                                  \
	{                                                                     \
		u16 one = chooser(x & 0x7fff, y & 0x7fff);                    \
		return one == 0x7fff ? one : (u16)(one | ((x ^ y) & 0x8000)); \
	}
#define CHOICES(text, name, type, better, in, infinity)      \
	CHOOSE(name, better, in, infinity, 0)                \
	CHOOSE(name##_NaN, better, in, infinity, 1)          \
	CHOOSE_XORSIGN(name##_xorsign, name)                 \
	CHOOSE_XORSIGN(name##_NaN_xorsign, name##_NaN)       \
	PTX_HALF2(text, type, name)                          \
	PTX_HALF2(text ".NaN", type, name##_NaN)             \
	PTX_HALF2(text ".xorsign.abs", type, name##_xorsign) \
	PTX_HALF2(text ".NaN.xorsign.abs", type, name##_NaN_xorsign)
CHOICES("min", min_f16, f16, below, ptx_keep_16, 0x7c00)
CHOICES("max", max_f16, f16, above, ptx_keep_16, 0x7c00)
CHOICES("min.ftz", min_ftz_f16, f16, below, ptx_flush_f16, 0x7c00)
CHOICES("max.ftz", max_ftz_f16, f16, above, ptx_flush_f16, 0x7c00)
CHOICES("min", min_bf16, bf16, below, ptx_keep_16, 0x7f80)
CHOICES("max", max_bf16, bf16, above, ptx_keep_16, 0x7f80)

#define APPROXIMATE(text, name, type, in, out, function)                                              \
	static inline u16 name(u16 x)                                                                 \
	{                                                                                             \
		return out(ptx_##type##_from(function((f64)ptx_##type##_value(in(x))), PTX_NEAREST)); \
	}                                                                                             \
	PTX_HALF1(text, type, name)
APPROXIMATE("ex2.approx", ex2_f16, f16, ptx_keep_16, ptx_keep_16, exp2)
APPROXIMATE("ex2.approx.ftz", ex2_ftz_f16, f16, ptx_flush_f16, ptx_flush_f16, exp2)
APPROXIMATE("ex2.approx.ftz", ex2_bf16, bf16, ptx_keep_16, ptx_keep_16, exp2)
APPROXIMATE("tanh.approx", tanh_f16, f16, ptx_keep_16, ptx_keep_16, tanh)
APPROXIMATE("tanh.approx", tanh_bf16, bf16, ptx_keep_16, ptx_keep_16, tanh)
