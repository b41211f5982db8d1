// Implements dot products of bytes, and the video instructions on one, two or four integers in a word.
#include "form.h"

// Returns the signed or unsigned integer of `bits` at `index`.
static inline s64 extract_part(u32 word, unsigned bits, unsigned index, int is_signed)
{
	u32 raised = word << (32 - bits - bits * index);
	return is_signed ? (s32)raised >> (32 - bits) : (s64)(raised >> (32 - bits));
}

#define DOT(a_type, a_signed, b_type, b_signed)                                                             \
	DOT_FORM("dp4a." #a_type "." #b_type, dp4a_##a_type##_##b_type, 8, 4, 0, a_signed, b_signed)        \
	DOT_FORM("dp2a.lo." #a_type "." #b_type, dp2a_lo_##a_type##_##b_type, 16, 2, 0, a_signed, b_signed) \
	DOT_FORM("dp2a.hi." #a_type "." #b_type, dp2a_hi_##a_type##_##b_type, 16, 2, 2, a_signed, b_signed)
#define DOT_FORM(text, function, bits, count, first, a_signed, b_signed)                                             \
	static inline u32 function##_lane(u32 x, u32 y, u32 z)                                                       \
	{                                                                                                            \
		for (unsigned k = 0; k < count; k++)                                                                 \
			z += (u32)extract_part(x, bits, k, a_signed) * (u32)extract_part(y, 8, first + k, b_signed); \
		return z;                                                                                            \
	}                                                                                                            \
	PTX_OP3(text, function, u32, u32, u32, u32, function##_lane(x, y, z))
DOT(u32, 0, u32, 0)
DOT(u32, 0, s32, 1)
DOT(s32, 1, u32, 0)
DOT(s32, 1, s32, 1)

enum operation { ADD, SUB, AVERAGE, DIFFERENCE, LEAST, GREATEST, EQ, NE, LT, LE, GT, GE };
enum second { ALONE, PLUS_C, LEAST_C, GREATEST_C }; // how the result is combined with c; ALONE: not at all

struct video {
	u8 operation, second;
	u8 bits; // bits of each integer in the word
	u8 d_signed, a_signed, b_signed, saturate;
};

static inline s64 operate(enum operation operation, s64 x, s64 y)
{
	switch (operation) {
	case ADD:
		return x + y;
	case SUB:
		return x - y;
	case AVERAGE:
		return (x + y + (x + y >= 0)) >> 1; // rounded away from zero
	case DIFFERENCE:
		return x > y ? x - y : y - x;
	case LEAST:
		return x < y ? x : y;
	case GREATEST:
		return x > y ? x : y;
	case EQ:
		return x == y;
	case NE:
		return x != y;
	case LT:
		return x < y;
	case LE:
		return x <= y;
	case GT:
		return x > y;
	default:
		return x >= y;
	}
}

static inline s64 clamp(s64 x, unsigned bits, int is_signed)
{
	s64 highest = ((s64)1 << (is_signed ? bits - 1 : bits)) - 1, lowest = is_signed ? -highest - 1 : 0;
	return x < lowest ? lowest : x > highest ? highest : x;
}

static inline u32 video_lane(struct video how, u32 x, u32 y, u32 z)
{
	u32 result = 0, sum = z;

	for (unsigned k = 0; k < 32u / how.bits; k++) {
		s64 a = extract_part(x, how.bits, k, how.a_signed), b = extract_part(y, how.bits, k, how.b_signed);
		s64 one = operate(how.operation, a, b);
		if (how.saturate)
			one = clamp(one, how.bits, how.d_signed);
		result |= ((u32)one & (UINT32_MAX >> (32 - how.bits))) << (k * how.bits);
		sum += (u32)one; // unlike in `result`, the number is not truncated to the width of a part
	}
	if (how.second == ALONE || how.second == PLUS_C)
		return how.second == ALONE ? result : sum;
	return (how.d_signed ? (s32)result < (s32)z : result < z) == (how.second == LEAST_C) ? result : z;
}

// Computes any video instruction. A loop for each instruction would take seconds to compile, and programs seldom use
// them.
__attribute__((noinline)) static void video(const struct ptx_alu *alu, struct video how)
{
	const u32 *a = alu->a, *b = alu->b, *c = alu->c ? alu->c : alu->a;

	PTX_LANES(u32, d[i] = video_lane(how, a[i], b[i], c[i]);)
}
#define VIDEO(text, sources, ...) VIDEO_NAMED(PTX_JOIN(video_, __COUNTER__), text, sources, __VA_ARGS__)
#define VIDEO_NAMED(function, text, sources, ...)        \
	static void function(const struct ptx_alu *alu)  \
	{                                                \
		video(alu, (struct video){__VA_ARGS__}); \
	}                                                \
	PTX_ROW(text, function, 32, 0, sources, {32, 32, sources == 3 ? 32 : 0}, 0, 0)

// Calls DO with every combination of signed and unsigned types of the result, a and b.
#define EVERY_SIGN(DO, ...)                     \
	DO(u32, 0, u32, 0, u32, 0, __VA_ARGS__) \
	DO(u32, 0, u32, 0, s32, 1, __VA_ARGS__) \
	DO(u32, 0, s32, 1, u32, 0, __VA_ARGS__) \
	DO(u32, 0, s32, 1, s32, 1, __VA_ARGS__) \
	DO(s32, 1, u32, 0, u32, 0, __VA_ARGS__) \
	DO(s32, 1, u32, 0, s32, 1, __VA_ARGS__) \
	DO(s32, 1, s32, 1, u32, 0, __VA_ARGS__) \
	DO(s32, 1, s32, 1, s32, 1, __VA_ARGS__)

#define PARTS(D, ds, A, as, B, bs, name, bits, operation)                                  \
	VIDEO(#name "." #D "." #A "." #B, 3, operation, ALONE, bits, ds, as, bs, 0)        \
	VIDEO(#name "." #D "." #A "." #B ".sat", 3, operation, ALONE, bits, ds, as, bs, 1) \
	VIDEO(#name "." #D "." #A "." #B ".add", 3, operation, PLUS_C, bits, ds, as, bs, 0)
#define EVERY_PART(name, operation)               \
	EVERY_SIGN(PARTS, name##2, 16, operation) \
	EVERY_SIGN(PARTS, name##4, 8, operation)
EVERY_PART(vadd, ADD)
EVERY_PART(vsub, SUB)
EVERY_PART(vavrg, AVERAGE)
EVERY_PART(vabsdiff, DIFFERENCE)
EVERY_PART(vmin, LEAST)
EVERY_PART(vmax, GREATEST)

// Defines the operations on whole words. Each has a form with two operands, and forms that combine the result with a
// third operand, c.
#define WORD(D, ds, A, as, B, bs, name, operation)                       \
	WORD_FORMS(#name "." #D "." #A "." #B, operation, ds, as, bs, 0) \
	WORD_FORMS(#name "." #D "." #A "." #B ".sat", operation, ds, as, bs, 1)
#define WORD_FORMS(text, operation, ds, as, bs, saturate)                   \
	VIDEO(text, 2, operation, ALONE, 32, ds, as, bs, saturate)          \
	VIDEO(text ".add", 3, operation, PLUS_C, 32, ds, as, bs, saturate)  \
	VIDEO(text ".min", 3, operation, LEAST_C, 32, ds, as, bs, saturate) \
	VIDEO(text ".max", 3, operation, GREATEST_C, 32, ds, as, bs, saturate)
EVERY_SIGN(WORD, vadd, ADD)
EVERY_SIGN(WORD, vsub, SUB)
EVERY_SIGN(WORD, vabsdiff, DIFFERENCE)
EVERY_SIGN(WORD, vmin, LEAST)
EVERY_SIGN(WORD, vmax, GREATEST)

// Defines vset2 or vset4. Each part of the result is 1 if the comparison of the parts is true.
#define SET_PARTS(name, bits, A, as, B, bs, word, operation)                          \
	VIDEO(#name "." #A "." #B "." #word, 3, operation, ALONE, bits, 0, as, bs, 0) \
	VIDEO(#name "." #A "." #B "." #word ".add", 3, operation, PLUS_C, bits, 0, as, bs, 0)
#define SET_SIGNS(name, bits, word, operation)                 \
	SET_PARTS(name, bits, u32, 0, u32, 0, word, operation) \
	SET_PARTS(name, bits, u32, 0, s32, 1, word, operation) \
	SET_PARTS(name, bits, s32, 1, u32, 0, word, operation) \
	SET_PARTS(name, bits, s32, 1, s32, 1, word, operation)
#define SET_OPERATORS(name, bits)     \
	SET_SIGNS(name, bits, eq, EQ) \
	SET_SIGNS(name, bits, ne, NE) \
	SET_SIGNS(name, bits, lt, LT) \
	SET_SIGNS(name, bits, le, LE) \
	SET_SIGNS(name, bits, gt, GT) \
	SET_SIGNS(name, bits, ge, GE)
SET_OPERATORS(vset2, 16)
SET_OPERATORS(vset4, 8)
