// Implements setp and set for f16, bf16 and pairs of them.
#include "compare.h"
#include "half.h"

// Defines the comparisons. Each is computed from the lanes where x < y, x == y and x > y. In a lane with none of these,
// x or y is NaN.
#define EVERY_OPERATOR(DO, ...)                                        \
	DO(eq, order.equal, __VA_ARGS__)                               \
	DO(ne, order.less | order.greater, __VA_ARGS__)                \
	DO(lt, order.less, __VA_ARGS__)                                \
	DO(le, order.less | order.equal, __VA_ARGS__)                  \
	DO(gt, order.greater, __VA_ARGS__)                             \
	DO(ge, order.greater | order.equal, __VA_ARGS__)               \
	DO(equ, ~(order.less | order.greater), __VA_ARGS__)            \
	DO(neu, ~order.equal, __VA_ARGS__)                             \
	DO(ltu, ~(order.greater | order.equal), __VA_ARGS__)           \
	DO(leu, ~order.greater, __VA_ARGS__)                           \
	DO(gtu, ~(order.less | order.equal), __VA_ARGS__)              \
	DO(geu, ~order.less, __VA_ARGS__)                              \
	DO(num, order.less | order.equal | order.greater, __VA_ARGS__) \
	DO(nan, ~(order.less | order.equal | order.greater), __VA_ARGS__)

struct order {
	u32 less, equal, greater; // a bit for each lane
};

// Defines a function that finds in which lanes x < y, x == y and x > y. It compares the half of A at bit `shift`, 0 or
// 16.
#define ORDER(name, A, shift, type, in)                                                          \
	__attribute__((noinline)) static struct order name(const struct ptx_alu *alu)            \
	{                                                                                        \
		const A *a = alu->a, *b = alu->b;                                                \
		u8 less[PTX_ALU_LANES] __attribute__((aligned(64)));                             \
		u8 equal[PTX_ALU_LANES] __attribute__((aligned(64)));                            \
		u8 greater[PTX_ALU_LANES] __attribute__((aligned(64)));                          \
		PTX_EACH_LANE                                                                    \
		{                                                                                \
			const f32 x = ptx_##type##_value(in((u16)(a[i] >> shift)));              \
			const f32 y = ptx_##type##_value(in((u16)(b[i] >> shift)));              \
			less[i] = x < y;                                                         \
			equal[i] = x == y;                                                       \
			greater[i] = x > y;                                                      \
		}                                                                                \
		return (struct order){ptx_gather(less), ptx_gather(equal), ptx_gather(greater)}; \
	}
#define ORDERS(name, type, in)                    \
	ORDER(order_##name, u16, 0, type, in)     \
	ORDER(order_low_##name, u32, 0, type, in) \
	ORDER(order_high_##name, u32, 16, type, in)
ORDERS(f16, f16, ptx_keep_16)
ORDERS(ftz_f16, f16, ptx_flush_f16)
ORDERS(bf16, bf16, ptx_keep_16)

// Defines a function that returns the lanes in which a comparison is true.
#define CORE(core, lanes, condition)                                         \
	__attribute__((noinline)) static u32 core(const struct ptx_alu *alu) \
	{                                                                    \
		struct order order = lanes(alu);                             \
		return condition;                                            \
	}

// Defines setp and set for single halves. one: the bits of 1.0.
#define COMPARE_HALF(operator, condition, name, type, flags, one)                                    \
	CORE(compare_##operator##_##name, order_##name, condition)                                   \
	COMPARE_FORMS(operator##_##name, operator, flags, type, u16, compare_##operator##_##name)    \
	COMPARE_SET(operator##_##name, operator, flags, u16, type, u16, ptx_set_16, UINT16_MAX, u16, \
		    compare_##operator##_##name)                                                     \
	COMPARE_SET(operator##_##name, operator, flags, s16, type, u16, ptx_set_16, UINT16_MAX, u16, \
		    compare_##operator##_##name)                                                     \
	COMPARE_SET(operator##_##name, operator, flags, type, type, u16, ptx_set_16, one, u16,       \
		    compare_##operator##_##name)                                                     \
	COMPARE_PAIR(operator, condition, name, type, flags, one)

// Defines setp and set for pairs. In setp.lt.f16x2 p|q, p compares the low halves and q the high halves.
#define COMPARE_PAIR(operator, condition, name, type, flags, one)                                                   \
	CORE(compare_high_##operator##_##name, order_high_##name, condition)                                        \
	CORE(compare_low_##operator##_##name, order_low_##name, condition)                                          \
	static void setp_pair_##operator##_##name(const struct ptx_alu *alu)                                        \
	{                                                                                                           \
		u32 low = compare_low_##operator##_##name(alu), high = compare_high_##operator##_##name(alu);       \
		ptx_setp(alu, low, high);                                                                           \
	}                                                                                                           \
	PTX_ROW("setp." #operator"." flags #type "x2", setp_pair_##operator##_##name, 1, 1, 2, {32, 32}, 0, 0)      \
	PAIR_COMBINED(and_##operator##_##name, "setp." #operator".and." flags #type "x2", operator##_##name, &)     \
	PAIR_COMBINED(or_##operator##_##name, "setp." #operator".or." flags #type "x2", operator##_##name, |)       \
	PAIR_COMBINED(xor_##operator##_##name, "setp." #operator".xor." flags #type "x2", operator##_##name, ^)     \
	PAIR_SET(set_pair_##operator##_##name, "set." #operator"." flags #type "x2." #type "x2", operator##_##name, \
		 one)                                                                                               \
	PAIR_SET(mask_pair_##operator##_##name, "set." #operator"." flags "u32." #type "x2", operator##_##name,     \
		 0xffff)                                                                                            \
	PTX_ROW("set." #operator"." flags "s32." #type "x2", mask_pair_##operator##_##name, 32, 0, 2, {32, 32}, 0, 0)

#define PAIR_COMBINED(name, text, core, combine)                                                                 \
	static void setp_pair_##name(const struct ptx_alu *alu)                                                  \
	{                                                                                                        \
		u32 low = compare_low_##core(alu), high = compare_high_##core(alu), with = *(const u32 *)alu->c; \
		ptx_setp(alu, low combine with, high combine with);                                              \
	}                                                                                                        \
	PTX_ROW(text, setp_pair_##name, 1, 1, 3, {32, 32, 1}, 0, 0)

#define PAIR_SET(name, text, core, value)                                                                              \
	static void name(const struct ptx_alu *alu)                                                                    \
	{                                                                                                              \
		u32 low = compare_low_##core(alu), high = compare_high_##core(alu);                                    \
		PTX_LANES(u32, d[i] = (low & (u32)1 << i ? value : 0u) | (high & (u32)1 << i ? (u32)value << 16 : 0);) \
	}                                                                                                              \
	PTX_ROW(text, name, 32, 0, 2, {32, 32}, 0, 0)

EVERY_OPERATOR(COMPARE_HALF, f16, f16, "", 0x3c00)
EVERY_OPERATOR(COMPARE_HALF, ftz_f16, f16, "ftz.", 0x3c00)
EVERY_OPERATOR(COMPARE_HALF, bf16, bf16, "", 0x3f80)
