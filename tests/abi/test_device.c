// Tests the device functions that clang compiles without a toolkit, on the simulated GPU. The mathematical functions
// are compared with the long double functions of the C library, whose errors are about a thousandth of the allowed
// errors.
#include "sim/sim_test.h"

#include <float.h>
#include <math.h>

enum { THREADS = 256, COUNT = 1 << 17 };

static CUfunction find_kernel(const char *name)
{
	static CUmodule module;
	CUfunction function;

	if (!module) {
		node_start("memory=1G");
		primary(0);
		CU(cuModuleLoad(&module, PTX));
	}
	CU(cuModuleGetFunction(&function, module, name));
	return function;
}

static CUdeviceptr allocate_zeroed(size_t bytes)
{
	CUdeviceptr address;

	CU(cuMemAlloc_v2(&address, bytes));
	CU(cuMemsetD8_v2(address, 0, bytes));
	return address;
}

#define LAUNCH(function, blocks, threads, ...) \
	CU(cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, NULL, (void *[]){__VA_ARGS__}, NULL))

// Launches the kernel for COUNT inputs of `size` bytes.
static void compute(const char *name, const void *x, void *y, size_t size)
{
	CUfunction function = find_kernel(name);
	CUdeviceptr in = allocate_zeroed(COUNT * size), out = allocate_zeroed(COUNT * size);

	CU(cuMemcpyHtoD_v2(in, x, COUNT * size));
	LAUNCH(function, COUNT / THREADS, THREADS, &in, &out);
	CU(cuMemcpyDtoH_v2(y, out, COUNT * size));
	CU(cuMemFree_v2(in));
	CU(cuMemFree_v2(out));
}

// Returns input i. The first inputs are special values. Half of the others are spread evenly from -range to range, and
// half logarithmically from 2^-60 on.
static double make_input(int i, double range)
{
	const double special[] = {0.0,	   -0.0,     INFINITY, -INFINITY, NAN,	   5e-324,  -5e-324,
				  DBL_MAX, -DBL_MAX, 709.78,   709.79,	  -745.13, -745.14, 88.72,
				  88.73,   -103.97,  -103.98,  1,	  -1,	   6,	    1 - 0x1p-53};

	if (i < (int)(sizeof special / sizeof special[0]))
		return special[i];
	double part = (double)i / COUNT;
	if (i % 2)
		return (2 * part - 1) * range;
	return (i % 4 ? 1 : -1) * exp2((log2(range) + 60) * part - 60);
}

// Returns the error in units of the exact result's last place. `bits` is the size of the format's significand, and
// `least` is its least exponent.
static double find_error(long double got, long double exact, int bits, int least)
{
	long double most = bits == 24 ? FLT_MAX : DBL_MAX;

	if (isnan(exact))
		return isnan(got) ? 0 : INFINITY;
	if (!signbit(got) != !signbit(exact))
		return INFINITY;
	if (exact == 0)
		return got == 0 ? 0 : INFINITY;
	if (fabsl(exact) > most) // the exact result exceeds the largest number, so infinity is right, too
		return fabsl(got) >= most ? 0 : INFINITY;
	int exponent = ilogbl(exact) < least ? least : ilogbl(exact);
	return (double)(fabsl(got - exact) / ldexpl(1, exponent - bits + 1));
}

static void check_function(const char *name, long double (*exact)(long double), double range, double limit)
{
	double *x = malloc(COUNT * sizeof *x), *y = malloc(COUNT * sizeof *y);
	float *narrow_x = malloc(COUNT * sizeof *narrow_x), *narrow_y = malloc(COUNT * sizeof *narrow_y);
	double worst = 0, narrow_worst = 0, at = 0, narrow_at = 0;
	char kernel_name[32];

	for (int i = 0; i < COUNT; i++) {
		x[i] = make_input(i, range);
		narrow_x[i] = (float)x[i];
	}
	snprintf(kernel_name, sizeof kernel_name, "%s_f64", name);
	compute(kernel_name, x, y, sizeof *x);
	snprintf(kernel_name, sizeof kernel_name, "%s_f32", name);
	compute(kernel_name, narrow_x, narrow_y, sizeof *narrow_x);
	for (int i = 0; i < COUNT; i++) {
		double wide = find_error(y[i], exact(x[i]), 53, -1022);
		double narrow = find_error(narrow_y[i], exact(narrow_x[i]), 24, -126);
		if (wide > worst)
			worst = wide, at = x[i];
		if (narrow > narrow_worst)
			narrow_worst = narrow, narrow_at = narrow_x[i];
	}
	printf("%s: at most %.3f units in the last place, at %a; of float %.4f, at %a\n", name, worst, at, narrow_worst,
	       narrow_at);
	CHECK(worst <= limit);
	CHECK(narrow_worst <= 0.501);
	// rounding alone causes errors of up to 0.5 units; if no error exceeds 0.4, the test has compared hardly any
	// rounded result
	CHECK(worst > 0.4 && narrow_worst > 0.4);
	free(x);
	free(y);
	free(narrow_x);
	free(narrow_y);
}

TEST(exp_is_accurate)
{
	check_function("exp", expl, 750, 1);
}

TEST(expm1_is_accurate)
{
	check_function("expm1", expm1l, 750, 2);
	check_function("expm1", expm1l, 2, 2);
}

TEST(tanh_is_accurate)
{
	check_function("tanh", tanhl, 30, 3);
	check_function("tanh", tanhl, 1, 3);
}

TEST(erf_is_accurate)
{
	check_function("erf", erfl, 7, 2);
	check_function("erf", erfl, 1.5, 2);
}

TEST(warp_functions_return_their_results)
{
	unsigned got[32][12];
	CUfunction function = find_kernel("warp");
	CUdeviceptr out = allocate_zeroed(sizeof got);

	LAUNCH(function, 1, 32, &out);
	CU(cuMemcpyDtoH_v2(got, out, sizeof got));
	for (unsigned lane = 0; lane < 32; lane++) {
		unsigned reversed = 0;
		for (int bit = 0; bit < 8; bit++)
			reversed |= (lane >> bit & 1) << (7 - bit);
		const unsigned want[12] = {5,
					   0xaaaaaaaa,
					   lane & 1 ? 0xaaaaaaaa : 0,
					   5,
					   lane < 3 ? lane : lane - 3,
					   lane % 8 < 5 ? lane + 3 : lane,
					   lane ^ 1,
					   lane ^ 2,
					   31 * 16,
					   (lane ? (unsigned)__builtin_clz(lane) : 32) +
						   100 * (unsigned)__builtin_ffs((int)lane) +
						   10000 * (unsigned)__builtin_popcount(lane),
					   reversed,
					   (lane < 7 ? lane : 7) + (lane > 3 ? lane : 3)};
		for (int i = 0; i < 12; i++)
			if (got[lane][i] != want[i])
				FAIL("lane %u: word %d is %u, not %u", lane, i, got[lane][i], want[i]);
	}
	CU(cuMemFree_v2(out));
}

TEST(atomic_functions_of_a_warp_add_up)
{
	unsigned words[13] = {[2] = 100, [3] = -100u, [4] = ~0u, [12] = 3};
	const unsigned want[13] = {496, -496u, 5, 0, 0, ~0u, 0, 0, 1, 0, 1, 2, 1};
	unsigned long long wide;
	float f;
	double d;
	CUfunction function = find_kernel("atomics");
	CUdeviceptr at = allocate_zeroed(sizeof words), f_at = allocate_zeroed(4);
	CUdeviceptr d_at = allocate_zeroed(8), wide_at = allocate_zeroed(8);

	CU(cuMemcpyHtoD_v2(at, words, sizeof words));
	LAUNCH(function, 1, 32, &at, &f_at, &d_at, &wide_at);
	CU(cuMemcpyDtoH_v2(words, at, sizeof words));
	CU(cuMemcpyDtoH_v2(&f, f_at, sizeof f));
	CU(cuMemcpyDtoH_v2(&d, d_at, sizeof d));
	CU(cuMemcpyDtoH_v2(&wide, wide_at, sizeof wide));
	for (int i = 0; i < 13; i++)
		// for these two functions, the expected value depends on which thread was the last or the first
		if (i == 7 || i == 9)
			CHECK(words[i] >= 1 && words[i] <= 32);
		else if (words[i] != want[i])
			FAIL("word %d is %u, not %u", i, words[i], want[i]);
	CHECK(f == 16 && d == 8);
	CHECK_INT(wide >> 32, 32);
}

TEST(barrier_orders_shared_memory)
{
	unsigned got[THREADS];
	CUfunction function = find_kernel("barrier");
	CUdeviceptr out = allocate_zeroed(sizeof got);

	LAUNCH(function, 1, THREADS, &out);
	CU(cuMemcpyDtoH_v2(got, out, sizeof got));
	for (int i = 0; i < THREADS; i++)
		CHECK_INT(got[i], 7);
	CU(cuMemFree_v2(out));
}
