// Implements integer arithmetic without the carry flag.
#include "form.h"

// Defines forms whose signed and unsigned results have the same bits. U is the unsigned type in which they are
// computed. It wraps, and is so wide that no promotion to int can overflow.
#define WRAPPING(bits, U)                                                           \
	PTX_FUNCTION2(add_b##bits, u##bits, u##bits, u##bits, (U)x + y)             \
	PTX_FUNCTION2(sub_b##bits, u##bits, u##bits, u##bits, (U)x - y)             \
	PTX_FUNCTION2(mul_b##bits, u##bits, u##bits, u##bits, (U)x *y)              \
	PTX_FUNCTION3(mad_b##bits, u##bits, u##bits, u##bits, u##bits, (U)x *y + z) \
	PTX_FUNCTION1(mov_b##bits, u##bits, u##bits, x)                             \
	WRAPPING_ROWS(u##bits, bits)                                                \
	WRAPPING_ROWS(s##bits, bits)
#define WRAPPING_ROWS(T, bits)                          \
	PTX_ROW2("add." #T, add_b##bits, T, T, T)       \
	PTX_ROW2("sub." #T, sub_b##bits, T, T, T)       \
	PTX_ROW2("mul.lo." #T, mul_b##bits, T, T, T)    \
	PTX_ROW3("mad.lo." #T, mad_b##bits, T, T, T, T) \
	PTX_ROW1("mov." #T, mov_b##bits, T, T)

WRAPPING(16, u32)
WRAPPING(32, u32)
WRAPPING(64, u64)
PTX_ROW1("mov.b16", mov_b16, u16, u16)
PTX_ROW1("mov.b32", mov_b32, u32, u32)
PTX_ROW1("mov.b64", mov_b64, u64, u64)
PTX_ROW1("mov.f32", mov_b32, u32, u32)
PTX_ROW1("mov.f64", mov_b64, u64, u64)

// Defines forms that differ between signed and unsigned types. T is the type, U its unsigned type, and W the type of
// twice the width.
#define SIGNED_OR_NOT(T, U, W)                                                                  \
	PTX_OP2("mul.hi." #T, mul_hi_##T, T, T, T, (W)((W)x * y) >> PTX_BITS(T))                \
	PTX_OP3("mad.hi." #T, mad_hi_##T, T, T, T, T, (U)((W)((W)x * y) >> PTX_BITS(T)) + (U)z) \
	PTX_OP2("min." #T, min_##T, T, T, T, x < y ? x : y)                                     \
	PTX_OP2("max." #T, max_##T, T, T, T, x > y ? x : y)                                     \
	PTX_OP3("sad." #T, sad_##T, T, T, T, T, (U)z + (x > y ? (U)((U)x - (U)y) : (U)((U)y - (U)x)))
SIGNED_OR_NOT(u16, u16, u32)
SIGNED_OR_NOT(s16, u16, s32)
SIGNED_OR_NOT(u32, u32, u64)
SIGNED_OR_NOT(s32, u32, s64)
SIGNED_OR_NOT(u64, u64, u128)
SIGNED_OR_NOT(s64, u64, s128)

// Defines mul.wide and mad.wide. W is the type of the product, and UW the type in which the sum wraps.
#define WIDE(T, W, UW)                                          \
	PTX_OP2("mul.wide." #T, mul_wide_##T, W, T, T, (W)x *y) \
	PTX_OP3("mad.wide." #T, mad_wide_##T, W, T, T, W, (UW)((W)x * y) + (UW)z)
WIDE(u16, u32, u32)
WIDE(s16, s32, u32)
WIDE(u32, u64, u64)
WIDE(s32, s64, u64)

#define ONLY_SIGNED(T, U)                                                                         \
	PTX_OP1("abs." #T, abs_##T, T, T, x < 0 ? (U)(0 - (U)x) : (U)x)                           \
	PTX_OP1("neg." #T, neg_##T, T, T, (U)(0 - (U)x))                                          \
	PTX_OP2("max.relu." #T, max_relu_##T, T, T, T, x > y ? (x > 0 ? x : 0) : (y > 0 ? y : 0)) \
	PTX_OP2("min.relu." #T, min_relu_##T, T, T, T, x < y ? (x > 0 ? x : 0) : (y > 0 ? y : 0))
ONLY_SIGNED(s16, u16)
ONLY_SIGNED(s32, u32)
ONLY_SIGNED(s64, u64)
// nvcc writes .relu after the type.
PTX_ROW2("max.s32.relu", max_relu_s32, s32, s32, s32)
PTX_ROW2("min.s32.relu", min_relu_s32, s32, s32, s32)

// Divides as a GPU does. A quotient or remainder by zero is all ones, and the most negative number divided by -1 wraps.
static inline u64 divide_u(u64 x, u64 y, u64 ones)
{
	return y ? x / y : ones;
}
static inline u64 remainder_u(u64 x, u64 y, u64 ones)
{
	return y ? x % y : ones;
}
static inline s64 divide_s(s64 x, s64 y)
{
	return !y ? -1 : y == -1 ? (s64)(0 - (u64)x) : x / y;
}
static inline s64 remainder_s(s64 x, s64 y)
{
	return !y ? -1 : y == -1 ? 0 : x % y;
}

#define DIVISION(bits)                                                                     \
	PTX_SCALAR2(div_u##bits, u##bits, u##bits, u##bits, divide_u(x, y, UINT64_MAX))    \
	PTX_SCALAR2(rem_u##bits, u##bits, u##bits, u##bits, remainder_u(x, y, UINT64_MAX)) \
	PTX_SCALAR2(div_s##bits, s##bits, s##bits, s##bits, divide_s(x, y))                \
	PTX_SCALAR2(rem_s##bits, s##bits, s##bits, s##bits, remainder_s(x, y))             \
	PTX_ROW2("div.u" #bits, div_u##bits, u##bits, u##bits, u##bits)                    \
	PTX_ROW2("rem.u" #bits, rem_u##bits, u##bits, u##bits, u##bits)                    \
	PTX_ROW2("div.s" #bits, div_s##bits, s##bits, s##bits, s##bits)                    \
	PTX_ROW2("rem.s" #bits, rem_s##bits, s##bits, s##bits, s##bits)
DIVISION(16)
DIVISION(32)
DIVISION(64)

static inline s32 saturate_s32(s64 x)
{
	return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (s32)x;
}

PTX_OP2("add.sat.s32", add_sat_s32, s32, s32, s32, saturate_s32((s64)x + y))
PTX_OP2("sub.sat.s32", sub_sat_s32, s32, s32, s32, saturate_s32((s64)x - y))
PTX_OP3("mad.hi.sat.s32", mad_hi_sat_s32, s32, s32, s32, s32, saturate_s32(((s64)x * y >> 32) + z))

// Multiplies the low 24 bits of both factors. The .hi forms return bits 47 to 16 of the product.
static inline s64 product24_s32(s32 x, s32 y)
{
	return (s64)((s32)((u32)x << 8) >> 8) * ((s32)((u32)y << 8) >> 8);
}
static inline u64 product24_u32(u32 x, u32 y)
{
	return (u64)(x & 0xffffff) * (y & 0xffffff);
}

#define FACTORS24(T)                                                                         \
	PTX_OP2("mul24.lo." #T, mul24_lo_##T, T, T, T, product24_##T(x, y))                  \
	PTX_OP2("mul24.hi." #T, mul24_hi_##T, T, T, T, product24_##T(x, y) >> 16)            \
	PTX_OP3("mad24.lo." #T, mad24_lo_##T, T, T, T, T, (u32)product24_##T(x, y) + (u32)z) \
	PTX_OP3("mad24.hi." #T, mad24_hi_##T, T, T, T, T, (u32)(product24_##T(x, y) >> 16) + (u32)z)
FACTORS24(u32)
FACTORS24(s32)
PTX_OP3("mad24.hi.sat.s32", mad24_hi_sat_s32, s32, s32, s32, s32,
	saturate_s32((s64)(s32)(product24_s32(x, y) >> 16) + z))

// Packs two 16-bit integers into a word.
#define PAIR(T, low, high) ((u32)(u16)(T)(low) | (u32)(u16)(T)(high) << 16)
#define PAIRED(T)                                                               \
	static inline u32 min_pair_##T(u32 x, u32 y)                            \
	{                                                                       \
		T x0 = (T)x, x1 = (T)(x >> 16), y0 = (T)y, y1 = (T)(y >> 16);   \
		return PAIR(T, x0 < y0 ? x0 : y0, x1 < y1 ? x1 : y1);           \
	}                                                                       \
	static inline u32 max_pair_##T(u32 x, u32 y)                            \
	{                                                                       \
		T x0 = (T)x, x1 = (T)(x >> 16), y0 = (T)y, y1 = (T)(y >> 16);   \
		return PAIR(T, x0 > y0 ? x0 : y0, x1 > y1 ? x1 : y1);           \
	}                                                                       \
	PTX_OP2("min." #T "x2", min_##T##x2, u32, u32, u32, min_pair_##T(x, y)) \
	PTX_OP2("max." #T "x2", max_##T##x2, u32, u32, u32, max_pair_##T(x, y)) \
	PTX_OP2("add." #T "x2", add_##T##x2, u32, u32, u32, ((x + y) & 0xffff) | ((x & 0xffff0000) + (y & 0xffff0000)))
PAIRED(u16)
PAIRED(s16)
PTX_OP2("min.relu.s16x2", min_relu_s16x2, u32, u32, u32, max_pair_s16(min_pair_s16(x, y), 0))
PTX_OP2("max.relu.s16x2", max_relu_s16x2, u32, u32, u32, max_pair_s16(max_pair_s16(x, y), 0))
PTX_ROW2("max.s16x2.relu", max_relu_s16x2, u32, u32, u32)
PTX_ROW2("min.s16x2.relu", min_relu_s16x2, u32, u32, u32)
