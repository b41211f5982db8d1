// Kernels of the corpus that compute mathematical functions: those of libdevice in f64 and f32, and the approximate
// instructions in f32.
#include "corpus.cuh"

KERNEL(functions_f64)
{
	double x = ((const double *)in)[THREAD] * 4, y = fabs(x) + 0.1, *r = (double *)out + 16 * THREAD;

	r[0] = sin(x * 1000), r[1] = cos(x), r[2] = tan(x), r[3] = exp(x), r[4] = log(y), r[5] = sqrt(y);
	r[6] = atan2(x, y - 2), r[7] = sinh(x), r[8] = cbrt(x), r[9] = floor(x * 3), r[10] = fmod(x * 7, y);
	r[11] = 1 / x, r[12] = x / y, r[13] = ldexp(x, 40), r[14] = rint(x * 5), r[15] = hypot(x, y);
}

// These functions use approximations in f64, so they are accurate only to a few units in the last place.
KERNEL(functions_f64_loose)
{
	double x = ((const double *)in)[THREAD] * 4, y = fabs(x) + 0.1, *r = (double *)out + 8 * THREAD;

	r[0] = pow(y, x), r[1] = erf(x), r[2] = tgamma(y), r[3] = log2(y), r[4] = rsqrt(y), r[5] = tanh(x);
	r[6] = j0(x), r[7] = lgamma(y);
}

KERNEL(functions_f32)
{
	float x = ((const float *)in)[THREAD] * 4, y = fabsf(x) + 0.1f, *r = (float *)out + 16 * THREAD;

	r[0] = sinf(x), r[1] = cosf(x), r[2] = nearbyintf(y * 3), r[3] = sqrtf(y), r[4] = logf(y), r[5] = rintf(x);
	r[6] = x / y, r[7] = 1 / x, r[8] = fdimf(x, y), r[9] = log1pf(y), r[10] = roundf(x * 3), r[11] = truncf(x);
	r[12] = __fadd_rz(x, 1e-7f), r[13] = __fmul_ru(x, y), r[14] = __fdiv_rd(x, y), r[15] = __fsqrt_ru(y);
}

// These functions use reciprocals or powers, which the hardware approximates.
KERNEL(functions_f32_loose)
{
	float x = ((const float *)in)[THREAD] * 4, y = fabsf(x) + 0.1f, *r = (float *)out + 8 * THREAD;

	r[0] = tanf(x), r[1] = atanf(x), r[2] = cbrtf(y), r[3] = sinhf(x), r[4] = hypotf(x, y), r[5] = coshf(x);
	r[6] = atan2f(x, y), r[7] = erfcf(y);
}

KERNEL(functions_approximate)
{
	float x = ((const float *)in)[THREAD] * 3, y = fabsf(x) + 0.1f, *r = (float *)out + 16 * THREAD;

	r[0] = __sinf(x) + 2, r[1] = __cosf(x) + 2, r[2] = __expf(x), r[3] = __logf(y) + 8, r[4] = __powf(y, x);
	r[5] = __fdividef(x, y), r[6] = rsqrtf(y), r[7] = __frcp_rn(y), r[8] = expf(x), r[9] = exp2f(x),
	r[10] = powf(y, x);
	r[11] = tanhf(x), r[12] = erff(x), r[13] = log2f(y) + 8, r[14] = __saturatef(x), r[15] = exp10f(x);
}
