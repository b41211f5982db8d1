// Functions on integers and on the bits of floating-point numbers; address conversions; __threadfence() and traps.
#pragma once
#include "language.h"

#define MIN_MAX(type)                            \
	DEVICE_FUNCTION type min(type a, type b) \
	{                                        \
		return b < a ? b : a;            \
	}                                        \
	DEVICE_FUNCTION type max(type a, type b) \
	{                                        \
		return a < b ? b : a;            \
	}
MIN_MAX(int)
MIN_MAX(unsigned int)
MIN_MAX(long)
MIN_MAX(unsigned long)
MIN_MAX(long long)
MIN_MAX(unsigned long long)
#undef MIN_MAX
DEVICE_FUNCTION unsigned int min(unsigned int a, int b)
{
	return min(a, (unsigned int)b);
}
DEVICE_FUNCTION unsigned int max(unsigned int a, int b)
{
	return max(a, (unsigned int)b);
}
DEVICE_FUNCTION unsigned int min(int a, unsigned int b)
{
	return min((unsigned int)a, b);
}
DEVICE_FUNCTION unsigned int max(int a, unsigned int b)
{
	return max((unsigned int)a, b);
}

DEVICE_FUNCTION int __popc(unsigned int x)
{
	return __builtin_popcount(x);
}
DEVICE_FUNCTION int __popcll(unsigned long long x)
{
	return __builtin_popcountll(x);
}
DEVICE_FUNCTION int __clz(int x)
{
	return x ? __builtin_clz((unsigned int)x) : 32;
}
DEVICE_FUNCTION int __clzll(long long x)
{
	return x ? __builtin_clzll((unsigned long long)x) : 64;
}
DEVICE_FUNCTION int __ffs(int x)
{
	return __builtin_ffs(x);
}
DEVICE_FUNCTION int __ffsll(long long x)
{
	return __builtin_ffsll(x);
}
DEVICE_FUNCTION unsigned int __brev(unsigned int x)
{
	return __builtin_bitreverse32(x);
}
DEVICE_FUNCTION unsigned long long __brevll(unsigned long long x)
{
	return __builtin_bitreverse64(x);
}

DEVICE_FUNCTION unsigned int __byte_perm(unsigned int low, unsigned int high, unsigned int selector)
{
	return __nvvm_prmt(low, high, selector);
}

DEVICE_FUNCTION unsigned int __funnelshift_l(unsigned int low, unsigned int high, unsigned int shift)
{
	return (unsigned int)((((unsigned long long)high << 32 | low) << (shift & 31)) >> 32);
}

DEVICE_FUNCTION unsigned int __funnelshift_r(unsigned int low, unsigned int high, unsigned int shift)
{
	return (unsigned int)(((unsigned long long)high << 32 | low) >> (shift & 31));
}

DEVICE_FUNCTION int __mulhi(int a, int b)
{
	return __nvvm_mulhi_i(a, b);
}
DEVICE_FUNCTION unsigned int __umulhi(unsigned int a, unsigned int b)
{
	return __nvvm_mulhi_ui(a, b);
}
DEVICE_FUNCTION long long __mul64hi(long long a, long long b)
{
	return __nvvm_mulhi_ll(a, b);
}
DEVICE_FUNCTION unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
	return __nvvm_mulhi_ull(a, b);
}

// Defines functions that return c plus four products of bytes, or c plus two products of a half-word and a byte.
#define DOT_PRODUCT(name, instruction, type, a_type, b_type)                                                       \
	DEVICE_FUNCTION type name(a_type a, b_type b, type c)                                                      \
	{                                                                                                          \
		type sum;                                                                                          \
		asm(instruction " %0, %1, %2, %3;"                                                                 \
		    : "=r"(sum)                                                                                    \
		    : "r"(__builtin_bit_cast(unsigned int, a)), "r"(__builtin_bit_cast(unsigned int, b)), "r"(c)); \
		return sum;                                                                                        \
	}
DOT_PRODUCT(__dp4a, "dp4a.s32.s32", int, int, int)
DOT_PRODUCT(__dp4a, "dp4a.s32.s32", int, char4, char4)
DOT_PRODUCT(__dp4a, "dp4a.u32.u32", unsigned int, unsigned int, unsigned int)
DOT_PRODUCT(__dp4a, "dp4a.u32.u32", unsigned int, uchar4, uchar4)
DOT_PRODUCT(__dp2a_lo, "dp2a.lo.s32.s32", int, int, int)
DOT_PRODUCT(__dp2a_lo, "dp2a.lo.s32.s32", int, short2, char4)
DOT_PRODUCT(__dp2a_lo, "dp2a.lo.u32.u32", unsigned int, unsigned int, unsigned int)
DOT_PRODUCT(__dp2a_hi, "dp2a.hi.s32.s32", int, int, int)
DOT_PRODUCT(__dp2a_hi, "dp2a.hi.s32.s32", int, short2, char4)
DOT_PRODUCT(__dp2a_hi, "dp2a.hi.u32.u32", unsigned int, unsigned int, unsigned int)
#undef DOT_PRODUCT

DEVICE_FUNCTION float __uint_as_float(unsigned int x)
{
	return __builtin_bit_cast(float, x);
}
DEVICE_FUNCTION float __int_as_float(int x)
{
	return __builtin_bit_cast(float, x);
}
DEVICE_FUNCTION unsigned int __float_as_uint(float x)
{
	return __builtin_bit_cast(unsigned int, x);
}
DEVICE_FUNCTION int __float_as_int(float x)
{
	return __builtin_bit_cast(int, x);
}
DEVICE_FUNCTION double __longlong_as_double(long long x)
{
	return __builtin_bit_cast(double, x);
}
DEVICE_FUNCTION long long __double_as_longlong(double x)
{
	return __builtin_bit_cast(long long, x);
}
DEVICE_FUNCTION int __double2loint(double x)
{
	return (int)__double_as_longlong(x);
}
DEVICE_FUNCTION int __double2hiint(double x)
{
	return (int)(__double_as_longlong(x) >> 32);
}

DEVICE_FUNCTION size_t __cvta_generic_to_shared(const void *address)
{
	return (size_t)(const void __attribute__((address_space(3))) *)address;
}

DEVICE_FUNCTION void __threadfence_block()
{
	asm volatile("membar.cta;" ::: "memory");
}
DEVICE_FUNCTION void __threadfence()
{
	asm volatile("membar.gl;" ::: "memory");
}
DEVICE_FUNCTION void __threadfence_system()
{
	asm volatile("membar.sys;" ::: "memory");
}
DEVICE_FUNCTION void __trap()
{
	asm volatile("trap;");
}
