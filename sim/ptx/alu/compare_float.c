// Implements setp, set and testp for f32 and f64.
#include "compare.h"
#include "float.h"

// Calls the macro COMPARE for each comparison of floats. If x or y is NaN, comparisons such as lt are false, and those
// with a u at the end, such as ltu, are true.
#define FLOAT_COMPARISONS(COMPARE)      \
	COMPARE(eq, x == y)             \
	COMPARE(ne, x<y || x> y)        \
	COMPARE(lt, x < y)              \
	COMPARE(le, x <= y)             \
	COMPARE(gt, x > y)              \
	COMPARE(ge, x >= y)             \
	COMPARE(equ, !(x < y || x > y)) \
	COMPARE(neu, !(x == y))         \
	COMPARE(ltu, !(x >= y))         \
	COMPARE(leu, !(x > y))          \
	COMPARE(gtu, !(x <= y))         \
	COMPARE(geu, !(x < y))          \
	COMPARE(num, x == x && y == y)  \
	COMPARE(nan, x != x || y != y)

#define COMPARE_F32(operator, ...) COMPARISON(operator, f32, f32, __VA_ARGS__)
#define COMPARE_F64(operator, ...) COMPARISON(operator, f64, f64, __VA_ARGS__)
FLOAT_COMPARISONS(COMPARE_F32)
FLOAT_COMPARISONS(COMPARE_F64)

#define COMPARE_FTZ(operator, ...)                                                               \
	__attribute__((noinline)) static u32 compare_##operator##_ftz(const struct ptx_alu *alu) \
	{                                                                                        \
		const f32 *a = alu->a, *b = alu->b;                                              \
		u8 truth[PTX_ALU_LANES] __attribute__((aligned(64)));                            \
		PTX_EACH_LANE                                                                    \
		{                                                                                \
			const f32 x = ptx_flush_f32(a[i]), y = ptx_flush_f32(b[i]);              \
			truth[i] = (__VA_ARGS__);                                                \
		}                                                                                \
		return ptx_gather(truth);                                                        \
	}                                                                                        \
	COMPARE_FORMS(operator##_ftz_f32, operator, "ftz.", f32, f32, compare_##operator##_ftz)
FLOAT_COMPARISONS(COMPARE_FTZ)

#define TEST_PROPERTY(name, T, B, condition)                               \
	static void testp_##name##_##T(const struct ptx_alu *alu)          \
	{                                                                  \
		const B *a = alu->a;                                       \
		u8 truth[PTX_ALU_LANES] __attribute__((aligned(64)));      \
		PTX_EACH_LANE                                              \
		{                                                          \
			const B x = a[i] & ~PTX_SIGN(B);                   \
			truth[i] = (condition);                            \
		}                                                          \
		ptx_write_predicate(alu->d, ptx_gather(truth), alu->mask); \
	}                                                                  \
	PTX_ROW("testp." #name "." #T, testp_##name##_##T, 1, 0, 1, {PTX_BITS(B)}, 0, 0)
// Defines testp for one type. infinity: the bits of infinity. least: the bits of the smallest normal number.
#define PROPERTIES(T, B, infinity, least)                           \
	TEST_PROPERTY(finite, T, B, x < (infinity))                 \
	TEST_PROPERTY(infinite, T, B, x == (infinity))              \
	TEST_PROPERTY(number, T, B, x <= (infinity))                \
	TEST_PROPERTY(notanumber, T, B, x > (infinity))             \
	TEST_PROPERTY(normal, T, B, x >= (least) && x < (infinity)) \
	TEST_PROPERTY(subnormal, T, B, x != 0 && x < (least))
PROPERTIES(f32, u32, 0x7f800000u, 0x00800000u)
PROPERTIES(f64, u64, 0x7ff0000000000000u, 0x0010000000000000u)
