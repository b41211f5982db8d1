// Converts single 16-bit floating-point numbers; alu/narrow.h converts them for 32 lanes. The functions are pure: any
// thread.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float ptx_half_to_float(uint16_t half)
{
	uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
	uint32_t sign = half & 0x8000, wide = exponent == 31 ? 255 : exponent + 112;
	uint32_t bits = sign << 16 | wide << 23 | fraction << 13;
	float value;

	if (exponent == 0)
		return (sign ? -0x1p-24f : 0x1p-24f) * (float)fraction;
	memcpy(&value, &bits, sizeof value);
	return value;
}

// Converts a float to a half: rounds to nearest, ties to even.
static inline uint16_t ptx_float_to_half(float value)
{
	uint16_t sign = signbit(value) ? 0x8000 : 0;
	float magnitude = fabsf(value);
	int exponent;

	if (isnan(value))
		return 0x7fff;
	if (magnitude == 0)
		return sign;
	if (magnitude >= 65520)
		return sign | 0x7c00;
	frexpf(magnitude, &exponent);			 // sets the exponent: magnitude < 2^exponent
	int unit = exponent < -13 ? -24 : exponent - 11; // exponent of the last bit that is kept
	unsigned code = (unsigned)lrintf(ldexpf(magnitude, -unit));
	// The leading bit of a normal number, which is in `code`, adds 1 to the exponent.
	return (uint16_t)(sign | (code + ((unsigned)(unit + 24) << 10)));
}
