// Defines macros that define an instruction form: a function over 32 lanes, and a row of the table of forms. The linker
// gathers the rows from their section, so that a form is defined in one place. The functions are pure: any thread.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../alu.h"

// Names of C types, after the types of PTX. In registers, .b8, .u8 and .s8 take 16 bits, and .f16 and .bf16 are u16.
typedef uint8_t u8;
typedef int8_t s8;
typedef uint16_t u16;
typedef int16_t s16;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint64_t u64;
typedef int64_t s64;
typedef float f32;
typedef double f64;
typedef unsigned __int128 u128;
typedef __int128 s128;

enum { PTX_ALU_LANES = 32 };

// These files are compiled twice, with and without AVX2. Each time, the rows go to a section of their own.
#ifndef PTX_ALU_SECTION
#error "compile with -DPTX_ALU_SECTION=\"…\""
#endif

#define PTX_JOIN_(a, b) a##b
#define PTX_JOIN(a, b) PTX_JOIN_(a, b)
#define PTX_BITS(type) (8 * sizeof(type))

#define PTX_ROW_NAMED(row, text, function, ...)                                                                        \
	static const struct ptx_alu_form PTX_JOIN(form_, row) = {text, function, __VA_ARGS__};                         \
	static const struct ptx_alu_form *const PTX_JOIN(link_, row) __attribute__((used, section(PTX_ALU_SECTION))) = \
		&PTX_JOIN(form_, row);
// Defines a row of the table of forms. The arguments after the function are fields of struct ptx_alu_form.
#define PTX_ROW(text, function, ...) PTX_ROW_NAMED(__COUNTER__, text, function, __VA_ARGS__)
#define PTX_ROW1(text, function, D, A) PTX_ROW(text, function, PTX_BITS(D), 0, 1, {PTX_BITS(A)}, 0, 0)
#define PTX_ROW2(text, function, D, A, B) PTX_ROW(text, function, PTX_BITS(D), 0, 2, {PTX_BITS(A), PTX_BITS(B)}, 0, 0)
#define PTX_ROW3(text, function, D, A, B, C) \
	PTX_ROW(text, function, PTX_BITS(D), 0, 3, {PTX_BITS(A), PTX_BITS(B), PTX_BITS(C)}, 0, 0)

// The compiler may vectorize the loops over lanes: if two operands are the same register, as in add %r1, %r1, %r2,
// still no lane depends on another.
#ifdef __clang__
#define PTX_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define PTX_INDEPENDENT _Pragma("GCC ivdep")
#endif
#define PTX_EACH_LANE PTX_INDEPENDENT for (unsigned i = 0; i < PTX_ALU_LANES; i++)

// Defines a function that copies the lanes in `mask`, in a loop that compilers turn into vector blends.
#define PTX_BLEND(bits)                                                                                        \
	__attribute__((noinline, unused)) static void ptx_blend_##bits(u##bits *d, const u##bits *s, u32 mask) \
	{                                                                                                      \
		PTX_EACH_LANE d[i] = mask & (u32)1 << i ? s[i] : d[i];                                         \
	}
PTX_BLEND(16)
PTX_BLEND(32)
PTX_BLEND(64)

static inline void ptx_blend(void *d, const void *s, u32 mask, size_t size)
{
	if (size == sizeof(u16))
		ptx_blend_16(d, s, mask);
	else if (size == sizeof(u32))
		ptx_blend_32(d, s, mask);
	else
		ptx_blend_64(d, s, mask);
}

// Computes all lanes, even those that are not written. So no expression may trap. If all lanes are written, stores the
// results directly in the register.
#define PTX_LANES(D, ...)                                    \
	D spare[PTX_ALU_LANES] __attribute__((aligned(64))); \
	D *d = alu->mask == UINT32_MAX ? alu->d : spare;     \
	PTX_EACH_LANE                                        \
	{                                                    \
		__VA_ARGS__                                  \
	}                                                    \
	if (d == spare)                                      \
		ptx_blend(alu->d, spare, alu->mask, sizeof(D));

// Define a function over 32 lanes for one, two or three sources. The expression has the lane's sources as x, y and z.
// Its value is converted to D.
#define PTX_FUNCTION1(function, D, A, ...)                               \
	static void function(const struct ptx_alu *alu)                  \
	{                                                                \
		const A *a = alu->a;                                     \
		PTX_LANES(D, const A x = a[i]; d[i] = (D)(__VA_ARGS__);) \
	}
#define PTX_FUNCTION2(function, D, A, B, ...)                                              \
	static void function(const struct ptx_alu *alu)                                    \
	{                                                                                  \
		const A *a = alu->a;                                                       \
		const B *b = alu->b;                                                       \
		PTX_LANES(D, const A x = a[i]; const B y = b[i]; d[i] = (D)(__VA_ARGS__);) \
	}
#define PTX_FUNCTION3(function, D, A, B, C, ...)                                                             \
	static void function(const struct ptx_alu *alu)                                                      \
	{                                                                                                    \
		const A *a = alu->a;                                                                         \
		const B *b = alu->b;                                                                         \
		const C *c = alu->c;                                                                         \
		PTX_LANES(D, const A x = a[i]; const B y = b[i]; const C z = c[i]; d[i] = (D)(__VA_ARGS__);) \
	}

// Define a function over 32 lanes, like PTX_FUNCTION1, and its only row in the table of forms.
#define PTX_OP1(text, function, D, A, ...)         \
	PTX_FUNCTION1(function, D, A, __VA_ARGS__) \
	PTX_ROW1(text, function, D, A)
#define PTX_OP2(text, function, D, A, B, ...)         \
	PTX_FUNCTION2(function, D, A, B, __VA_ARGS__) \
	PTX_ROW2(text, function, D, A, B)
#define PTX_OP3(text, function, D, A, B, C, ...)         \
	PTX_FUNCTION3(function, D, A, B, C, __VA_ARGS__) \
	PTX_ROW3(text, function, D, A, B, C)

// Define a form with an expensive expression: computes only the lanes in the mask.
#define PTX_SCALAR1(function, D, A, ...)                                  \
	static void function(const struct ptx_alu *alu)                   \
	{                                                                 \
		const A *a = alu->a;                                      \
		D *d = alu->d;                                            \
		for (u32 rest = alu->mask; rest; rest &= rest - 1) {      \
			const unsigned i = (unsigned)__builtin_ctz(rest); \
			const A x = a[i];                                 \
			d[i] = (D)(__VA_ARGS__);                          \
		}                                                         \
	}
#define PTX_SCALAR2(function, D, A, B, ...)                               \
	static void function(const struct ptx_alu *alu)                   \
	{                                                                 \
		const A *a = alu->a;                                      \
		const B *b = alu->b;                                      \
		D *d = alu->d;                                            \
		for (u32 rest = alu->mask; rest; rest &= rest - 1) {      \
			const unsigned i = (unsigned)__builtin_ctz(rest); \
			const A x = a[i];                                 \
			const B y = b[i];                                 \
			d[i] = (D)(__VA_ARGS__);                          \
		}                                                         \
	}
#define PTX_SCALAR3(function, D, A, B, C, ...)                            \
	static void function(const struct ptx_alu *alu)                   \
	{                                                                 \
		const A *a = alu->a;                                      \
		const B *b = alu->b;                                      \
		const C *c = alu->c;                                      \
		D *d = alu->d;                                            \
		for (u32 rest = alu->mask; rest; rest &= rest - 1) {      \
			const unsigned i = (unsigned)__builtin_ctz(rest); \
			const A x = a[i];                                 \
			const B y = b[i];                                 \
			const C z = c[i];                                 \
			d[i] = (D)(__VA_ARGS__);                          \
		}                                                         \
	}

// Returns a predicate: bit i is bit 0 of byte i.
static inline u32 ptx_gather(const u8 *truth)
{
	u32 mask = 0;

	for (unsigned i = 0; i < PTX_ALU_LANES; i += 8) {
		u64 eight;

		// Multiply so that bit 0 of each of the eight bytes moves to the top byte, without carries.
		memcpy(&eight, truth + i, sizeof eight);
		mask |= (u32)((eight & 0x0101010101010101u) * 0x0102040810204080u >> 56) << i;
	}
	return mask;
}

static inline void ptx_write_predicate(void *predicate, u32 value, u32 mask)
{
	u32 *d = predicate;

	*d = (*d & ~mask) | (value & mask);
}
