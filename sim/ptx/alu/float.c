// Implements f32 and f64 arithmetic with every rounding mode, .ftz and .sat.
#include "float.h"

#include <immintrin.h>

enum {
	ROUND_NEAREST = _MM_ROUND_NEAREST,
	ROUND_ZERO = _MM_ROUND_TOWARD_ZERO,
	ROUND_DOWN = _MM_ROUND_DOWN,
	ROUND_UP = _MM_ROUND_UP
};

// Sets the processor's rounding mode until round_end(). The compiler must keep the arithmetic between the two calls. So
// sources are read after the barrier here, and results are written before the barrier in round_end().
static inline unsigned round_begin(unsigned mode)
{
	unsigned saved = _mm_getcsr();

	if (mode != ROUND_NEAREST)
		_mm_setcsr((saved & ~(unsigned)_MM_ROUND_MASK) | mode);
	__asm__ volatile("" ::: "memory");
	return saved;
}
static inline void round_end(unsigned saved, unsigned mode)
{
	__asm__ volatile("" ::: "memory");
	if (mode != ROUND_NEAREST)
		_mm_setcsr(saved);
}

// Defines a rounded form with `count` sources. `in` is applied to each source, `out` to the result.
#define ROUNDED(function, T, count, mode, in, out, ...)                                                  \
	static void function(const struct ptx_alu *alu)                                                  \
	{                                                                                                \
		const T *a = alu->a, *b = count > 1 ? alu->b : alu->a, *c = count > 2 ? alu->c : alu->a; \
		T *target = alu->d;                                                                      \
		T spare[PTX_ALU_LANES] __attribute__((aligned(64)));                                     \
		T *d = alu->mask == UINT32_MAX ? target : spare;                                         \
		const unsigned saved = round_begin(mode);                                                \
		__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));                               \
		PTX_EACH_LANE                                                                            \
		{                                                                                        \
			const T x = in(a[i]), y = in(b[i]), z = in(c[i]);                                \
			(void)y;                                                                         \
			(void)z;                                                                         \
			d[i] = out(__VA_ARGS__);                                                         \
		}                                                                                        \
		round_end(saved, mode);                                                                  \
		if (d != target)                                                                         \
			ptx_blend(target, d, alu->mask, sizeof(T));                                      \
	}
#define ROUNDED_ROW(text, function, T, count)          \
	PTX_ROW(text, function, PTX_BITS(T), 0, count, \
		{PTX_BITS(T), count > 1 ? PTX_BITS(T) : 0, count > 2 ? PTX_BITS(T) : 0}, 0, 0)

#define AS_IS(x) (x)
#define OUT_F32(x) ptx_canonical_f32(x)
#define OUT_F32_FTZ(x) ptx_flush_f32(ptx_canonical_f32(x))
#define OUT_F32_SAT(x) ptx_saturate_f32(x)
#define OUT_F32_FTZ_SAT(x) ptx_flush_f32(ptx_saturate_f32(x))

// Implements .ftz as an H200 does: flushes a result to 0 if it is below 2^-126 before it is rounded as a subnormal
// number. For example, (1 - 2^-24) * 2^-126 becomes 0, although it would round to 2^-126. To find this out, looks at
// `scaled`, which is the same result times 2^64. Near the limit, it is rounded as a normal number. It does not overflow
// for results that may be flushed.
static inline f32 flush_scaled(f32 rounded, f32 scaled)
{
	u32 bits = ptx_bits_f32(rounded);
	return ptx_from_bits_f32(fabsf(scaled) < 0x1p-62f ? bits & 0x80000000 : bits);
}
#define UP(x) ((x)*0x1p64f)

// Defines the forms of f32 with one rounding mode: plain, .ftz, .sat, and both. `flushed` is the expression under .ftz.
#define MODE_F32(name, word, mode, count, plain, flushed)                                       \
	ROUNDED(name##_##word##_f32, f32, count, mode, AS_IS, OUT_F32, plain)                   \
	ROUNDED(name##_##word##_ftz_f32, f32, count, mode, ptx_flush_f32, OUT_F32_FTZ, flushed) \
	ROUNDED_ROW(#name "." #word ".f32", name##_##word##_f32, f32, count)                    \
	ROUNDED_ROW(#name "." #word ".ftz.f32", name##_##word##_ftz_f32, f32, count)
#define MODE_SATURATING_F32(name, word, mode, count, plain, flushed)                                    \
	ROUNDED(name##_##word##_sat_f32, f32, count, mode, AS_IS, OUT_F32_SAT, plain)                   \
	ROUNDED(name##_##word##_ftz_sat_f32, f32, count, mode, ptx_flush_f32, OUT_F32_FTZ_SAT, flushed) \
	ROUNDED_ROW(#name "." #word ".sat.f32", name##_##word##_sat_f32, f32, count)                    \
	ROUNDED_ROW(#name "." #word ".ftz.sat.f32", name##_##word##_ftz_sat_f32, f32, count)
#define MODES_F32(name, count, ...)                           \
	MODE_F32(name, rn, ROUND_NEAREST, count, __VA_ARGS__) \
	MODE_F32(name, rz, ROUND_ZERO, count, __VA_ARGS__)    \
	MODE_F32(name, rm, ROUND_DOWN, count, __VA_ARGS__)    \
	MODE_F32(name, rp, ROUND_UP, count, __VA_ARGS__)
#define MODES_SATURATING_F32(name, count, ...)                           \
	MODES_F32(name, count, __VA_ARGS__)                              \
	MODE_SATURATING_F32(name, rn, ROUND_NEAREST, count, __VA_ARGS__) \
	MODE_SATURATING_F32(name, rz, ROUND_ZERO, count, __VA_ARGS__)    \
	MODE_SATURATING_F32(name, rm, ROUND_DOWN, count, __VA_ARGS__)    \
	MODE_SATURATING_F32(name, rp, ROUND_UP, count, __VA_ARGS__)
// Defines the forms whose names have no rounding mode. They round to nearest.
#define UNNAMED_F32(name, count)                                     \
	ROUNDED_ROW(#name ".f32", name##_rn_f32, f32, count)         \
	ROUNDED_ROW(#name ".ftz.f32", name##_rn_ftz_f32, f32, count) \
	ROUNDED_ROW(#name ".sat.f32", name##_rn_sat_f32, f32, count) \
	ROUNDED_ROW(#name ".ftz.sat.f32", name##_rn_ftz_sat_f32, f32, count)
#define ALIAS_MODE_F32(alias, name, word, count)                                     \
	ROUNDED_ROW(alias "." #word ".f32", name##_##word##_f32, f32, count)         \
	ROUNDED_ROW(alias "." #word ".ftz.f32", name##_##word##_ftz_f32, f32, count) \
	ROUNDED_ROW(alias "." #word ".sat.f32", name##_##word##_sat_f32, f32, count) \
	ROUNDED_ROW(alias "." #word ".ftz.sat.f32", name##_##word##_ftz_sat_f32, f32, count)

MODES_SATURATING_F32(add, 2, x + y, x + y)
MODES_SATURATING_F32(sub, 2, x - y, x - y)
MODES_SATURATING_F32(mul, 2, x *y, flush_scaled(x *y, UP(x) * y))
MODES_SATURATING_F32(fma, 3, fmaf(x, y, z), flush_scaled(fmaf(x, y, z), fmaf(UP(x), y, UP(z))))
MODES_F32(div, 2, x / y, flush_scaled(x / y, UP(x) / y))
MODES_F32(rcp, 1, 1 / x, flush_scaled(1 / x, 0x1p64f / x))
MODES_F32(sqrt, 1, sqrtf(x), sqrtf(x))
UNNAMED_F32(add, 2)
UNNAMED_F32(sub, 2)
UNNAMED_F32(mul, 2)
ALIAS_MODE_F32("mad", fma, rn, 3)
ALIAS_MODE_F32("mad", fma, rz, 3)
ALIAS_MODE_F32("mad", fma, rm, 3)
ALIAS_MODE_F32("mad", fma, rp, 3)
// Only PTX for sm_1x may have mad.f32 without a rounding mode. GPUs that run it today round once, to nearest.
ROUNDED_ROW("mad.f32", fma_rn_f32, f32, 3)
ROUNDED_ROW("mad.ftz.f32", fma_rn_ftz_f32, f32, 3)
ROUNDED_ROW("mad.sat.f32", fma_rn_sat_f32, f32, 3)
ROUNDED_ROW("mad.ftz.sat.f32", fma_rn_ftz_sat_f32, f32, 3)

#define MODE_F64(name, word, mode, count, out, ...)                             \
	ROUNDED(name##_##word##_f64, f64, count, mode, AS_IS, out, __VA_ARGS__) \
	ROUNDED_ROW(#name "." #word ".f64", name##_##word##_f64, f64, count)
#define MODES_F64(name, count, out, ...)                           \
	MODE_F64(name, rn, ROUND_NEAREST, count, out, __VA_ARGS__) \
	MODE_F64(name, rz, ROUND_ZERO, count, out, __VA_ARGS__)    \
	MODE_F64(name, rm, ROUND_DOWN, count, out, __VA_ARGS__)    \
	MODE_F64(name, rp, ROUND_UP, count, out, __VA_ARGS__)

// Chooses the NaN to return as an H200 does: that of the second source, else that of the third, else that of the first.
// The host's processor chooses differently. An addition counts as x * 1 + y, so the NaN of its second source comes
// first.
static inline f64 keep_payload(f64 result, f64 x, f64 y, f64 z)
{
	if (result == result)
		return result;
	return y != y ? ptx_quiet_f64(y) : z != z ? ptx_quiet_f64(z) : x != x ? ptx_quiet_f64(x) : PTX_NAN_F64;
}
MODES_F64(add, 2, AS_IS, keep_payload(x + y, x, y, y))
MODES_F64(sub, 2, AS_IS, keep_payload(x - y, x, y, y))
MODES_F64(mul, 2, AS_IS, keep_payload(x *y, x, y, y))
MODES_F64(fma, 3, AS_IS, keep_payload(fma(x, y, z), x, y, z))
MODES_F64(div, 2, AS_IS, x / y)
MODES_F64(rcp, 1, AS_IS, 1 / x)
MODES_F64(sqrt, 1, AS_IS, sqrt(x))
ROUNDED_ROW("add.f64", add_rn_f64, f64, 2)
ROUNDED_ROW("sub.f64", sub_rn_f64, f64, 2)
ROUNDED_ROW("mul.f64", mul_rn_f64, f64, 2)
ROUNDED_ROW("mad.rn.f64", fma_rn_f64, f64, 3)
ROUNDED_ROW("mad.rz.f64", fma_rz_f64, f64, 3)
ROUNDED_ROW("mad.rm.f64", fma_rm_f64, f64, 3)
ROUNDED_ROW("mad.rp.f64", fma_rp_f64, f64, 3)
