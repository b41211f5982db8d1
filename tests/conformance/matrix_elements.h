// Converts elements of matrices to numbers and back, and makes random elements. Does not use CUDA. One thread.
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum element { F16, BF16, TF32, F64, E4M3, E5M2, S8, U8, S4, U4, B1, F32, S32 };

static const struct {
	const char *name;
	unsigned bits;		     // size of an element; tf32 takes 32 bits
	unsigned exponent, fraction; // numbers of bits of these fields; 0 in integer types
	bool is_signed;
	char registers; // PTX register class: r, f (f32) or d (f64)
} elements[] = {
	[F16] = {"f16", 16, 5, 10, true, 'r'},	 [BF16] = {"bf16", 16, 8, 7, true, 'r'},
	[TF32] = {"tf32", 32, 8, 10, true, 'r'}, [F64] = {"f64", 64, 11, 52, true, 'd'},
	[E4M3] = {"e4m3", 8, 4, 3, true, 'r'},	 [E5M2] = {"e5m2", 8, 5, 2, true, 'r'},
	[S8] = {"s8", 8, 0, 0, true, 'r'},	 [U8] = {"u8", 8, 0, 0, false, 'r'},
	[S4] = {"s4", 4, 0, 0, true, 'r'},	 [U4] = {"u4", 4, 0, 0, false, 'r'},
	[B1] = {"b1", 1, 0, 0, false, 'r'},	 [F32] = {"f32", 32, 8, 23, true, 'f'},
	[S32] = {"s32", 32, 0, 0, true, 'r'},
};

static inline unsigned bytes_of_register(enum element type)
{
	return type == F64 ? 8 : 4;
}

// Returns how many low bits of a register the type does not use: tf32 takes only the upper 19 bits.
static inline unsigned unused_bits(enum element type)
{
	return type == TF32 ? 13 : 0;
}

static inline double element_value(enum element type, uint64_t code)
{
	unsigned e = elements[type].exponent, f = elements[type].fraction;

	if (!e && elements[type].is_signed)
		return (double)((int64_t)(code << (64 - elements[type].bits)) >> (64 - elements[type].bits));
	if (!e)
		return (double)code;
	code >>= unused_bits(type);
	uint64_t fraction = code & (((uint64_t)1 << f) - 1), exponent = code >> f & ((1u << e) - 1);
	int bias = (1 << (e - 1)) - 1;
	double sign = code >> (e + f) & 1 ? -1 : 1;
	if (exponent == (1u << e) - 1 && type != E4M3)
		return fraction ? NAN : sign * INFINITY;
	if (type == E4M3 && exponent == 15 && fraction == 7)
		return NAN;
	if (!exponent)
		return sign * ldexp((double)fraction, 1 - bias - (int)f);
	return sign * ldexp((double)(fraction | (uint64_t)1 << f), (int)exponent - bias - (int)f);
}

// Returns the bit pattern of `value`. The type must be able to represent the value exactly, and not as a subnormal
// number.
static inline uint64_t element_code(enum element type, double value)
{
	unsigned e = elements[type].exponent, f = elements[type].fraction;
	int exponent;

	if (!e)
		return (uint64_t)(int64_t)value & (UINT64_MAX >> (64 - elements[type].bits));
	if (value == 0)
		return 0;
	uint64_t fraction = (uint64_t)ldexp(frexp(fabs(value), &exponent), (int)f + 1) & (((uint64_t)1 << f) - 1);
	uint64_t biased = (uint64_t)(exponent - 1 + (1 << (e - 1)) - 1);
	return ((uint64_t)(value < 0) << (e + f) | biased << f | fraction) << unused_bits(type);
}

static inline uint64_t draw(void)
{
	static uint64_t state = 18;
	uint64_t x = state += 0x9e3779b97f4a7c15u; // splitmix64

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

// Returns a random element. If `exact`, it is a small integer: every type can represent its products and sums.
// Otherwise it is from 1/8 to 2.
static inline uint64_t draw_element(enum element type, bool exact)
{
	unsigned e = elements[type].exponent, f = elements[type].fraction;

	if (type == B1)
		return draw() & 1;
	if (!e && !exact)
		return draw() >> (64 - elements[type].bits);
	if (exact)
		return element_code(type, elements[type].is_signed ? (double)(draw() % 7) - 3 : (double)(draw() % 4));
	uint64_t exponent = (uint64_t)((1 << (e - 1)) - 1) - 3 + draw() % 4;
	return (draw() % 2 << (e + f) | exponent << f | draw() >> (64 - f)) << unused_bits(type);
}

// Returns the bit pattern of the element at `index` of an array. Several elements of less than 8 bits share a byte.
static inline uint64_t element_at(const void *array, enum element type, size_t index)
{
	const uint8_t *bytes = array;
	uint64_t code = 0;
	size_t bit = index * elements[type].bits;

	memcpy(&code, bytes + bit / 8, elements[type].bits < 8 ? 1 : elements[type].bits / 8);
	return elements[type].bits < 8 ? code >> bit % 8 & ((1u << elements[type].bits) - 1) : code;
}

static inline void element_put(void *array, enum element type, size_t index, uint64_t code)
{
	uint8_t *bytes = array;
	size_t bit = index * elements[type].bits;

	if (elements[type].bits >= 8) {
		memcpy(bytes + bit / 8, &code, elements[type].bits / 8);
		return;
	}
	unsigned all = ((1u << elements[type].bits) - 1) << bit % 8;
	bytes[bit / 8] = (uint8_t)((bytes[bit / 8] & ~all) | code << bit % 8);
}

// The exact value of a sum of products, and the figures from which allowed() computes how far the driver's result may
// differ.
struct sum {
	long double exact, magnitude; // the exact sum, and the sum of the absolute values
	unsigned terms;
};

// Returns how far a floating-point result of `type` may differ from the exact sum. Integer results must be exact.
static inline long double allowed(enum element type, const struct sum *sum)
{
	int digits = type == F16 ? 10 : type == F32 ? 23 : 52;

	return elements[type].exponent ? (sum->terms + 1) * ldexpl(sum->magnitude, -digits) : 0;
}

// Converts an exact sum of integers to s32: limits it to the range of s32 if `saturates`, and else wraps it around.
static inline double as_integer(const struct sum *sum, bool saturates)
{
	int64_t whole = (int64_t)sum->exact;

	if (saturates)
		return whole > INT32_MAX ? INT32_MAX : whole < INT32_MIN ? INT32_MIN : (double)whole;
	return (int32_t)(uint32_t)whole;
}
