// Mathematical functions. The largest errors, in units in the last place: 1 (exp), 2 (expm1, erf) and 3 (tanh) for
// double; 0.501 for float, which is computed in double. tests/abi/test_device.c measures them.
#pragma once
#include "language.h"

#define INFINITY __builtin_inff()

DEVICE_FUNCTION double fma(double a, double b, double c)
{
	return __builtin_fma(a, b, c);
}
DEVICE_FUNCTION float fmaf(float a, float b, float c)
{
	return __builtin_fmaf(a, b, c);
}
DEVICE_FUNCTION double fabs(double x)
{
	return __builtin_fabs(x);
}
DEVICE_FUNCTION float fabsf(float x)
{
	return __builtin_fabsf(x);
}

namespace virgate_math
{
// Evaluates a polynomial; c[0] is the coefficient of the highest power.
template <int N> DEVICE_FUNCTION double polynomial(const double (&c)[N], double x)
{
	double sum = c[0];
#pragma unroll
	for (int i = 1; i < N; i++)
		sum = __builtin_fma(sum, x, c[i]);
	return sum;
}

// Returns 2^n for n from -1022 to 1023.
DEVICE_FUNCTION double power_of_two(int n)
{
	return __builtin_bit_cast(double, (unsigned long long)(n + 1023) << 52);
}

// Returns x * 2^n for n from -2044 to 2046, rounded once: only the last product can be inexact.
DEVICE_FUNCTION double scale(double x, int n)
{
	return x * power_of_two(n / 2) * power_of_two(n - n / 2);
}

// Splits x, which is not NaN, into n * ln 2 + r. |r| is at most about ln 2 / 2.
DEVICE_FUNCTION int reduce(double x, double &ret_r)
{
	double n = __builtin_rint(x * 0x1.71547652b82fep+0);

	ret_r = __builtin_fma(n, -0x1.62e42fefa39efp-1, x);
	ret_r = __builtin_fma(n, -0x1.abc9e3b39803fp-56, ret_r);
	return (int)n;
}

// Returns (exp(r) - 1 - r) / r^2, by the Taylor series.
DEVICE_FUNCTION double exponential_rest(double r)
{
	const double inverse_factorials[] = {
		1 / 1307674368000.0, 1 / 87178291200.0, 1 / 6227020800.0, 1 / 479001600.0, 1 / 39916800.0,
		1 / 3628800.0,	     1 / 362880.0,	1 / 40320.0,	  1 / 5040.0,	   1 / 720.0,
		1 / 120.0,	     1 / 24.0,		1 / 6.0,	  1 / 2.0};
	return polynomial(inverse_factorials, r);
}
} // namespace virgate_math

static __device__ __noinline__ double exp(double x)
{
	double r;

	if (x != x)
		return x;
	int n = virgate_math::reduce(x < -746 ? -746 : x > 710 ? 710 : x, r);
	return virgate_math::scale(__builtin_fma(r * r, virgate_math::exponential_rest(r), r) + 1, n);
}

static __device__ __noinline__ double expm1(double x)
{
	double r;

	if (x != x || x == 0)
		return x;
	int n = virgate_math::reduce(x < -40 ? -40 : x > 710 ? 710 : x, r);
	double minus_one = __builtin_fma(r * r, virgate_math::exponential_rest(r), r);
	// The result is 2^n (exp(r) - 1) + 2^n - 1. Computes half of it and doubles that, because 2^n can overflow even
	// if the result does not.
	double half = virgate_math::power_of_two(n - 1);
	return n == 0 ? minus_one : 2 * __builtin_fma(half, minus_one, half - 0.5);
}

static __device__ __noinline__ double tanh(double x)
{
	double of_twice = expm1(2 * __builtin_fabs(x));

	// If |x| is above 20, the result is so near to 1 that it is rounded to 1.
	return __builtin_copysign(__builtin_fabs(x) > 20 ? 1 : of_twice / (of_twice + 2), x);
}

// If |x| is below 1, computes x times a polynomial in x^2. If |x| is at most 6, computes 1 - exp(-x^2) times a
// polynomial in (|x| - 3) / (|x| + 3), with the sign of x. Above 6, returns 1 with the sign of x. Both polynomials
// interpolate at Chebyshev nodes, computed with 60 digits; their errors are 2e-19 and 6e-18.
static __device__ __noinline__ double erf(double x)
{
	const double near[] = {0x1.05ffd737fb32ep-34,  -0x1.389d4f2641625p-30, 0x1.f7b4bf3b13964p-27,
			       -0x1.5f1ecb6f0764cp-23, 0x1.b9df224ca4b97p-20,  -0x1.f4d1e3183f7aep-17,
			       0x1.f9a321d5b8e1ep-14,  -0x1.c02db3dac435fp-11, 0x1.565bcd0dbaa38p-8,
			       -0x1.b82ce31284e00p-6,  0x1.ce2f21a042b30p-4,   -0x1.812746b0379e6p-2,
			       0x1.20dd750429b6dp+0};
	const double far[] = {
		0x1.d0badb83f2cadp-29,	0x1.56695202d55bcp-20, 0x1.0e3fb74fdc507p-19, -0x1.0cc37e8e915adp-17,
		-0x1.af086905fc57fp-17, 0x1.0cb2e63fe2177p-14, 0x1.7b9ef7977ceafp-15, -0x1.39085f2b38287p-11,
		0x1.73101f6d2e434p-11,	0x1.17c839090a469p-8,  -0x1.8fa58eb5ea92cp-6, 0x1.258b13b00ec66p-4,
		-0x1.336ffbef08b8ap-3,	0x1.f6ff204105a04p-3,  -0x1.4e102b9cf8513p-2, 0x1.6e9827d229d2dp-3};
	double size = __builtin_fabs(x);

	if (x != x)
		return x;
	if (size < 1)
		return x * virgate_math::polynomial(near, x * x);
	double rest = exp(-size * size) * virgate_math::polynomial(far, (size - 3) / (size + 3));
	return __builtin_copysign(size > 6 ? 1 : 1 - rest, x);
}

DEVICE_FUNCTION float expf(float x)
{
	return (float)exp((double)x);
}
DEVICE_FUNCTION float expm1f(float x)
{
	return (float)expm1((double)x);
}
DEVICE_FUNCTION float tanhf(float x)
{
	return (float)tanh((double)x);
}
DEVICE_FUNCTION float erff(float x)
{
	return (float)erf((double)x);
}
DEVICE_FUNCTION float exp(float x)
{
	return expf(x);
}
DEVICE_FUNCTION float expm1(float x)
{
	return expm1f(x);
}
DEVICE_FUNCTION float tanh(float x)
{
	return tanhf(x);
}
DEVICE_FUNCTION float erf(float x)
{
	return erff(x);
}
