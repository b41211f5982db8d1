// Kernels of the corpus that compute with 128-bit integers: division and remainder as nvcc compiles them, and the carry
// flags that such code uses.
#include "corpus.cuh"

#define WIDE_FUNCTION static __device__
#include "wide.h"

#ifndef __clang__ // clang 14 cannot compile this division
KERNEL(wide_division)
{
	const struct wide_operands o = wide_operands_take(in + 8 * THREAD);
	unsigned at = 0;

#define PUT(expression) ((wide *)out)[THREADS * at++ + THREAD] = (wide)(expression);
	WIDE_DIVISIONS(PUT)
#undef PUT
}
#endif

// Executes each instruction that writes the carry flag, for both old values of the flag. Then reads the flag with four
// kinds of instructions.
KERNEL(carry_flags)
{
	const word64 *edge = (const word64 *)in;
	const word64 x = edge[THREAD % n], y = edge[THREAD / n % n], z = edge[(THREAD * 7 + THREAD / n) % n];
	unsigned at = 0;

#define PUT(T, bits, text, flag)                                                                                       \
	for (unsigned f = 0; f < 2; f++) {                                                                             \
		uint4 r;                                                                                               \
		asm("{.reg .u" #bits " x, y, z, t;\n\t.reg .u32 s;\n\t"                                                \
		    "cvt.u" #bits ".u64 x, %4;\n\tcvt.u" #bits ".u64 y, %5;\n\tcvt.u" #bits ".u64 z, %6;\n\t"          \
		    "add.cc.u32 s, %7, -1;\n\t" text "\n\taddc.u32 %0, 0, 0;\n\tsubc.u32 %1, 0, 0;\n\t"                \
		    "madc.lo.u32 %2, 0, 0, 0;\n\tmadc.hi.u32 %3, 0, 0, 0;}"                                            \
		    : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)                                                       \
		    : "l"(x), "l"(y), "l"(z), "r"(f));                                                                 \
		((uint4 *)out)[THREADS * at++ + THREAD] = r;                                                           \
	}
	CARRY_FLAGS_ALL(PUT)
}
