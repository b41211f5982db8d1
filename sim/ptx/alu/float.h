// Defines helpers of the floating-point forms: bits, canonical NaN, flushing, saturation. The functions are pure: any
// thread.
#pragma once

#include "form.h"

#define PTX_SIGN(B) ((B)1 << (PTX_BITS(B) - 1))

static inline u32 ptx_bits_f32(f32 x)
{
	u32 bits;
	memcpy(&bits, &x, sizeof bits);
	return bits;
}
static inline f32 ptx_from_bits_f32(u32 bits)
{
	f32 x;
	memcpy(&x, &bits, sizeof x);
	return x;
}
static inline u64 ptx_bits_f64(f64 x)
{
	u64 bits;
	memcpy(&bits, &x, sizeof bits);
	return bits;
}
static inline f64 ptx_from_bits_f64(u64 bits)
{
	f64 x;
	memcpy(&x, &bits, sizeof x);
	return x;
}

#define PTX_NAN_F32 ptx_from_bits_f32(0x7fffffff)
#define PTX_NAN_F64 ptx_from_bits_f64(0xfff8000000000000u)

// Replaces any NaN by the one that f32 instructions return. (f64 instructions keep the payload of a source.) Compares
// the bits as integers, which compilers vectorize.
static inline f32 ptx_canonical_f32(f32 x)
{
	u32 bits = ptx_bits_f32(x);
	return ptx_from_bits_f32((s32)(bits & 0x7fffffff) > 0x7f800000 ? 0x7fffffff : bits);
}
static inline f64 ptx_canonical_f64(f64 x)
{
	return x == x ? x : PTX_NAN_F64;
}
static inline f64 ptx_quiet_f64(f64 x)
{
	return ptx_from_bits_f64(ptx_bits_f64(x) | (u64)1 << 51);
}

// Implements .ftz: replaces a subnormal number by a zero of the same sign.
static inline f32 ptx_flush_f32(f32 x)
{
	u32 bits = ptx_bits_f32(x);
	return ptx_from_bits_f32(bits & 0x7f800000 ? bits : bits & 0x80000000);
}

// Implements .sat: clamps to [0, 1]; NaN becomes +0.
static inline f32 ptx_saturate_f32(f32 x)
{
	return x > 0 ? (x < 1 ? x : 1) : 0;
}
static inline f64 ptx_saturate_f64(f64 x)
{
	return x > 0 ? (x < 1 ? x : 1) : 0;
}
