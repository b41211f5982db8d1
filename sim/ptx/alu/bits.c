// Implements the instruction forms for logic, shifts and bit fields.
#include "form.h"

#define LOGIC(bits)                                                           \
	PTX_OP2("and.b" #bits, and_b##bits, u##bits, u##bits, u##bits, x &y)  \
	PTX_OP2("or.b" #bits, or_b##bits, u##bits, u##bits, u##bits, x | y)   \
	PTX_OP2("xor.b" #bits, xor_b##bits, u##bits, u##bits, u##bits, x ^ y) \
	PTX_OP1("not.b" #bits, not_b##bits, u##bits, u##bits, ~x)             \
	PTX_OP1("cnot.b" #bits, cnot_b##bits, u##bits, u##bits, x == 0)
LOGIC(16)
LOGIC(32)
LOGIC(64)

// Defines a form that works on predicates. All lanes of a predicate are in one word.
#define PREDICATE(text, function, count, ...)                                                  \
	static void function(const struct ptx_alu *alu)                                        \
	{                                                                                      \
		const u32 x = *(const u32 *)alu->a, y = count == 2 ? *(const u32 *)alu->b : 0; \
		(void)y;                                                                       \
		ptx_write_predicate(alu->d, (__VA_ARGS__), alu->mask);                         \
	}                                                                                      \
	PTX_ROW(text ".pred", function, 1, 0, count, {1, count == 2}, 0, 0)
PREDICATE("mov", mov_pred, 1, x)
PREDICATE("not", not_pred, 1, ~x)
PREDICATE("and", and_pred, 2, x &y)
PREDICATE("or", or_pred, 2, x | y)
PREDICATE("xor", xor_pred, 2, x ^ y)

// Defines the shifts of one width. A larger shift amount counts as the width.
#define SHIFTS(bits)                                                                                  \
	PTX_OP2("shl.b" #bits, shl_b##bits, u##bits, u##bits, u32, y < bits ? (u64)x << (y & 63) : 0) \
	PTX_FUNCTION2(shr_u##bits, u##bits, u##bits, u32, y < bits ? x >> (y & (bits - 1)) : 0)       \
	PTX_OP2("shr.s" #bits, shr_s##bits, s##bits, s##bits, u32, x >> (y < bits ? y : bits - 1))    \
	PTX_ROW2("shr.u" #bits, shr_u##bits, u##bits, u##bits, u32)                                   \
	PTX_ROW2("shr.b" #bits, shr_u##bits, u##bits, u##bits, u32)
SHIFTS(16)
SHIFTS(32)
SHIFTS(64)

// Defines funnel shifts, which shift a 64-bit value with b in its upper half and a in its lower half.
#define FUNNEL(x, y) ((u64)(y) << 32 | (x))
PTX_OP3("shf.l.wrap.b32", shf_l_wrap, u32, u32, u32, u32, FUNNEL(x, y) << (z & 31) >> 32)
PTX_OP3("shf.r.wrap.b32", shf_r_wrap, u32, u32, u32, u32, FUNNEL(x, y) >> (z & 31))
PTX_OP3("shf.l.clamp.b32", shf_l_clamp, u32, u32, u32, u32, FUNNEL(x, y) << (z < 32 ? z : 32) >> 32)
PTX_OP3("shf.r.clamp.b32", shf_r_clamp, u32, u32, u32, u32, FUNNEL(x, y) >> (z < 32 ? z : 32))

#define COUNTS(bits, suffix)                                                                   \
	PTX_OP1("popc.b" #bits, popc_b##bits, u32, u##bits, __builtin_popcount##suffix(x))     \
	PTX_OP1("clz.b" #bits, clz_b##bits, u32, u##bits, x ? __builtin_clz##suffix(x) : bits) \
	/* bfind: finds the highest bit that differs from the sign bit. */                     \
	FIND(u##bits, bits, x, suffix)                                                         \
	FIND(s##bits, bits, (x < 0 ? ~x : x), suffix)
#define FIND(T, bits, value, suffix)                                                                               \
	PTX_OP1("bfind." #T, bfind_##T, u32, T, (value) ? bits - 1 - __builtin_clz##suffix((u##bits)(value)) : -1) \
	PTX_OP1("bfind.shiftamt." #T, bfind_shiftamt_##T, u32, T,                                                  \
		(value) ? __builtin_clz##suffix((u##bits)(value)) : -1)
COUNTS(32, )
COUNTS(64, ll)

static inline u32 reverse32(u32 x)
{
	x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
	x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
	x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
	return __builtin_bswap32(x);
}
PTX_OP1("brev.b32", brev_b32, u32, u32, reverse32(x))
PTX_OP1("brev.b64", brev_b64, u64, u64, (u64)reverse32((u32)x) << 32 | reverse32((u32)(x >> 32)))

// Returns `length` bits of x from bit `start` on. Beyond the highest bit of x, a signed field is filled with that bit,
// and an unsigned one with 0.
static inline u64 extract_field(u64 x, u32 start, u32 length, unsigned bits, int is_signed)
{
	start &= 0xff;
	length &= 0xff;
	if (!length)
		return 0;
	unsigned top = start + length - 1 < bits - 1 ? start + length - 1 : bits - 1;
	u64 sign = is_signed && x >> top & 1 ? UINT64_MAX : 0;
	u64 field = start < bits ? x >> start : 0;
	unsigned kept = start < bits ? (bits - start < length ? bits - start : length) : 0;
	u64 ones = kept >= 64 ? UINT64_MAX : ((u64)1 << kept) - 1;

	return (field & ones) | (sign & ~ones);
}
static inline u64 insert_field(u64 field, u64 into, u32 start, u32 length, unsigned bits)
{
	start &= 0xff;
	length &= 0xff;
	if (!length || start >= bits)
		return into;
	u64 ones = (length >= 64 ? UINT64_MAX : ((u64)1 << length) - 1) << start;
	return (into & ~ones) | (field << start & ones);
}
#define FIELDS(bits)                                                                                     \
	PTX_OP3("bfe.u" #bits, bfe_u##bits, u##bits, u##bits, u32, u32, extract_field(x, y, z, bits, 0)) \
	PTX_OP3("bfe.s" #bits, bfe_s##bits, u##bits, u##bits, u32, u32, extract_field(x, y, z, bits, 1)) \
	static void bfi_b##bits(const struct ptx_alu *alu)                                               \
	{                                                                                                \
		const u##bits *a = alu->a, *b = alu->b;                                                  \
		const u32 *c = alu->c, *f = alu->f;                                                      \
		PTX_LANES(u##bits, d[i] = (u##bits)insert_field(a[i], b[i], c[i], f[i], bits);)          \
	}                                                                                                \
	PTX_ROW("bfi.b" #bits, bfi_b##bits, bits, 0, 4, {bits, bits, 32, 32}, 0, 0)
FIELDS(32)
FIELDS(64)

static inline u32 mask_field(u32 start, u32 length) // both arguments are at most 32
{
	return start < 32 ? (u32)((((u64)1 << length) - 1) << start) : 0;
}
PTX_OP2("bmsk.clamp.b32", bmsk_clamp, u32, u32, u32, mask_field(x < 32 ? x : 32, y < 32 ? y : 32))
PTX_OP2("bmsk.wrap.b32", bmsk_wrap, u32, u32, u32, mask_field(x & 31, y & 31))

// Extends the low `width` bits by their sign. A width of 0 gives 0; a width of 32 or more changes nothing.
static inline u32 extend_sign(u32 x, u32 width)
{
	return width == 0 ? 0 : width >= 32 ? x : (u32)((s32)(x << (32 - width)) >> (32 - width));
}
static inline u32 extend_zero(u32 x, u32 width)
{
	return width >= 32 ? x : x & (((u32)1 << width) - 1);
}
PTX_OP2("szext.clamp.u32", szext_clamp_u32, u32, u32, u32, extend_zero(x, y))
PTX_OP2("szext.clamp.s32", szext_clamp_s32, u32, u32, u32, extend_sign(x, y))
PTX_OP2("szext.wrap.u32", szext_wrap_u32, u32, u32, u32, extend_zero(x, y & 31))
PTX_OP2("szext.wrap.s32", szext_wrap_s32, u32, u32, u32, extend_sign(x, y & 31))

// Returns the position of a set bit. If offset is positive, counts the set bits upwards from bit `base`; if negative,
// downwards.
static inline u32 find_nth_set(u32 word, u32 base, s32 offset)
{
	s32 step = offset < 0 ? -1 : 1;
	u32 count = offset < 0 ? 0 - (u32)offset : (u32)offset;

	if (base > 31)
		return UINT32_MAX;
	if (!offset)
		return word >> base & 1 ? base : UINT32_MAX;
	for (s32 at = (s32)base; at >= 0 && at < 32; at += step)
		if (word >> at & 1 && --count == 0)
			return (u32)at;
	return UINT32_MAX;
}
PTX_SCALAR3(fns_b32, u32, u32, u32, s32, find_nth_set(x, y, z))
PTX_ROW3("fns.b32", fns_b32, u32, u32, u32, s32)
