// Rounds numbers to narrow formats by integer arithmetic: f16, bf16, tf32, fp8, and f32 in every rounding mode. The
// functions are pure: any thread.
#pragma once

#include "float.h"

enum ptx_rounding {
	PTX_NEAREST, // ties to even
	PTX_ZERO,
	PTX_DOWN,
	PTX_UP,
	PTX_AWAY, // nearest, ties away from zero
};

struct ptx_format {
	unsigned precision; // bits of the mantissa, with the hidden bit
	int least;	    // exponent of the smallest normal number
	u64 infinity;	    // its bits
};
#define PTX_FORMAT_F16 ((struct ptx_format){11, -14, 0x7c00})
#define PTX_FORMAT_BF16 ((struct ptx_format){8, -126, 0x7f80})
#define PTX_FORMAT_TF32 ((struct ptx_format){11, -126, 0x3fc00})
#define PTX_FORMAT_F32 ((struct ptx_format){24, -126, 0x7f800000})
#define PTX_FORMAT_F64 ((struct ptx_format){53, -1022, 0x7ff0000000000000u})
#define PTX_FORMAT_E5M2 ((struct ptx_format){3, -14, 0x7c})
#define PTX_FORMAT_E4M3 ((struct ptx_format){4, -6, 0x7f}) // this format has no infinity; 0x7f is the NaN

// Rounds the number mantissa * 2^(exponent - 63). The mantissa's top bit must be set. Returns the bits of the result
// without its sign.
static inline u64 ptx_round(u64 mantissa, int exponent, int negative, struct ptx_format format, enum ptx_rounding mode)
{
	const u64 half = (u64)1 << 63;
	const int normal = exponent >= format.least;
	// `drop` low bits of the mantissa are dropped.
	const int drop = 64 - (int)format.precision + (normal ? 0 : format.least - exponent);
	u64 kept = drop < 64 ? mantissa >> drop : 0;
	u64 rest = drop < 64 ? mantissa << (64 - drop) : drop == 64 ? mantissa : 1;
	int up = mode == PTX_NEAREST ? rest > half || (rest == half && kept & 1)
		 : mode == PTX_AWAY  ? rest >= half
		 : mode == PTX_UP    ? rest && !negative
		 : mode == PTX_DOWN  ? rest && negative
				     : 0;
	u64 code = kept + (u64)up;

	// `code` has the hidden bit of the mantissa, which adds 1 to the exponent field. So the exponent that is added
	// here is less by one.
	if (normal)
		code += (u64)(exponent - format.least) << (format.precision - 1);
	if (code < format.infinity)
		return code;
	int stays_finite = mode == PTX_ZERO || (mode == PTX_UP && negative) || (mode == PTX_DOWN && !negative);
	return stays_finite ? format.infinity - 1 : format.infinity;
}

// Rounds a number that is not NaN.
static inline u64 ptx_round_f64(f64 x, struct ptx_format format, enum ptx_rounding mode)
{
	u64 bits = ptx_bits_f64(x) & INT64_MAX;
	int negative = ptx_bits_f64(x) >> 63 != 0;

	if (!bits)
		return 0;
	if (bits >= 0x7ff0000000000000u)
		return format.infinity;
	if (bits < 0x0010000000000000u) {
		int shift = __builtin_clzll(bits);
		return ptx_round(bits << shift, -1011 - shift, negative, format, mode);
	}
	return ptx_round(bits << 11 | (u64)1 << 63, (int)(bits >> 52) - 1023, negative, format, mode);
}

static inline u64 ptx_round_u64(u64 x, int negative, struct ptx_format format, enum ptx_rounding mode)
{
	if (!x)
		return 0;
	int shift = __builtin_clzll(x);
	return ptx_round(x << shift, 63 - shift, negative, format, mode);
}

// Rounds to nearest without branches, so that compilers can vectorize this. Adding and subtracting 1.5 * 2^52 times the
// weight of a bit rounds at that bit. `last` is the number of low bits of a normal f64 that are dropped.
static inline u16 ptx_round_nearest_16(f64 x, struct ptx_format format)
{
	const unsigned last = 53 - format.precision;
	const u64 least = (u64)(1023 + format.least), most = least + 2 * (u64)(1 - format.least);
	const f64 smallest = ptx_from_bits_f64(least << 52);
	// Multiplying by this number gives the last bit of a subnormal number the weight 1.
	const f64 raise = ptx_from_bits_f64((1023 - (u64)format.least + format.precision - 1) << 52);
	u64 bits = ptx_bits_f64(x), exponent = bits >> 52 & 0x7ff;

	exponent = exponent < least ? least : exponent;
	exponent = exponent > most ? most : exponent;
	f64 shifter = ptx_from_bits_f64((exponent + last) << 52 | (u64)1 << 51);
	f64 kept = (ptx_from_bits_f64(bits & INT64_MAX) + shifter) - shifter;
	u64 normal = (ptx_bits_f64(kept) >> last) - ((least - 1) << (format.precision - 1));
	u64 subnormal = ptx_bits_f64(kept * raise + 0x1p52) & 0xffff;
	u64 code = kept < smallest ? subnormal : normal;
	code = code > format.infinity ? format.infinity : code;
	return (u16)(x != x ? 0x7fff : code | (bits >> 48 & 0x8000));
}

static inline u16 ptx_narrow_16(f64 x, struct ptx_format format, enum ptx_rounding mode)
{
	if (mode == PTX_NEAREST)
		return ptx_round_nearest_16(x, format);
	if (x != x)
		return 0x7fff;
	return (u16)((ptx_bits_f64(x) >> 48 & 0x8000) | ptx_round_f64(x, format, mode));
}
static inline f64 ptx_keep_f64(f64 x)
{
	return x;
}
static inline f64 ptx_relu_f64(f64 x)
{
	return x != x || x > 0 ? x : 0;
} // NaN stays NaN
static inline u16 ptx_f16_from(f64 x, enum ptx_rounding mode)
{
	return ptx_narrow_16(x, PTX_FORMAT_F16, mode);
}
static inline u16 ptx_bf16_from(f64 x, enum ptx_rounding mode)
{
	return ptx_narrow_16(x, PTX_FORMAT_BF16, mode);
}
static inline f32 ptx_f32_from(f64 x, enum ptx_rounding mode)
{
	if (x != x)
		return PTX_NAN_F32;
	return ptx_from_bits_f32((u32)((ptx_bits_f64(x) >> 32 & 0x80000000) | ptx_round_f64(x, PTX_FORMAT_F32, mode)));
}

static inline f32 ptx_f16_value(u16 half)
{
	u32 magnitude = half & 0x7fff, sign = (u32)(half & 0x8000) << 16;
	u32 normal = (magnitude << 13) + ((127 - 15) << 23);
	u32 subnormal = ptx_bits_f32((f32)(s32)magnitude * 0x1p-24f);
	u32 bits = magnitude < 0x400 ? subnormal : magnitude < 0x7c00 ? normal : 0x7f800000;

	return ptx_from_bits_f32(magnitude > 0x7c00 ? 0x7fffffff : bits | sign);
}
static inline f32 ptx_bf16_value(u16 half)
{
	return ptx_from_bits_f32((u32)half << 16);
}

// Returns x + y rounded to odd. Rounding the result to a narrower format gives the same as rounding the exact sum.
static inline f64 ptx_add_to_odd(f64 x, f64 y)
{
	f64 sum = x + y, part = sum - x, error = (x - (sum - part)) + (y - part);
	u64 bits = ptx_bits_f64(sum), towards = (error > 0) == (sum > 0) ? 1 : UINT64_MAX;

	// An inexact sum lies between two numbers, one of which is odd: the rounded sum, or its neighbour on the side
	// of the error. If the sum is not finite, the error is NaN, and no comparison with it is true.
	return ptx_from_bits_f64((error > 0 || error < 0) && !(bits & 1) ? bits + towards : bits);
}
