// Defines the forms of a comparison: setp and set, alone and combined with a predicate. The functions are pure: any
// thread.
#pragma once

#include "form.h"

static inline void ptx_setp(const struct ptx_alu *alu, u32 one, u32 other)
{
	if (alu->d)
		ptx_write_predicate(alu->d, one, alu->mask);
	if (alu->e)
		ptx_write_predicate(alu->e, other, alu->mask);
}

__attribute__((noinline, unused)) static void ptx_set(const struct ptx_alu *alu, u32 truth, u32 value)
{
	PTX_LANES(u32, d[i] = truth & (u32)1 << i ? value : 0;)
}
__attribute__((noinline, unused)) static void ptx_set_16(const struct ptx_alu *alu, u32 truth, u16 value)
{
	PTX_LANES(u16, d[i] = truth & (u32)1 << i ? value : 0;)
}

// Defines the function core(alu), which returns a bit for each lane in which the comparison is true. x and y are the
// lane's sources, of type A. All forms of a comparison share the function, so that each of them is small.
#define COMPARE_CORE(core, A, ...)                                           \
	__attribute__((noinline)) static u32 core(const struct ptx_alu *alu) \
	{                                                                    \
		const A *a = alu->a, *b = alu->b;                            \
		u8 truth[PTX_ALU_LANES] __attribute__((aligned(64)));        \
		PTX_EACH_LANE                                                \
		{                                                            \
			const A x = a[i], y = b[i];                          \
			truth[i] = (__VA_ARGS__);                            \
		}                                                            \
		return ptx_gather(truth);                                    \
	}

// Defines the setp forms of a comparison. `name` is its operator, modifiers and type as one identifier. `flags` is ""
// or "ftz.".
#define COMPARE_SETP(name, operator, flags, type, A, core)                          \
	SETP_ALONE(name, "setp." #operator"." flags #type, A, core)                 \
	SETP_COMBINED(and_##name, "setp." #operator".and." flags #type, A, core, &) \
	SETP_COMBINED(or_##name, "setp." #operator".or." flags #type, A, core, |)   \
	SETP_COMBINED(xor_##name, "setp." #operator".xor." flags #type, A, core, ^)

// Defines setp without a third source, such as setp.lt.s32 p|q, a, b. The result q is the negation of p.
#define SETP_ALONE(name, text, A, core)                    \
	static void setp_##name(const struct ptx_alu *alu) \
	{                                                  \
		u32 truth = core(alu);                     \
		ptx_setp(alu, truth, ~truth);              \
	}                                                  \
	PTX_ROW(text, setp_##name, 1, 1, 2, {PTX_BITS(A), PTX_BITS(A)}, 0, 0)

// Defines setp that combines both results with c, such as setp.lt.and.s32 p|q, a, b, c.
#define SETP_COMBINED(name, text, A, core, combine)                     \
	static void setp_##name(const struct ptx_alu *alu)              \
	{                                                               \
		u32 truth = core(alu), with = *(const u32 *)alu->c;     \
		ptx_setp(alu, truth combine with, ~truth combine with); \
	}                                                               \
	PTX_ROW(text, setp_##name, 1, 1, 3, {PTX_BITS(A), PTX_BITS(A), 1}, 0, 0)

// Defines the set forms, such as set.lt.u32.s32 d, a, b. The result is `value` if the comparison is true. D is u32 or
// u16, and `setter` must be for that type.
#define COMPARE_SET(name, operator, flags, result, type, D, setter, value, A, core)                    \
	static void set_##result##_##name(const struct ptx_alu *alu)                                   \
	{                                                                                              \
		setter(alu, core(alu), value);                                                         \
	}                                                                                              \
	PTX_ROW("set." #operator"." flags #result "." #type, set_##result##_##name, PTX_BITS(D), 0, 2, \
		{PTX_BITS(A), PTX_BITS(A)}, 0, 0)                                                      \
	SET_COMBINED(name, #operator".and." flags, result, type, D, setter, value, A, core, and, &)    \
	SET_COMBINED(name, #operator".or." flags, result, type, D, setter, value, A, core, or, |)      \
	SET_COMBINED(name, #operator".xor." flags, result, type, D, setter, value, A, core, xor, ^)
#define SET_COMBINED(name, text, result, type, D, setter, value, A, core, word, combine)          \
	static void set_##result##_##word##_##name(const struct ptx_alu *alu)                     \
	{                                                                                         \
		setter(alu, core(alu) combine *(const u32 *)alu->c, value);                       \
	}                                                                                         \
	PTX_ROW("set." text #result "." #type, set_##result##_##word##_##name, PTX_BITS(D), 0, 3, \
		{PTX_BITS(A), PTX_BITS(A), 1}, 0, 0)

// Defines all forms of one comparison of one type.
#define COMPARE_FORMS(name, operator, flags, type, A, core)                              \
	COMPARE_SETP(name, operator, flags, type, A, core)                               \
	COMPARE_SET(name, operator, flags, u32, type, u32, ptx_set, UINT32_MAX, A, core) \
	COMPARE_SET(name, operator, flags, s32, type, u32, ptx_set, UINT32_MAX, A, core) \
	COMPARE_SET(name, operator, flags, f32, type, u32, ptx_set, 0x3f800000, A, core)

#define COMPARISON(operator, type, A, ...)                        \
	COMPARE_CORE(compare_##operator##_##type, A, __VA_ARGS__) \
	COMPARE_FORMS(operator##_##type, operator, "", type, A, compare_##operator##_##type)
