// Kernels of the corpus that execute single instructions on pairs of edge values, such as infinities, NaNs and the
// largest numbers. The output has THREADS words for the first instruction, then THREADS words for the next one, and so
// on.
#include "corpus.cuh"

typedef unsigned short half_word;

#define PUT(value) ((unsigned *)out)[THREADS * at++ + THREAD] = (value)
#define PUT64(value) ((word64 *)out)[THREADS * at++ + THREAD] = (value)

// Sets x, y and z to three of the n edge values. Together, the threads use every pair of x and y.
#define TAKE(T)                                                                                                        \
	const T *edge = (const T *)in;                                                                                 \
	T x = edge[THREAD % n], y = edge[THREAD / n % n], z = edge[(THREAD * 7 + THREAD / n) % n];                     \
	unsigned at = 0;                                                                                               \
	(void)z

#define F32_1(op) { float r; asm(op " %0, %1;" : "=f"(r) : "f"(x)); PUT(__float_as_uint(r)); }
#define F32_SOME(op, mask) { float r; asm(op " %0, %1;" : "=f"(r) : "f"(x)); PUT(__float_as_uint(r) & (mask)); }
#define F32_2(op) { float r; asm(op " %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y)); PUT(__float_as_uint(r)); }
#define F32_3(op) { float r; asm(op " %0, %1, %2, %3;" : "=f"(r) : "f"(x), "f"(y), "f"(z)); PUT(__float_as_uint(r)); }
#define TEST_2(op, c) { unsigned r; asm("{.reg .pred p;\n\t" op " p, %1, %2;\n\tselp.u32 %0, 1, 0, p;}" \
	: "=r"(r) : c(x), c(y)); PUT(r); }

// Executes an instruction whose result has 32 or 64 bits, and stores the result as one or two words.
#define RAW_32(text, ...) { unsigned r; asm(text : "=r"(r) : __VA_ARGS__); PUT(r); }
#define RAW_16(text, ...) { half_word r; asm(text : "=h"(r) : __VA_ARGS__); PUT(r); }
#define RAW_F32(text, ...) { float r; asm(text : "=f"(r) : __VA_ARGS__); PUT(__float_as_uint(r)); }
#define RAW_64(text, ...) { word64 r; asm(text : "=l"(r) : __VA_ARGS__); PUT(r); PUT(r >> 32); }
#define RAW_F64(text, ...)                                                                                             \
	{                                                                                                              \
		double r;                                                                                              \
		asm(text : "=d"(r) : __VA_ARGS__);                                                                     \
		PUT(__double2loint(r));                                                                                \
		PUT(__double2hiint(r));                                                                                \
	}
#define RAW_WIDE(text, ...) { word64 r; asm(text : "=l"(r) : __VA_ARGS__); PUT64(r); }
#define TO_32(op, c) { unsigned r; asm(op " %0, %1;" : "=r"(r) : c(x)); PUT(r); }
#define TO_16(op, c) { half_word r; asm(op " %0, %1;" : "=h"(r) : c(x)); PUT(r); }
#define TO_64(op, c) { word64 r; asm(op " %0, %1;" : "=l"(r) : c(x)); PUT(r); PUT(r >> 32); }
#define TO_F32(op, c) { float r; asm(op " %0, %1;" : "=f"(r) : c(x)); PUT(__float_as_uint(r)); }
#define TO_F64(op, c) { double r; asm(op " %0, %1;" : "=d"(r) : c(x)); PUT(__double2loint(r)); PUT(__double2hiint(r)); }

KERNEL(edge_f32)
{
	TAKE(float);
	F32_2("add.rn.f32") F32_2("add.rz.f32") F32_2("add.rm.f32") F32_2("add.rp.f32") F32_2("add.rn.ftz.f32")
	F32_2("add.rn.sat.f32") F32_2("sub.rn.f32") F32_2("sub.rz.ftz.f32") F32_2("sub.rn.ftz.sat.f32")
	F32_2("mul.rn.f32") F32_2("mul.rz.f32") F32_2("mul.rm.f32") F32_2("mul.rp.f32") F32_2("mul.rn.ftz.f32")
	F32_2("mul.rn.sat.f32") F32_2("mul.rp.ftz.f32") F32_3("fma.rn.f32") F32_3("fma.rz.f32") F32_3("fma.rm.f32")
	F32_3("fma.rp.f32") F32_3("fma.rn.ftz.f32") F32_3("fma.rn.sat.f32") F32_3("fma.rz.ftz.f32")
	F32_2("div.rn.f32") F32_2("div.rz.f32") F32_2("div.rm.f32") F32_2("div.rp.f32") F32_2("div.rn.ftz.f32")
	F32_1("rcp.rn.f32") F32_1("rcp.rz.f32") F32_1("rcp.rm.f32") F32_1("rcp.rp.f32") F32_1("rcp.rn.ftz.f32")
	F32_1("sqrt.rn.f32") F32_1("sqrt.rz.f32") F32_1("sqrt.rm.f32") F32_1("sqrt.rp.f32") F32_1("sqrt.rn.ftz.f32")
	F32_1("abs.f32") F32_1("neg.f32") F32_1("abs.ftz.f32") F32_1("neg.ftz.f32") F32_2("copysign.f32")
}

KERNEL(edge_order_f32)
{
	TAKE(float);
	F32_2("min.f32") F32_2("max.f32") F32_2("min.ftz.f32") F32_2("max.ftz.f32") F32_2("min.NaN.f32")
	F32_2("max.NaN.f32") F32_2("min.xorsign.abs.f32") F32_2("max.NaN.xorsign.abs.f32")
	TEST_2("setp.eq.f32", "f") TEST_2("setp.ne.f32", "f") TEST_2("setp.lt.f32", "f") TEST_2("setp.ge.f32", "f")
	TEST_2("setp.equ.f32", "f") TEST_2("setp.neu.f32", "f") TEST_2("setp.leu.f32", "f") TEST_2("setp.gtu.f32", "f")
	TEST_2("setp.num.f32", "f") TEST_2("setp.nan.f32", "f") TEST_2("setp.lt.ftz.f32", "f")
	TEST_2("setp.equ.ftz.f32", "f")
	F32_1("cvt.rni.f32.f32") F32_1("cvt.rzi.f32.f32") F32_1("cvt.rmi.f32.f32") F32_1("cvt.rpi.f32.f32")
	F32_1("cvt.rmi.ftz.f32.f32") F32_1("cvt.sat.f32.f32") F32_1("cvt.rni.sat.f32.f32")
	TO_32("cvt.rna.tf32.f32", "f")
}

#define F64_1(op) { double r; asm(op " %0, %1;" : "=d"(r) : "d"(x)); PUT64(__double_as_longlong(r)); }
#define F64_2(op) { double r; asm(op " %0, %1, %2;" : "=d"(r) : "d"(x), "d"(y)); PUT64(__double_as_longlong(r)); }
#define F64_3(op) { double r; asm(op " %0, %1, %2, %3;" : "=d"(r) : "d"(x), "d"(y), "d"(z)); \
	PUT64(__double_as_longlong(r)); }

KERNEL(edge_f64)
{
	TAKE(double);
	F64_2("add.rn.f64") F64_2("add.rz.f64") F64_2("add.rm.f64") F64_2("add.rp.f64") F64_2("sub.rn.f64")
	F64_2("mul.rn.f64") F64_2("mul.rz.f64") F64_2("mul.rm.f64") F64_2("mul.rp.f64")
	F64_3("fma.rn.f64") F64_3("fma.rz.f64") F64_3("fma.rm.f64") F64_3("fma.rp.f64")
	F64_2("div.rn.f64") F64_2("div.rz.f64") F64_2("div.rm.f64") F64_2("div.rp.f64")
	F64_1("rcp.rn.f64") F64_1("rcp.rp.f64") F64_1("sqrt.rn.f64") F64_1("sqrt.rm.f64")
	F64_2("min.f64") F64_2("max.f64") F64_1("abs.f64") F64_1("neg.f64")
	F64_1("cvt.rni.f64.f64") F64_1("cvt.rmi.f64.f64") F64_1("cvt.sat.f64.f64") F64_2("copysign.f64")
#define TEST_F64(op) RAW_WIDE("{.reg .pred p;\n\t" op " p, %1, %2;\n\tselp.u64 %0, 1, 0, p;}", "d"(x), "d"(y))
	TEST_F64("setp.lt.f64") TEST_F64("setp.neu.f64") TEST_F64("setp.geu.f64")
}

#define H_1(op) { half_word r; asm(op " %0, %1;" : "=h"(r) : "h"(x)); PUT(r); }
#define H_2(op) { half_word r; asm(op " %0, %1, %2;" : "=h"(r) : "h"(x), "h"(y)); PUT(r); }
#define H_3(op) { half_word r; asm(op " %0, %1, %2, %3;" : "=h"(r) : "h"(x), "h"(y), "h"(z)); PUT(r); }
#define H2_2(op) { unsigned r; asm(op " %0, %1, %2;" : "=r"(r) : "r"(x | y << 16), "r"(y | z << 16)); PUT(r); }
#define H2_3(op) { unsigned r; asm(op " %0, %1, %2, %3;" : "=r"(r) : "r"(x | y << 16), "r"(y | z << 16), \
	"r"(z | x << 16)); PUT(r); }

KERNEL(edge_f16)
{
	TAKE(half_word);
	H_2("add.rn.f16") H_2("sub.rn.f16") H_2("mul.rn.f16") H_3("fma.rn.f16") H_2("add.rn.sat.f16")
	H_2("mul.rn.ftz.f16") H_2("add.rn.ftz.f16") H_3("fma.rn.sat.f16") H_3("fma.rn.relu.f16") H_3("fma.rn.ftz.f16")
	H_2("min.f16") H_2("max.f16") H_2("min.NaN.f16") H_2("max.ftz.f16") H_2("max.xorsign.abs.f16") H_1("abs.f16")
	H_1("neg.f16") H2_2("add.rn.f16x2") H2_3("fma.rn.relu.f16x2") H2_2("max.NaN.f16x2") H2_2("set.ltu.f16x2.f16x2")
	H2_2("set.eq.u32.f16x2") TEST_2("setp.lt.f16", "h") TEST_2("setp.neu.f16", "h")
	H_1("cvt.rni.f16.f16") H_1("cvt.rpi.f16.f16")
}

KERNEL(edge_bf16)
{
	TAKE(half_word);
	H_3("fma.rn.bf16") H_3("fma.rn.relu.bf16") H_2("add.rn.bf16") H_2("sub.rn.bf16") H_2("mul.rn.bf16")
	H_2("min.bf16") H_2("max.NaN.bf16") H_1("abs.bf16") H_1("neg.bf16") H2_3("fma.rn.bf16x2")
	H2_2("mul.rn.bf16x2") TEST_2("setp.lt.bf16", "h") TEST_2("setp.geu.bf16", "h")
	H2_2("set.le.bf16x2.bf16x2") H2_2("min.xorsign.abs.bf16x2")
}

#define TO_INTEGERS(type, c)                                                                                           \
	TO_32("cvt.rzi.s32." type, c) TO_32("cvt.rni.u32." type, c) TO_64("cvt.rmi.s64." type, c)                      \
	TO_64("cvt.rpi.u64." type, c) TO_16("cvt.rzi.s16." type, c) TO_16("cvt.rni.u16." type, c)

KERNEL(edge_convert_f32)
{
	TAKE(float);
	(void)y;
	TO_INTEGERS("f32", "f")
	TO_32("cvt.rzi.u32.f32", "f") TO_32("cvt.rpi.s32.f32", "f") TO_32("cvt.rpi.ftz.s32.f32", "f")
	TO_64("cvt.rzi.s64.f32", "f") TO_32("cvt.rzi.s8.f32", "f") TO_32("cvt.rni.u8.f32", "f")
	TO_16("cvt.rn.f16.f32", "f") TO_16("cvt.rz.f16.f32", "f") TO_16("cvt.rm.f16.f32", "f")
	TO_16("cvt.rp.f16.f32", "f")
	TO_16("cvt.rn.bf16.f32", "f") TO_16("cvt.rz.bf16.f32", "f") TO_16("cvt.rn.sat.f16.f32", "f")
	TO_16("cvt.rn.relu.f16.f32", "f")
	TO_16("cvt.rn.relu.bf16.f32", "f") TO_F64("cvt.f64.f32", "f") TO_F64("cvt.ftz.f64.f32", "f")
	RAW_16("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;", "f"(x), "f"(y))
	RAW_16("cvt.rn.satfinite.relu.e5m2x2.f32 %0, %1, %2;", "f"(x), "f"(y))
	RAW_32("cvt.rn.f16x2.f32 %0, %1, %2;", "f"(x), "f"(y))
	RAW_32("cvt.rz.relu.bf16x2.f32 %0, %1, %2;", "f"(x), "f"(y))
}

KERNEL(edge_convert_f64)
{
	TAKE(double);
	(void)y;
	TO_INTEGERS("f64", "d")
	TO_64("cvt.rzi.s64.f64", "d") TO_64("cvt.rni.u64.f64", "d")
	TO_F32("cvt.rn.f32.f64", "d") TO_F32("cvt.rz.f32.f64", "d") TO_F32("cvt.rm.f32.f64", "d")
	TO_F32("cvt.rp.f32.f64", "d") TO_F32("cvt.rn.ftz.f32.f64", "d") TO_F32("cvt.rn.sat.f32.f64", "d")
	TO_16("cvt.rn.f16.f64", "d") TO_16("cvt.rn.bf16.f64", "d")
}

KERNEL(edge_convert_half)
{
	TAKE(half_word);
	(void)y;
	TO_INTEGERS("f16", "h")
	TO_F32("cvt.f32.f16", "h") TO_F64("cvt.f64.f16", "h") TO_F32("cvt.f32.bf16", "h")
	TO_32("cvt.rn.f16x2.e4m3x2", "h") TO_32("cvt.rn.f16x2.e5m2x2", "h") TO_32("cvt.rzi.s32.bf16", "h")
	TO_32("cvt.sat.f32.f16", "h")
	RAW_16("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;", "r"(x | y << 16))
}

KERNEL(edge_convert_integer)
{
	TAKE(word64);
	(void)y;
	unsigned w = (unsigned)x;
	half_word h = (half_word)x;
	TO_F32("cvt.rn.f32.u64", "l") TO_F32("cvt.rz.f32.s64", "l") TO_F32("cvt.rp.f32.u64", "l")
	TO_F64("cvt.rn.f64.s64", "l")
	TO_F64("cvt.rm.f64.u64", "l") TO_F64("cvt.rp.f64.s64", "l") TO_16("cvt.rn.f16.s64", "l")
	TO_16("cvt.rn.bf16.u64", "l")
	TO_32("cvt.sat.s32.s64", "l") TO_32("cvt.sat.u32.s64", "l") TO_32("cvt.u32.u64", "l")
	TO_16("cvt.sat.s16.u64", "l")
	RAW_F32("cvt.rn.f32.s32 %0, %1;", "r"(w))
	RAW_F32("cvt.rm.f32.u32 %0, %1;", "r"(w))
	RAW_32("cvt.sat.u8.s32 %0, %1;", "r"(w))
	RAW_32("cvt.sat.s8.s32 %0, %1;", "r"(w))
	RAW_32("cvt.s32.s8 %0, %1;", "r"(w))
	RAW_32("cvt.u32.u16 %0, %1;", "h"(h))
	RAW_16("cvt.rn.f16.s16 %0, %1;", "h"(h))
	RAW_16("cvt.rz.f16.u32 %0, %1;", "r"(w))
	RAW_32("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;", "r"(w), "r"((unsigned)y), "r"((unsigned)z))
	RAW_32("cvt.pack.sat.s16.s32 %0, %1, %2;", "r"(w), "r"((unsigned)y))
}

#define I_1(op) { unsigned r; asm(op " %0, %1;" : "=r"(r) : "r"(x)); PUT(r); }
#define I_2(op) { unsigned r; asm(op " %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y)); PUT(r); }
#define I_3(op) { unsigned r; asm(op " %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(z)); PUT(r); }

// Integers are never divided by zero here, because the results are unspecified.
KERNEL(edge_integer)
{
	TAKE(unsigned);
	I_2("add.sat.s32") I_2("sub.sat.s32") I_2("mul.hi.u32") I_2("mul.hi.s32") I_3("mad.hi.sat.s32")
	I_2("mul24.hi.u32")
	I_2("mul24.lo.s32") I_3("mad24.hi.s32") I_3("mad24.hi.sat.s32") I_2("min.s32") I_2("max.u32") I_1("abs.s32")
	I_1("neg.s32") I_3("sad.u32") I_3("sad.s32") I_2("min.s16x2") I_2("max.u16x2") I_2("max.relu.s16x2")
	I_2("max.relu.s32") I_2("shl.b32") I_2("shr.u32") I_2("shr.s32") I_1("cnot.b32") I_1("bfind.s32")
	I_1("bfind.shiftamt.u32") I_3("bfe.u32") I_3("bfe.s32") I_3("shf.l.clamp.b32") I_3("shf.r.clamp.b32")
	I_2("bmsk.clamp.b32") I_2("bmsk.wrap.b32") I_2("szext.clamp.s32") I_2("szext.wrap.u32")
	I_3("prmt.b32") I_3("prmt.b32.f4e") I_3("prmt.b32.b4e") I_3("prmt.b32.rc8") I_3("prmt.b32.ecl")
	I_3("prmt.b32.ecr") I_3("prmt.b32.rc16") I_3("dp4a.u32.s32") I_3("dp2a.lo.s32.u32") I_3("dp2a.hi.s32.s32")
	I_3("slct.u32.s32") I_3("vabsdiff4.u32.s32.u32.add") I_3("vavrg2.s32.s32.s32") I_3("vadd4.u32.u32.s32.sat")
	I_3("vset4.u32.s32.lt") I_2("vadd.s32.u32.s32.sat")
	unsigned safe = y ? y : 3;
	RAW_32("div.s32 %0, %1, %2;", "r"(x), "r"(safe))
	RAW_32("rem.s32 %0, %1, %2;", "r"(x), "r"(safe))
	RAW_32("rem.u32 %0, %1, %2;", "r"(x), "r"(safe))
	RAW_32("lop3.b32 %0, %1, %2, %3, 0x6d;", "r"(x), "r"(y), "r"(z))
}

// Passes NaNs of every kind to every kind of instruction. The results are few, so they are recorded as words instead of
// digests.
KERNEL(edge_nan)
{
	unsigned i = THREAD, at = 0;
	unsigned nan_32[4] = {0x7f800001, 0xffc12345, 0x7fffffff, 0xff800000};
	word64 nan_64[4] = {0x7ff0000000000001, 0xfff8000012345678, 0x7fffffffffffffff, 0xfff0000000000000};
	float x = __uint_as_float(nan_32[i]);
	double d = __longlong_as_double(nan_64[i]), one = 1 + step;
	half_word h = nan_32[i] >> 16 | (i == 0);
	F32_1("neg.f32") F32_1("abs.f32") F32_1("cvt.sat.f32.f32") F32_1("rcp.rn.f32") F32_1("sqrt.rn.f32")
	TO_F64("cvt.f64.f32", "f") TO_32("cvt.rzi.u32.f32", "f") TO_64("cvt.rzi.s64.f32", "f")
	{ half_word x = h; H_1("neg.f16") H_1("abs.f16") H_1("neg.bf16") TO_F32("cvt.f32.bf16", "h")
	TO_F32("cvt.f32.f16", "h") }
	{ double x = d, y = one;
	  TO_F32("cvt.rn.f32.f64", "d") TO_32("cvt.rzi.s32.f64", "d") TO_64("cvt.rzi.u64.f64", "d")
	TO_F64("neg.f64", "d")
	  RAW_F64("add.rn.f64 %0, %1, %2;", "d"(x), "d"(y))
	  RAW_F64("mul.rn.f64 %0, %2, %1;", "d"(x), "d"(y))
	  RAW_F64("fma.rn.f64 %0, %1, %2, %2;", "d"(x), "d"(y))
	  RAW_F64("sub.rn.f64 %0, %1, %1;", "d"(x))
	  RAW_F64("div.rn.f64 %0, %1, %1;", "d"(x))
	  RAW_F64("sqrt.rn.f64 %0, %1;", "d"(x))
	  RAW_F64("min.f64 %0, %1, %2;", "d"(x), "d"(y))
	}
}

// Executes instructions whose results the PTX manual does not define: division by zero, and special values of the
// approximate functions. It does not define either which of several NaNs is returned, and whether a result near the
// smallest normal number is flushed to zero.
// The assembler may swap the sources of a commutative instruction. It never puts a constant first in a product. In max,
// it puts the value first that was defined earlier. The code below already has that order, so that the record shows
// only the choices of the hardware.
KERNEL(edge_choices)
{
	unsigned i = THREAD, at = 0;
	unsigned tiny_32[4] = {0x3f7fffff, 0xbf7fffff, 0x3f7ffffe, 0x3f800001};
	word64 nan_64[4] = {0x7ff8000000000111, 0xfff0000000000222, 0x3ff0000000000000, 0x7ff0000000000000};
	unsigned special_32[4] = {0, 0x80000001, 0x7f800000, 0xbf800000};
	float x, y, z;
	x = __uint_as_float(tiny_32[i]), y = __uint_as_float(0x00800000 + step), z = __uint_as_float(0x80000001 + step);
	F32_2("mul.rn.ftz.f32") F32_2("mul.rz.ftz.f32") F32_2("mul.rp.ftz.f32") F32_3("fma.rn.ftz.f32")
	F32_3("fma.rp.ftz.f32")
	RAW_F32("div.rn.ftz.f32 %0, %1, %2;", "f"(y), "f"(x))
	RAW_F32("div.rn.ftz.f32 %0, %1, %2;", "f"(y), "f"(x * 2))
	double p = __longlong_as_double(nan_64[i]), q = __longlong_as_double(nan_64[i ^ 1]);
	double s = __longlong_as_double(nan_64[1]);
	RAW_F64("add.rn.f64 %0, %1, %2;", "d"(p), "d"(q)) RAW_F64("mul.rn.f64 %0, %1, %2;", "d"(p), "d"(q))
	RAW_F64("sub.rn.f64 %0, %1, %2;", "d"(p), "d"(q)) RAW_F64("div.rn.f64 %0, %1, %2;", "d"(p), "d"(q))
	RAW_F64("fma.rn.f64 %0, %1, %2, %3;", "d"(p), "d"(q), "d"(s))
	RAW_F64("fma.rn.f64 %0, %1, %3, %2;", "d"(p), "d"(q), "d"(s))
	RAW_F64("fma.rn.f64 %0, %2, %3, %1;", "d"(p), "d"(q), "d"(s))
	RAW_F64("abs.f64 %0, %1;", "d"(q)) RAW_F64("min.f64 %0, %1, %2;", "d"(p), "d"(q))
	RAW_F64("max.f64 %0, %1, %2;", "d"(p), "d"(q))
	RAW_F64("copysign.f64 %0, %1, %2;", "d"(p), "d"(s)) RAW_F64("cvt.sat.f64.f64 %0, %1;", "d"(p))
	RAW_F64("cvt.rni.f64.f64 %0, %1;", "d"(q)) RAW_F64("rcp.rn.f64 %0, %1;", "d"(q))
	RAW_F64("rsqrt.approx.f64 %0, %1;", "d"(q))
	x = __uint_as_float(special_32[i]), y = x;
	// The results for the first three values are compared exactly. For the last one, -1, sin, cos and tanh are only
	// approximate, and functions_approximate compares them with a tolerance.
	unsigned exact = i < 3 ? 0xffffffff : 0;
	F32_1("rcp.approx.f32") F32_1("rcp.approx.ftz.f32") F32_1("rsqrt.approx.f32") F32_1("rsqrt.approx.ftz.f32")
	F32_1("sqrt.approx.f32") F32_1("sqrt.approx.ftz.f32") F32_SOME("sin.approx.f32", exact)
	F32_SOME("cos.approx.f32", exact) F32_1("ex2.approx.f32") F32_1("lg2.approx.f32") F32_1("lg2.approx.ftz.f32")
	F32_SOME("tanh.approx.f32", exact)
	F32_2("div.approx.f32") F32_2("div.full.f32")
	RAW_F64("rcp.approx.ftz.f64 %0, %1;", "d"((double)x)) RAW_F64("rsqrt.approx.ftz.f64 %0, %1;", "d"((double)x))
	unsigned zero = step, large = special_32[i];
	unsigned short small = large >> 16;
	word64 wide = (word64)large << 32 | 5, none = step;
#define DIVIDE(text, c, a, b) { unsigned r; asm(text " %0, %1, %2;" : "=r"(r) : c(a), c(b)); PUT(r); }
	DIVIDE("div.u32", "r", large, zero) DIVIDE("div.s32", "r", large, zero) DIVIDE("rem.u32", "r", large, zero)
	DIVIDE("rem.s32", "r", large, zero)
	RAW_64("div.u64 %0, %1, %2;", "l"(wide), "l"(none))
	RAW_64("rem.s64 %0, %1, %2;", "l"(wide), "l"(none))
	RAW_64("div.s64 %0, %1, %2;", "l"(wide), "l"(none))
	RAW_16("div.u16 %0, %1, %2;", "h"(small), "h"((half_word)zero))
	RAW_16("rem.s16 %0, %1, %2;", "h"(small), "h"((half_word)zero))
	RAW_16("div.s16 %0, %1, %2;", "h"(small), "h"((half_word)zero))
	RAW_32("vadd4.s32.s32.s32.add %0, %1, %2, %3;", "r"(0x7f80ff40), "r"(0x7f80ff50), "r"(i))
	RAW_32("vsub2.u32.u32.u32.add %0, %1, %2, %3;", "r"(0x00010005), "r"(0x00050001), "r"(i))
	RAW_32("fns.b32 %0, %1, %2, %3;", "r"(0x80000001), "r"(31), "r"((int)i - 2))
	half_word h = 0x7e01 + (i << 15);
	{ half_word x = h; TO_F64("cvt.f64.bf16", "h") TO_16("cvt.rn.f16.bf16", "h") TO_16("cvt.rn.bf16.f16", "h")
	TO_32("cvt.rzi.s32.bf16", "h") }
}

// Executes further instructions whose results the PTX manual does not define. These are fma with NaNs as the first and
// third source, and instructions that write only the high word of a NaN. Other results are near the smallest normal
// number: sums whose terms cancel, quotients that are rounded up, sines and cosines.
KERNEL(edge_open)
{
	unsigned i = THREAD, at = 0;
	word64 nan_64[4] = {0x7ff8000000000111, 0xfff0000000000222, 0x3ff0000000000000, 0xbff0000000000000};
	double p = __longlong_as_double(nan_64[i] + step), q = __longlong_as_double(nan_64[i ^ 1] + step);
	// The assembler makes the constant the second source. So the NaNs p and q are the third and the first one.
	RAW_F64("fma.rn.f64 %0, %1, %2, %3;", "d"(q), "d"(2.0), "d"(p))
	RAW_F64("rcp.approx.ftz.f64 %0, %1;", "d"(p)) RAW_F64("rsqrt.approx.ftz.f64 %0, %1;", "d"(p))
	RAW_F64("rsqrt.approx.f64 %0, %1;", "d"(p))
	unsigned angle_32[4] = {0x00000010, 0x007fffff, 0x00800000, 0x80c00000};
	unsigned addend_32[4] = {0x00800000, 0x00800001, 0x80800000, 0x80800001};
	float x = __uint_as_float(0x80800000 ^ i >> 1 << 31), y = __uint_as_float(0x00800000 + step);
	float z = __uint_as_float(addend_32[i]);
	F32_3("fma.rn.ftz.f32") F32_3("fma.rp.ftz.f32")
	x = y, y = __uint_as_float(0x3f800000 + i);
	F32_2("div.rp.ftz.f32") F32_2("div.rn.ftz.f32")
	x = __uint_as_float(angle_32[i]);
	F32_1("sin.approx.f32") F32_1("cos.approx.f32")
}
