// Dot products of bytes, and the video instructions: one, two or four integers in a word.
#include "form.h"

// The signed or unsigned integer of `bits` at `index`.
static inline s32 part(u32 word, unsigned bits, unsigned index, int is_signed)
{
	u32 raised = word << (32 - bits - bits * index);
	return is_signed ? (s32)raised >> (32 - bits) : (s32)(raised >> (32 - bits));
}

#define DOT(a_type, a_signed, b_type, b_signed)                                                                        \
	DOT_FORM("dp4a." #a_type "." #b_type, dp4a_##a_type##_##b_type, 8, 4, 0, a_signed, b_signed)                   \
	DOT_FORM("dp2a.lo." #a_type "." #b_type, dp2a_lo_##a_type##_##b_type, 16, 2, 0, a_signed, b_signed)            \
	DOT_FORM("dp2a.hi." #a_type "." #b_type, dp2a_hi_##a_type##_##b_type, 16, 2, 2, a_signed, b_signed)
#define DOT_FORM(text, function, bits, count, first, a_signed, b_signed)                                               \
	static inline u32 function##_lane(u32 x, u32 y, u32 z)                                                         \
	{                                                                                                              \
		for (unsigned k = 0; k < count; k++)                                                                   \
			z += (u32)part(x, bits, k, a_signed) * (u32)part(y, 8, first + k, b_signed);                   \
		return z;                                                                                              \
	}                                                                                                              \
	PTX_OP3(text, function, u32, u32, u32, u32, function##_lane(x, y, z))
DOT(u32, 0, u32, 0)
DOT(u32, 0, s32, 1)
DOT(s32, 1, u32, 0)
DOT(s32, 1, s32, 1)

enum operation { ADD, SUB, AVERAGE, DIFFERENCE, LEAST, GREATEST };

static inline s64 operate(enum operation operation, s64 x, s64 y)
{
	switch (operation) {
	case ADD:
		return x + y;
	case SUB:
		return x - y;
	case AVERAGE: // rounded away from zero
		return (x + y + (x + y >= 0)) >> 1;
	case DIFFERENCE:
		return x > y ? x - y : y - x;
	case LEAST:
		return x < y ? x : y;
	default:
		return x > y ? x : y;
	}
}

static inline s64 clamp(s64 x, unsigned bits, int is_signed)
{
	s64 highest = ((s64)1 << (is_signed ? bits - 1 : bits)) - 1, lowest = is_signed ? -highest - 1 : 0;
	return x < lowest ? lowest : x > highest ? highest : x;
}

struct video {
	enum operation operation;
	unsigned bits; // of each part
	int d_signed, a_signed, b_signed, saturate;
};

static inline s64 video_part(struct video how, u32 x, u32 y, unsigned k)
{
	return operate(how.operation, part(x, how.bits, k, how.a_signed), part(y, how.bits, k, how.b_signed));
}
static inline u32 video_parts(struct video how, u32 x, u32 y)
{
	u32 result = 0;

	for (unsigned k = 0; k < 32 / how.bits; k++) {
		s64 one = video_part(how, x, y, k);
		if (how.saturate)
			one = clamp(one, how.bits, how.d_signed);
		result |= ((u32)one & (UINT32_MAX >> (32 - how.bits))) << (k * how.bits);
	}
	return result;
}
// The results are added as they are, not cut to their width first.
static inline u32 video_sum(struct video how, u32 x, u32 y, u32 sum)
{
	for (unsigned k = 0; k < 32 / how.bits; k++)
		sum += (u32)video_part(how, x, y, k);
	return sum;
}

// Every mix of signs: the result's, a's and b's types.
#define EVERY_SIGN(DO, ...)                                                                                            \
	DO(u32, 0, u32, 0, u32, 0, __VA_ARGS__)                                                                        \
	DO(u32, 0, u32, 0, s32, 1, __VA_ARGS__)                                                                        \
	DO(u32, 0, s32, 1, u32, 0, __VA_ARGS__)                                                                        \
	DO(u32, 0, s32, 1, s32, 1, __VA_ARGS__)                                                                        \
	DO(s32, 1, u32, 0, u32, 0, __VA_ARGS__)                                                                        \
	DO(s32, 1, u32, 0, s32, 1, __VA_ARGS__)                                                                        \
	DO(s32, 1, s32, 1, u32, 0, __VA_ARGS__)                                                                        \
	DO(s32, 1, s32, 1, s32, 1, __VA_ARGS__)

#define PARTS(D, ds, A, as, B, bs, name, bits, operation)                                                              \
	PTX_OP3(#name "." #D "." #A "." #B, name##_##D##_##A##_##B, u32, u32, u32, u32,                                \
		((void)z, video_parts((struct video){operation, bits, ds, as, bs, 0}, x, y)))                          \
	PTX_OP3(#name "." #D "." #A "." #B ".sat", name##_sat_##D##_##A##_##B, u32, u32, u32, u32,                     \
		((void)z, video_parts((struct video){operation, bits, ds, as, bs, 1}, x, y)))                          \
	PTX_OP3(#name "." #D "." #A "." #B ".add", name##_add_##D##_##A##_##B, u32, u32, u32, u32,                     \
		video_sum((struct video){operation, bits, ds, as, bs, 0}, x, y, z))
#define EVERY_PART(name, operation)                                                                                    \
	EVERY_SIGN(PARTS, name##2, 16, operation)                                                                      \
	EVERY_SIGN(PARTS, name##4, 8, operation)
EVERY_PART(vadd, ADD)
EVERY_PART(vsub, SUB)
EVERY_PART(vavrg, AVERAGE)
EVERY_PART(vabsdiff, DIFFERENCE)
EVERY_PART(vmin, LEAST)
EVERY_PART(vmax, GREATEST)

// A whole word, then perhaps a second operation with c.
static inline u32 video_word(struct video how, u32 x, u32 y)
{
	s64 one = operate(how.operation, how.a_signed ? (s64)(s32)x : (s64)x, how.b_signed ? (s64)(s32)y : (s64)y);
	return (u32)(how.saturate ? clamp(one, 32, how.d_signed) : one);
}
#define LESSER(D, x, y) ((D)(x) < (D)(y) ? (x) : (y))
#define LARGER(D, x, y) ((D)(x) > (D)(y) ? (x) : (y))
#define WORD(D, ds, A, as, B, bs, name, operation)                                                                     \
	WORD_FORMS(#name "." #D "." #A "." #B, name##_##D##_##A##_##B, D,                                              \
		   ((struct video){operation, 32, ds, as, bs, 0}))                                                     \
	WORD_FORMS(#name "." #D "." #A "." #B ".sat", name##_sat_##D##_##A##_##B, D,                                   \
		   ((struct video){operation, 32, ds, as, bs, 1}))
#define WORD_FORMS(text, function, D, how)                                                                             \
	PTX_OP2(text, function, u32, u32, u32, video_word(how, x, y))                                                  \
	PTX_OP3(text ".add", function##_add, u32, u32, u32, u32, video_word(how, x, y) + z)                            \
	PTX_OP3(text ".min", function##_min, u32, u32, u32, u32, LESSER(D, video_word(how, x, y), z))                  \
	PTX_OP3(text ".max", function##_max, u32, u32, u32, u32, LARGER(D, video_word(how, x, y), z))
EVERY_SIGN(WORD, vadd, ADD)
EVERY_SIGN(WORD, vsub, SUB)
EVERY_SIGN(WORD, vabsdiff, DIFFERENCE)
EVERY_SIGN(WORD, vmin, LEAST)
EVERY_SIGN(WORD, vmax, GREATEST)

// vset2, vset4: 1 in each part where the comparison holds.
#define SET_PARTS(name, bits, A, as, B, bs, word, operator)                                                            \
	static inline u32 name##_##word##_##A##_##B(u32 x, u32 y)                                                      \
	{                                                                                                              \
		u32 result = 0;                                                                                        \
		for (unsigned k = 0; k < 32 / bits; k++)                                                               \
			result |= (u32)(part(x, bits, k, as) operator part(y, bits, k, bs)) << (k * bits);             \
		return result;                                                                                         \
	}                                                                                                              \
	PTX_OP3(#name "." #A "." #B "." #word, form_##name##_##word##_##A##_##B, u32, u32, u32, u32,                   \
		((void)z, name##_##word##_##A##_##B(x, y)))                                                            \
	PTX_OP3(#name "." #A "." #B "." #word ".add", form_add_##name##_##word##_##A##_##B, u32, u32, u32, u32,        \
		(u32)__builtin_popcount(name##_##word##_##A##_##B(x, y)) + z)
#define SET_SIGNS(name, bits, word, operator)                                                                          \
	SET_PARTS(name, bits, u32, 0, u32, 0, word, operator)                                                          \
	SET_PARTS(name, bits, u32, 0, s32, 1, word, operator)                                                          \
	SET_PARTS(name, bits, s32, 1, u32, 0, word, operator)                                                          \
	SET_PARTS(name, bits, s32, 1, s32, 1, word, operator)
#define SET_OPERATORS(name, bits)                                                                                      \
	SET_SIGNS(name, bits, eq, ==)                                                                                  \
	SET_SIGNS(name, bits, ne, !=)                                                                                  \
	SET_SIGNS(name, bits, lt, <)                                                                                   \
	SET_SIGNS(name, bits, le, <=)                                                                                  \
	SET_SIGNS(name, bits, gt, >)                                                                                   \
	SET_SIGNS(name, bits, ge, >=)
SET_OPERATORS(vset2, 16)
SET_OPERATORS(vset4, 8)
