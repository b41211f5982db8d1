// setp and set on f16, bf16 and pairs of them.
#include "compare.h"
#include "half.h"

#define EVERY_OPERATOR(DO, ...)                                                                                        \
	DO(eq, x == y, __VA_ARGS__)                                                                                    \
	DO(ne, x < y || x > y, __VA_ARGS__)                                                                            \
	DO(lt, x < y, __VA_ARGS__)                                                                                     \
	DO(le, x <= y, __VA_ARGS__)                                                                                    \
	DO(gt, x > y, __VA_ARGS__)                                                                                     \
	DO(ge, x >= y, __VA_ARGS__)                                                                                    \
	DO(equ, !(x < y || x > y), __VA_ARGS__)                                                                        \
	DO(neu, !(x == y), __VA_ARGS__)                                                                                \
	DO(ltu, !(x >= y), __VA_ARGS__)                                                                                \
	DO(leu, !(x > y), __VA_ARGS__)                                                                                 \
	DO(gtu, !(x <= y), __VA_ARGS__)                                                                                \
	DO(geu, !(x < y), __VA_ARGS__)                                                                                 \
	DO(num, x == x && y == y, __VA_ARGS__)                                                                         \
	DO(nan, x != x || y != y, __VA_ARGS__)

// The truth of one half of each lane: shift is 0 or 16, A the register's type.
#define CORE(core, A, shift, type, in, condition)                                                                      \
	__attribute__((noinline)) static u32 core(const struct ptx_alu *alu)                                           \
	{                                                                                                              \
		const A *a = alu->a, *b = alu->b;                                                                      \
		u8 truth[PTX_ALU_LANES] __attribute__((aligned(64)));                                                  \
		PTX_EACH_LANE                                                                                          \
		{                                                                                                      \
			const f32 x = ptx_##type##_value(in((u16)(a[i] >> shift)));                                    \
			const f32 y = ptx_##type##_value(in((u16)(b[i] >> shift)));                                    \
			truth[i] = (condition);                                                                        \
		}                                                                                                      \
		return ptx_gather(truth);                                                                              \
	}

// one: the code of 1.0.
#define COMPARE_HALF(operator, condition, name, type, flags, in, one)                                                  \
	CORE(compare_##operator##_##name, u16, 0, type, in, condition)                                                 \
	COMPARE_FORMS(operator##_##name, operator, flags, type, u16, compare_##operator##_##name)                      \
	COMPARE_SET(operator##_##name, operator, flags, u16, type, u16, ptx_set_16, UINT16_MAX, u16,                   \
		    compare_##operator##_##name)                                                                       \
	COMPARE_SET(operator##_##name, operator, flags, s16, type, u16, ptx_set_16, UINT16_MAX, u16,                   \
		    compare_##operator##_##name)                                                                       \
	COMPARE_SET(operator##_##name, operator, flags, type, type, u16, ptx_set_16, one, u16,                         \
		    compare_##operator##_##name)                                                                       \
	COMPARE_PAIR(operator, condition, name, type, flags, in, one)

// setp.lt.f16x2 p|q: p is of the low halves, q of the high ones.
#define COMPARE_PAIR(operator, condition, name, type, flags, in, one)                                                  \
	CORE(compare_high_##operator##_##name, u32, 16, type, in, condition)                                           \
	CORE(compare_low_##operator##_##name, u32, 0, type, in, condition)                                             \
	static void setp_pair_##operator##_##name(const struct ptx_alu *alu)                                           \
	{                                                                                                              \
		u32 low = compare_low_##operator##_##name(alu), high = compare_high_##operator##_##name(alu);          \
		ptx_setp(alu, low, high);                                                                              \
	}                                                                                                              \
	PTX_ROW("setp." #operator"." flags #type "x2", setp_pair_##operator##_##name, 1, 1, 2, {32, 32}, 0, 0)         \
	PAIR_COMBINED(and_##operator##_##name, "setp." #operator".and." flags #type "x2", operator##_##name, &)        \
	PAIR_COMBINED(or_##operator##_##name, "setp." #operator".or." flags #type "x2", operator##_##name, |)          \
	PAIR_COMBINED(xor_##operator##_##name, "setp." #operator".xor." flags #type "x2", operator##_##name, ^)        \
	PAIR_SET(set_pair_##operator##_##name, "set." #operator"." flags #type "x2." #type "x2", operator##_##name,    \
		 one)                                                                                                  \
	PAIR_SET(mask_pair_##operator##_##name, "set." #operator"." flags "u32." #type "x2", operator##_##name,        \
		 0xffff)                                                                                               \
	PTX_ROW("set." #operator"." flags "s32." #type "x2", mask_pair_##operator##_##name, 32, 0, 2, {32, 32}, 0, 0)

#define PAIR_COMBINED(name, text, core, combine)                                                                       \
	static void setp_pair_##name(const struct ptx_alu *alu)                                                        \
	{                                                                                                              \
		u32 low = compare_low_##core(alu), high = compare_high_##core(alu), with = *(const u32 *)alu->c;       \
		ptx_setp(alu, low combine with, high combine with);                                                    \
	}                                                                                                              \
	PTX_ROW(text, setp_pair_##name, 1, 1, 3, {32, 32, 1}, 0, 0)

#define PAIR_SET(name, text, core, value)                                                                              \
	static void name(const struct ptx_alu *alu)                                                                    \
	{                                                                                                              \
		u32 low = compare_low_##core(alu), high = compare_high_##core(alu);                                    \
		PTX_LANES(u32, d[i] = (low & (u32)1 << i ? value : 0u) | (high & (u32)1 << i ? (u32)value << 16 : 0);) \
	}                                                                                                              \
	PTX_ROW(text, name, 32, 0, 2, {32, 32}, 0, 0)

EVERY_OPERATOR(COMPARE_HALF, f16, f16, "", ptx_keep_16, 0x3c00)
EVERY_OPERATOR(COMPARE_HALF, ftz_f16, f16, "ftz.", ptx_flush_f16, 0x3c00)
EVERY_OPERATOR(COMPARE_HALF, bf16, bf16, "", ptx_keep_16, 0x3f80)
