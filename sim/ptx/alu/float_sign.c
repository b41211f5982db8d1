// Implements the forms that need only sign and order: abs, neg, min, max, copysign.
#include "float.h"

#define ABS_F32(x) ptx_from_bits_f32(ptx_bits_f32(x) & 0x7fffffff)
#define NEG_F32(x) ptx_from_bits_f32(ptx_bits_f32(x) ^ 0x80000000)
PTX_OP1("abs.f32", abs_f32, f32, f32, ptx_canonical_f32(ABS_F32(x)))
PTX_OP1("neg.f32", neg_f32, f32, f32, ptx_canonical_f32(NEG_F32(x)))
PTX_OP1("abs.ftz.f32", abs_ftz_f32, f32, f32, ptx_flush_f32(ptx_canonical_f32(ABS_F32(x))))
PTX_OP1("neg.ftz.f32", neg_ftz_f32, f32, f32, ptx_flush_f32(ptx_canonical_f32(NEG_F32(x))))
// A GPU executes abs and neg of f64 as additions: a NaN becomes quiet and keeps its sign.
PTX_OP1("abs.f64", abs_f64, f64, f64, x == x ? fabs(x) : ptx_quiet_f64(x))
PTX_OP1("neg.f64", neg_f64, f64, f64, x == x ? -x : ptx_quiet_f64(x))

// The result has the magnitude of b and the sign of a.
PTX_OP2("copysign.f32", copysign_f32, u32, u32, u32, (y & 0x7fffffff) | (x & 0x80000000))
PTX_OP2("copysign.f64", copysign_f64, u64, u64, u64, (y & ~PTX_SIGN(u64)) | (x & PTX_SIGN(u64)))

// Maps floats to integers with the same order, where -0 is below +0.
static inline s32 order_f32(f32 x)
{
	s32 bits = (s32)ptx_bits_f32(x);
	return bits < 0 ? bits ^ 0x7fffffff : bits;
}
static inline s64 order_f64(f64 x)
{
	s64 bits = (s64)ptx_bits_f64(x);
	return bits < 0 ? bits ^ INT64_MAX : bits;
}

// If one source of min or max is NaN, the result is the other source. With .NaN, the result is NaN. If both are NaN, an
// H200 returns the second one for f64, with its payload. This function makes that NaN quiet.
static inline f64 quiet_nan_f64(f64 x)
{
	return x == x ? x : ptx_quiet_f64(x);
}
#define MINIMUM(T, quiet)                                                           \
	static inline T minimum_##T(T x, T y)                                       \
	{                                                                           \
		T one = x != x ? y : order_##T(y) < order_##T(x) && y == y ? y : x; \
		return quiet(one);                                                  \
	}                                                                           \
	static inline T maximum_##T(T x, T y)                                       \
	{                                                                           \
		T one = x != x ? y : order_##T(y) > order_##T(x) && y == y ? y : x; \
		return quiet(one);                                                  \
	}
MINIMUM(f32, ptx_canonical_f32)
MINIMUM(f64, quiet_nan_f64)

#define MINIMUM_FORMS_F32(name, function)                                                                         \
	PTX_OP2(#name ".f32", name##_f32, f32, f32, f32, function(x, y))                                          \
	PTX_OP2(#name ".ftz.f32", name##_ftz_f32, f32, f32, f32, function(ptx_flush_f32(x), ptx_flush_f32(y)))    \
	PTX_OP2(#name ".NaN.f32", name##_NaN_f32, f32, f32, f32, x != x || y != y ? PTX_NAN_F32 : function(x, y)) \
	PTX_OP2(#name ".ftz.NaN.f32", name##_ftz_NaN_f32, f32, f32, f32,                                          \
		x != x || y != y ? PTX_NAN_F32 : function(ptx_flush_f32(x), ptx_flush_f32(y)))                    \
	PTX_OP2(#name ".xorsign.abs.f32", name##_xorsign_f32, f32, f32, f32, function##_xorsign(x, y))            \
	PTX_OP2(#name ".ftz.xorsign.abs.f32", name##_ftz_xorsign_f32, f32, f32, f32,                              \
		function##_xorsign(ptx_flush_f32(x), ptx_flush_f32(y)))                                           \
	PTX_OP2(#name ".NaN.xorsign.abs.f32", name##_NaN_xorsign_f32, f32, f32, f32,                              \
		x != x || y != y ? PTX_NAN_F32 : function##_xorsign(x, y))                                        \
	PTX_OP2(#name ".ftz.NaN.xorsign.abs.f32", name##_ftz_NaN_xorsign_f32, f32, f32, f32,                      \
		x != x || y != y ? PTX_NAN_F32 : function##_xorsign(ptx_flush_f32(x), ptx_flush_f32(y)))

// Defines min or max with .xorsign: chooses by magnitude, and gives the result the sign of the product.
#define XORSIGN(function)                                                                      \
	static inline f32 function##_xorsign(f32 x, f32 y)                                     \
	{                                                                                      \
		u32 sign = (ptx_bits_f32(x) ^ ptx_bits_f32(y)) & 0x80000000;                   \
		f32 one = function(ABS_F32(x), ABS_F32(y));                                    \
		return one == one ? ptx_from_bits_f32(ptx_bits_f32(one) | sign) : PTX_NAN_F32; \
	}
XORSIGN(minimum_f32)
XORSIGN(maximum_f32)
MINIMUM_FORMS_F32(min, minimum_f32)
MINIMUM_FORMS_F32(max, maximum_f32)
PTX_OP2("min.f64", min_f64, f64, f64, f64, minimum_f64(x, y))
PTX_OP2("max.f64", max_f64, f64, f64, f64, maximum_f64(x, y))
