// Implements cvt between floating-point types.
#include "half.h"

// The next forms convert to a wider type, which can represent every value.
PTX_OP1("cvt.f32.f16", cvt_f32_f16, f32, u16, ptx_f16_value(x))
// A NaN of bf16 keeps its bits. In other conversions a NaN keeps its payload, except in conversions to f32.
PTX_OP1("cvt.f32.bf16", cvt_f32_bf16, u32, u16, (u32)x << 16)
PTX_OP1("cvt.sat.f32.f16", cvt_sat_f32_f16, f32, u16, ptx_saturate_f32(ptx_f16_value(x)))
PTX_OP1("cvt.sat.f32.bf16", cvt_sat_f32_bf16, f32, u16, ptx_saturate_f32(ptx_bf16_value(x)))
PTX_OP1("cvt.ftz.f32.bf16", cvt_ftz_f32_bf16, f32, u16, ptx_flush_f32(ptx_bf16_value(x)))
PTX_ROW1("cvt.ftz.f32.f16", cvt_f32_f16, f32, u16)
PTX_ROW1("cvt.ftz.sat.f32.f16", cvt_sat_f32_f16, f32, u16)
static inline f64 widen_f16(u16 x)
{
	if ((x & 0x7fff) <= 0x7c00)
		return (f64)ptx_f16_value(x);
	return ptx_quiet_f64(ptx_from_bits_f64((u64)(x & 0x8000) << 48 | (u64)0x7ff << 52 | (u64)(x & 0x3ff) << 42));
}
PTX_OP1("cvt.f64.f16", cvt_f64_f16, f64, u16, widen_f16(x))
PTX_OP1("cvt.f64.bf16", cvt_f64_bf16, f64, u16, (f64)ptx_bf16_value(x))
PTX_OP1("cvt.sat.f64.f16", cvt_sat_f64_f16, f64, u16, ptx_saturate_f64((f64)ptx_f16_value(x)))
PTX_OP1("cvt.f64.f32", cvt_f64_f32, f64, f32, (f64)x)
PTX_OP1("cvt.sat.f64.f32", cvt_sat_f64_f32, f64, f32, ptx_saturate_f64((f64)x))
PTX_OP1("cvt.ftz.f64.f32", cvt_ftz_f64_f32, f64, f32, (f64)ptx_flush_f32(ptx_canonical_f32(x)))
PTX_OP1("cvt.ftz.sat.f64.f32", cvt_ftz_sat_f64_f32, f64, f32, ptx_saturate_f64((f64)ptx_flush_f32(x)))
PTX_FUNCTION1(cvt_same_16, u16, u16, x)
PTX_ROW1("cvt.f16.f16", cvt_same_16, u16, u16)
PTX_ROW1("cvt.bf16.bf16", cvt_same_16, u16, u16)

// Flushes the result of a conversion from f64 to f32 if the number was subnormal for f32 before it was rounded.
static inline f32 flush_narrow(f64 x, f32 rounded)
{
	return fabs(x) < 0x1p-126 ? copysignf(0, rounded) : rounded;
}
PTX_OP1("cvt.rn.f32.f64", cvt_rn_f32_f64, f32, f64, (f32)x)
PTX_OP1("cvt.rn.sat.f32.f64", cvt_rn_sat_f32_f64, f32, f64, ptx_saturate_f32((f32)x))
PTX_OP1("cvt.rn.ftz.f32.f64", cvt_rn_ftz_f32_f64, f32, f64, flush_narrow(x, (f32)x))
static inline f32 f32_from(f64 x, enum ptx_rounding mode)
{
	return x == x ? ptx_f32_from(x, mode) : (f32)x;
}
#define F32_FROM_F64(word, mode)                                                                                      \
	PTX_OP1("cvt." #word ".f32.f64", cvt_##word##_f32_f64, f32, f64, f32_from(x, mode))                           \
	PTX_OP1("cvt." #word ".sat.f32.f64", cvt_##word##_sat_f32_f64, f32, f64, ptx_saturate_f32(f32_from(x, mode))) \
	PTX_OP1("cvt." #word ".ftz.f32.f64", cvt_##word##_ftz_f32_f64, f32, f64, flush_narrow(x, f32_from(x, mode)))
F32_FROM_F64(rz, PTX_ZERO)
F32_FROM_F64(rm, PTX_DOWN)
F32_FROM_F64(rp, PTX_UP)

// Defines conversions to 16 bits with one rounding mode.
#define NARROW(D, S, word, mode, value)                                                                   \
	PTX_OP1("cvt." #word "." #D "." #S, cvt_##word##_##D##_##S, u16, S, ptx_##D##_from(value, mode))  \
	PTX_OP1("cvt." #word ".sat." #D "." #S, cvt_##word##_sat_##D##_##S, u16, S,                       \
		ptx_##D##_from(ptx_saturate_f64(value), mode))                                            \
	PTX_OP1("cvt." #word ".relu." #D "." #S, cvt_##word##_relu_##D##_##S, u16, S,                     \
		ptx_##D##_from(ptx_relu_f64(value), mode))                                                \
	PTX_OP1("cvt." #word ".satfinite." #D "." #S, cvt_##word##_satfinite_##D##_##S, u16, S,           \
		finite_##D(ptx_##D##_from(value, mode)))                                                  \
	PTX_OP1("cvt." #word ".relu.satfinite." #D "." #S, cvt_##word##_relu_satfinite_##D##_##S, u16, S, \
		finite_##D(ptx_##D##_from(ptx_relu_f64(value), mode)))
#define NARROW_MODES(D, S, value)            \
	NARROW(D, S, rn, PTX_NEAREST, value) \
	NARROW(D, S, rz, PTX_ZERO, value)    \
	NARROW(D, S, rm, PTX_DOWN, value)    \
	NARROW(D, S, rp, PTX_UP, value)
static inline u16 finite_f16(u16 x)
{
	return (x & 0x7fff) == 0x7c00 ? x - 1 : x;
}
static inline u16 finite_bf16(u16 x)
{
	return (x & 0x7fff) == 0x7f80 ? x - 1 : x;
}
NARROW_MODES(f16, f32, (f64)x)
NARROW_MODES(f16, f64, x)
NARROW_MODES(bf16, f32, (f64)x)
NARROW_MODES(bf16, f64, x)
#define NARROW_FTZ(word, mode) \
	PTX_OP1("cvt." #word ".ftz.f16.f32", cvt_##word##_ftz_f16, u16, f32, ptx_f16_from(ptx_flush_f32(x), mode))
NARROW_FTZ(rn, PTX_NEAREST)
NARROW_FTZ(rz, PTX_ZERO)
NARROW_FTZ(rm, PTX_DOWN)
NARROW_FTZ(rp, PTX_UP)

// Conversions between f16 and bf16.
#define ACROSS(word, mode)                                                                                        \
	PTX_OP1("cvt." #word ".f16.bf16", cvt_##word##_f16_bf16, u16, u16, ptx_f16_from(ptx_bf16_value(x), mode)) \
	PTX_OP1("cvt." #word ".bf16.f16", cvt_##word##_bf16_f16, u16, u16, ptx_bf16_from(ptx_f16_value(x), mode))
ACROSS(rn, PTX_NEAREST)
ACROSS(rz, PTX_ZERO)
ACROSS(rm, PTX_DOWN)
ACROSS(rp, PTX_UP)

// Defines conversions of two sources to a pair. The first source becomes the upper half.
#define PAIRED(D, word, mode)                                                                                         \
	PAIRED_FORM(D, "cvt." #word "." #D "x2.f32", cvt_##word##_##D##x2, mode, ptx_keep_f64, ptx_keep_16)           \
	PAIRED_FORM(D, "cvt." #word ".relu." #D "x2.f32", cvt_##word##_relu_##D##x2, mode, ptx_relu_f64, ptx_keep_16) \
	PAIRED_FORM(D, "cvt." #word ".satfinite." #D "x2.f32", cvt_##word##_satfinite_##D##x2, mode, ptx_keep_f64,    \
		    finite_##D)                                                                                       \
	PAIRED_FORM(D, "cvt." #word ".relu.satfinite." #D "x2.f32", cvt_##word##_relu_satfinite_##D##x2, mode,        \
		    ptx_relu_f64, finite_##D)
#define PAIRED_FORM(D, text, function, mode, before, after) \
	PTX_OP2(text, function, u32, f32, f32,              \
		(u32)after(ptx_##D##_from(before((f64)x), mode)) << 16 | after(ptx_##D##_from(before((f64)y), mode)))
PAIRED(f16, rn, PTX_NEAREST)
PAIRED(f16, rz, PTX_ZERO)
PAIRED(bf16, rn, PTX_NEAREST)
PAIRED(bf16, rz, PTX_ZERO)

// Rounds to tf32, which is an f32 whose low 13 bits are zero.
static inline u32 tf32_from(f32 x, enum ptx_rounding mode, int finite)
{
	if (x != x)
		return (ptx_bits_f32(x) | 0x00400000) & ~(u32)0x1fff;
	u32 code = (u32)ptx_round_f64((f64)x, PTX_FORMAT_TF32, mode);
	if (finite && code == 0x3fc00)
		code--;
	return (ptx_bits_f32(x) & 0x80000000) | code << 13;
}
#define TF32(word, mode)                                                                                          \
	PTX_OP1("cvt." #word ".tf32.f32", cvt_##word##_tf32, u32, f32, tf32_from(x, mode, 0))                     \
	PTX_OP1("cvt." #word ".satfinite.tf32.f32", cvt_##word##_satfinite_tf32, u32, f32, tf32_from(x, mode, 1)) \
	PTX_OP1("cvt." #word ".relu.tf32.f32", cvt_##word##_relu_tf32, u32, f32,                                  \
		tf32_from((f32)ptx_relu_f64(x), mode, 0))
TF32(rna, PTX_AWAY)
TF32(rn, PTX_NEAREST)
TF32(rz, PTX_ZERO)

// Converts to fp8. Always rounds to nearest; a number that is too large becomes the largest finite number.
static inline u32 fp8_from(f64 x, struct ptx_format format)
{
	if (x != x)
		return 0x7f;
	u32 code = (u32)ptx_round_f64(x, format, PTX_NEAREST);
	if (code >= format.infinity)
		code = (u32)format.infinity - 1;
	return (u32)(ptx_bits_f64(x) >> 56 & 0x80) | code;
}
static inline u16 f16_from_e5m2(u32 code)
{
	u16 half = (u16)((code & 0xff) << 8);
	return (half & 0x7fff) > 0x7c00 ? 0x7fff : half;
}
static inline u16 f16_from_e4m3(u32 code)
{
	u32 magnitude = code & 0x7f, sign = code & 0x80;

	if (magnitude == 0x7f)
		return 0x7fff;
	f64 value =
		magnitude < 8 ? (f64)magnitude * 0x1p-9 : ldexp(8 + (f64)(magnitude & 7), (int)(magnitude >> 3) - 10);
	return (u16)(ptx_f16_from(value, PTX_NEAREST) | sign << 8);
}
#define FP8(name, format)                                                                          \
	FP8_FROM(name, "cvt.rn.satfinite." #name "x2", cvt_##name, format, ptx_keep_f64)           \
	FP8_FROM(name, "cvt.rn.satfinite.relu." #name "x2", cvt_relu_##name, format, ptx_relu_f64) \
	PTX_OP1("cvt.rn.f16x2." #name "x2", cvt_f16x2_##name, u32, u16,                            \
		(u32)f16_from_##name(x >> 8) << 16 | f16_from_##name(x))                           \
	PTX_OP1("cvt.rn.relu.f16x2." #name "x2", cvt_relu_f16x2_##name, u32, u16,                  \
		(u32)relu_f16(f16_from_##name(x >> 8)) << 16 | relu_f16(f16_from_##name(x)))
#define FP8_FROM(name, text, function, format, before)                                    \
	PTX_OP2(text ".f32", function##_f32, u16, f32, f32,                               \
		fp8_from(before((f64)x), format) << 8 | fp8_from(before((f64)y), format)) \
	PTX_OP1(text ".f16x2", function##_f16x2, u16, u32,                                \
		fp8_from(before((f64)ptx_f16_value((u16)(x >> 16))), format) << 8 |       \
			fp8_from(before((f64)ptx_f16_value((u16)x)), format))
static inline u16 relu_f16(u16 x)
{
	return x & 0x8000 ? 0 : x;
}
FP8(e4m3, PTX_FORMAT_E4M3)
FP8(e5m2, PTX_FORMAT_E5M2)

// Defines conversions that round to an integral value of the same type.
#define INTEGRAL(word, function)                                                                               \
	PTX_OP1("cvt." #word ".f32.f32", cvt_##word##_f32, f32, f32, ptx_canonical_f32(function##f(x)))        \
	PTX_OP1("cvt." #word ".sat.f32.f32", cvt_##word##_sat_f32, f32, f32, ptx_saturate_f32(function##f(x))) \
	PTX_OP1("cvt." #word ".ftz.f32.f32", cvt_##word##_ftz_f32, f32, f32,                                   \
		ptx_canonical_f32(function##f(ptx_flush_f32(x))))                                              \
	PTX_OP1("cvt." #word ".ftz.sat.f32.f32", cvt_##word##_ftz_sat_f32, f32, f32,                           \
		ptx_saturate_f32(function##f(ptx_flush_f32(x))))                                               \
	PTX_OP1("cvt." #word ".f64.f64", cvt_##word##_f64, f64, f64, x == x ? function(x) : ptx_quiet_f64(x))  \
	PTX_OP1("cvt." #word ".sat.f64.f64", cvt_##word##_sat_f64, f64, f64, ptx_saturate_f64(function(x)))    \
	PTX_OP1("cvt." #word ".f16.f16", cvt_##word##_f16, u16, u16,                                           \
		ptx_f16_from((f64)function##f(ptx_f16_value(x)), PTX_NEAREST))                                 \
	PTX_OP1("cvt." #word ".sat.f16.f16", cvt_##word##_sat_f16, u16, u16,                                   \
		ptx_f16_from((f64)ptx_saturate_f32(function##f(ptx_f16_value(x))), PTX_NEAREST))               \
	PTX_OP1("cvt." #word ".bf16.bf16", cvt_##word##_bf16, u16, u16,                                        \
		ptx_bf16_from((f64)function##f(ptx_bf16_value(x)), PTX_NEAREST))
INTEGRAL(rni, rint)
INTEGRAL(rzi, trunc)
INTEGRAL(rmi, floor)
INTEGRAL(rpi, ceil)
PTX_OP1("cvt.f32.f32", cvt_f32_f32, f32, f32, ptx_canonical_f32(x))
PTX_OP1("cvt.ftz.f32.f32", cvt_ftz_f32_f32, f32, f32, ptx_flush_f32(ptx_canonical_f32(x)))
PTX_OP1("cvt.sat.f32.f32", cvt_sat_f32_f32, f32, f32, ptx_saturate_f32(x))
PTX_OP1("cvt.ftz.sat.f32.f32", cvt_ftz_sat_f32_f32, f32, f32, ptx_saturate_f32(ptx_flush_f32(x)))
PTX_OP1("cvt.f64.f64", cvt_f64_f64, f64, f64, x)
PTX_OP1("cvt.sat.f64.f64", cvt_sat_f64_f64, f64, f64, ptx_saturate_f64(x))
PTX_OP1("cvt.sat.f16.f16", cvt_sat_f16_f16, u16, u16,
	ptx_f16_from((f64)ptx_saturate_f32(ptx_f16_value(x)), PTX_NEAREST))
