// Tests f16, bf16, fp8 and conversions. For the narrow formats, the reference rounds by a search in a table of all
// their values.
#include <math.h>

#include "run.h"

#define run_lane(...) run_in_lane(30, __VA_ARGS__)

struct format {
	const char *name;
	int mantissa_bits, bias;
	unsigned infinity; // the bits of infinity; larger numbers are the bits of NaNs
	double values[0x7f81];
};
static struct format half = {"f16", 10, 15, 0x7c00, {0}}, brain = {"bf16", 7, 127, 0x7f80, {0}};

__attribute__((constructor)) static void fill_tables(void)
{
	struct format *const formats[] = {&half, &brain};

	for (int k = 0; k < 2; k++) {
		struct format *f = formats[k];
		for (unsigned code = 0; code <= f->infinity; code++) {
			int exponent = (int)(code >> f->mantissa_bits), hidden = exponent ? 1 << f->mantissa_bits : 0;
			int fraction = (int)(code & ((1u << f->mantissa_bits) - 1));
			int power = (exponent ? exponent : 1) - f->bias - f->mantissa_bits;
			f->values[code] = ldexp(hidden + fraction, power);
		}
	}
}

// Rounds to the format by a search in its values. `mode` is the rounding mode n, z, m or p, as in PTX. In the search,
// infinity has the value of the first power of two that is too large for the format.
static unsigned round_to(const struct format *f, long double x, char mode)
{
	unsigned sign = signbit(x) ? 0x8000 : 0;
	unsigned low = 0, high = f->infinity;
	long double magnitude = fabsl(x);

	if (isnan(x))
		return 0x7fff;
	if (isinf(x))
		return sign | f->infinity;
	while (low + 1 < high) {
		unsigned middle = (low + high) / 2;
		if ((long double)f->values[middle] <= magnitude)
			low = middle;
		else
			high = middle;
	}
	if ((long double)f->values[low] == magnitude)
		return sign | low;
	long double below = f->values[low], above = f->values[high];
	int up;
	if (mode == 'n')
		up = magnitude - below > above - magnitude || (magnitude - below == above - magnitude && low & 1);
	else
		up = (mode == 'p' && !sign) || (mode == 'm' && sign);
	return sign | (up ? high : low);
}

static long double half_value(const struct format *f, unsigned code)
{
	unsigned magnitude = code & 0x7fff;
	long double x = magnitude > f->infinity ? NAN : magnitude == f->infinity ? INFINITY : f->values[magnitude];
	return code & 0x8000 ? -x : x;
}

TEST(every_half_widens)
{
	for (unsigned code = 0; code < 65536; code += 32) {
		struct registers registers = {0};
		for (unsigned lane = 0; lane < 32; lane++)
			lanes_store(&registers.source[0], lane, 16, code + lane);
		for (int k = 0; k < 2; k++) {
			run_form(find_form(PTX_ALU_BASE, k ? "cvt.f32.bf16" : "cvt.f32.f16"), &registers, UINT32_MAX);
			for (unsigned lane = 0; lane < 32; lane++) {
				long double want = half_value(k ? &brain : &half, code + lane);
				float got = f32_of((uint32_t)lanes_load(&registers.d, lane, 32));
				if (isnan(want) ? bits_f32(got) != (k ? (code + lane) << 16 : 0x7fffffff)
						: (long double)got != want || !signbit(got) != !signbit(want))
					FAIL("%s %x", k ? "bf16" : "f16", code + lane);
			}
		}
	}
}

static void check_code(const char *mnemonic, uint64_t x, unsigned want)
{
	uint64_t got = run_lane(mnemonic, x, 0, 0);
	if (got != want)
		FAIL("%s of %llx is %llx, not %x", mnemonic, (long long)x, (long long)got, want);
}

TEST(narrowing)
{
	static const char *const from_f32[] = {"cvt.rn.f16.f32", "cvt.rz.f16.f32", "cvt.rm.f16.f32", "cvt.rp.f16.f32"};
	static const char *const from_f64[] = {"cvt.rn.f16.f64", "cvt.rz.f16.f64", "cvt.rm.f16.f64", "cvt.rp.f16.f64"};
	static const char letters[] = "nzmp";
	uint64_t state = 161803;

	for (unsigned round = 0; round < 20000; round++) {
		uint32_t bits = (uint32_t)random_word(&state);
		// Choose a magnitude from 2^-31 to 2. Without the low 12 bits, many values are halfway between two f16
		// values.
		if (round & 1)
			bits = (bits & 0x8ffff000) | 0x30000000 | (round & 2 ? 0 : bits & 0x1fff);
		long double x = f32_of(bits);
		unsigned m = round / 2 % 4;
		check_code(from_f32[m], bits, round_to(&half, x, letters[m]));
		check_code("cvt.rn.bf16.f32", bits, round_to(&brain, x, 'n'));
		check_code("cvt.rz.bf16.f32", bits, round_to(&brain, x, 'z'));
		uint64_t wide = random_word(&state);
		if (round & 1)
			wide = (wide & 0x80ffffffffffffff) | 0x3f00000000000000;
		check_code(from_f64[m], wide, round_to(&half, f64_of(wide), letters[m]));
	}
}

TEST(arithmetic)
{
	uint64_t state = 141421;

	for (unsigned round = 0; round < 30000; round++) {
		struct format *f = round & 1 ? &half : &brain;
		unsigned a = (uint16_t)random_word(&state), b = (uint16_t)random_word(&state);
		unsigned c = (uint16_t)random_word(&state);
		if (round & 2)
			b = (a & 0xff00) | (b & 0xff), c = a ^ 0x8000;
		long double x = half_value(f, a), y = half_value(f, b), z = half_value(f, c);
		struct {
			const char *name;
			long double exact;
		} cases[] = {{"add.rn", x + y}, {"sub.rn", x - y}, {"mul.rn", x * y}, {"fma.rn", x * y + z}};
		for (int k = 0; k < 4; k++) {
			char mnemonic[32];
			snprintf(mnemonic, sizeof mnemonic, "%s.%s", cases[k].name, f->name);
			// Skips sums of very different numbers, for which long double is not exact.
			if (isfinite(x) && isfinite(y) && isfinite(z) && fabsl(cases[k].exact) > 0 &&
			    (fabsl(x) > fabsl(y) * 0x1p40L || fabsl(y) > fabsl(x) * 0x1p40L ||
			     fabsl(z) > fabsl(x * y) * 0x1p40L || fabsl(x * y) > fabsl(z) * 0x1p40L))
				continue;
			uint64_t got = run_lane(mnemonic, a, b, c);
			unsigned want = round_to(f, cases[k].exact, 'n');
			if (got != want)
				FAIL("%s %x, %x, %x is %llx, not %x", mnemonic, a, b, c, (long long)got, want);
		}
	}
}

TEST(float_to_integer)
{
	static const struct {
		const char *name;
		long double low, high;
		uint64_t nan_f32, nan_f64;
		unsigned bits;
	} integers[] = {
		{"s32", INT32_MIN, INT32_MAX, 0, 0x80000000, 32},
		{"u32", 0, UINT32_MAX, 0, 0x80000000, 32},
		{"s64", INT64_MIN, INT64_MAX, (uint64_t)1 << 63, (uint64_t)1 << 63, 64},
		{"u64", 0, UINT64_MAX, (uint64_t)1 << 63, (uint64_t)1 << 63, 64},
		{"s16", INT16_MIN, INT16_MAX, 0, 0x8000, 16},
	};
	static const char *const modes[] = {"rni", "rzi", "rmi", "rpi"};
	uint64_t state = 57721;

	for (unsigned round = 0; round < 8000; round++) {
		uint64_t wide = random_word(&state);
		if (round & 1)
			// choose f64 magnitudes from 2 to 2^65, some of which exceed the integer type
			wide = (wide & 0x83ffffffffffffff) | 0x4000000000000000;
		uint32_t narrow = (uint32_t)(wide >> 32);
		unsigned t = round % 5, m = round / 5 % 4;
		for (int from_wide = 0; from_wide < 2; from_wide++) {
			long double x = from_wide ? (long double)f64_of(wide) : (long double)f32_of(narrow);
			long double whole = m == 0 ? rintl(x) : m == 1 ? truncl(x) : m == 2 ? floorl(x) : ceill(x);
			uint64_t want = isnan(x) ? (from_wide ? integers[t].nan_f64 : integers[t].nan_f32)
					: whole <= integers[t].low  ? (uint64_t)(int64_t)integers[t].low
					: whole >= integers[t].high ? (uint64_t)integers[t].high
					: whole < 0		    ? (uint64_t)(int64_t)whole
								    : (uint64_t)whole;
			char mnemonic[32];
			snprintf(mnemonic, sizeof mnemonic, "cvt.%s.%s.%s", modes[m], integers[t].name,
				 from_wide ? "f64" : "f32");
			uint64_t got = run_lane(mnemonic, from_wide ? wide : narrow, 0, 0);
			if (integers[t].bits < 64)
				want &= ((uint64_t)1 << integers[t].bits) - 1;
			if (got != want)
				FAIL("%s of %Lg is %llx, not %llx", mnemonic, x, (long long)got, (long long)want);
		}
	}
}

TEST(integer_to_float)
{
	uint64_t state = 271828;

	for (unsigned round = 0; round < 4000; round++) {
		uint64_t x = random_word(&state) >> round % 60;
		CHECK_INT(run_lane("cvt.rn.f32.u64", x, 0, 0), bits_f32((float)x));
		CHECK_INT(run_lane("cvt.rn.f32.s32", x, 0, 0), bits_f32((float)(int32_t)x));
		check_code("cvt.rn.f16.u64", x, round_to(&half, (long double)x, 'n'));
		check_code("cvt.rp.f16.s64", x, round_to(&half, (long double)(int64_t)x, 'p'));
		check_code("cvt.rn.bf16.u32", x, round_to(&brain, (long double)(uint32_t)x, 'n'));
		float down = f32_of((uint32_t)run_lane("cvt.rm.f32.u64", x, 0, 0));
		float up = f32_of((uint32_t)run_lane("cvt.rp.f32.u64", x, 0, 0));
		CHECK((long double)down <= (long double)x && (long double)x <= (long double)up);
		CHECK(down == up || nextafterf(down, INFINITY) == up);
	}
}

TEST(resizing_integers)
{
	CHECK_INT(run_lane("cvt.rz.sat.f32.s32", 7, 0, 0), bits_f32(1));
	CHECK_INT(run_lane("cvt.rp.sat.f32.s32", (uint32_t)-7, 0, 0), 0);
	CHECK_INT(run_lane("cvt.rn.sat.f16.u8", 0x300, 0, 0), 0); // only the low byte of the source is converted
	CHECK_INT(run_lane("cvt.rn.sat.f16.u8", 0x301, 0, 0), 0x3c00);
	CHECK_INT(run_lane("cvt.rm.ftz.f32.u32", 0xffffffff, 0, 0), 0x4f7fffff);
	CHECK_INT(run_lane("cvt.rni.sat.f16.f16", 0x4200, 0, 0), 0x3c00);
	CHECK_INT(run_lane("cvt.rmi.sat.f16.f16", 0x3800, 0, 0), 0);
	CHECK_INT(run_lane("cvt.s32.s8", 0x80, 0, 0), 0xffffff80);
	CHECK_INT(run_lane("cvt.u32.u8", 0x1ff, 0, 0), 0xff);
	CHECK_INT(run_lane("cvt.s64.s32", 0x80000000, 0, 0), (long long)0xffffffff80000000);
	CHECK_INT(run_lane("cvt.u64.u32", 0x80000000, 0, 0), 0x80000000);
	CHECK_INT(run_lane("cvt.sat.u8.s32", (uint32_t)-5, 0, 0), 0);
	CHECK_INT(run_lane("cvt.sat.u8.s32", 300, 0, 0), 255);
	CHECK_INT(run_lane("cvt.sat.s8.s32", (uint32_t)-300, 0, 0), 0xff80);
	CHECK_INT(run_lane("cvt.sat.s32.u64", UINT64_MAX, 0, 0), INT32_MAX);
	CHECK_INT(run_lane("cvt.pack.sat.u8.s32.b32", 300, (uint32_t)-1, 0x11223344), 0x3344ff00);
	CHECK_INT(run_lane("cvt.pack.sat.s16.s32", 40000, (uint32_t)-40000, 0), 0x7fff8000);
}

TEST(eight_bit_floats)
{
	// Converts every finite e4m3 and e5m2 value to f16 and back.
	for (unsigned code = 0; code < 256; code++) {
		uint64_t e4 = run_lane("cvt.rn.f16x2.e4m3x2", code | code << 8, 0, 0);
		uint64_t e5 = run_lane("cvt.rn.f16x2.e5m2x2", code | code << 8, 0, 0);
		if ((code & 0x7f) < 0x7f)
			CHECK_INT(run_lane("cvt.rn.satfinite.e4m3x2.f16x2", e4, 0, 0), code | code << 8);
		if ((code & 0x7f) < 0x7c)
			CHECK_INT(run_lane("cvt.rn.satfinite.e5m2x2.f16x2", e5, 0, 0), code | code << 8);
	}
	CHECK_INT(run_lane("cvt.rn.satfinite.e4m3x2.f32", bits_f32(1e9f), bits_f32(-449.f), 0), 0x7efe);
	CHECK_INT(run_lane("cvt.rn.satfinite.e5m2x2.f32", bits_f32(INFINITY), bits_f32(NAN), 0), 0x7b7f);
	CHECK_INT(run_lane("cvt.rn.satfinite.relu.e4m3x2.f32", bits_f32(-3.f), bits_f32(0x1p-9f), 0), 0x0001);
}

TEST(pairs)
{
	CHECK_INT(run_lane("cvt.rn.f16x2.f32", bits_f32(1), bits_f32(-2), 0), 0x3c00c000); // a above b
	CHECK_INT(run_lane("add.f16x2", 0x3c004000, 0x3c003c00, 0), 0x40004200);
	CHECK_INT(run_lane("fma.rn.relu.f16x2", 0x3c00bc00, 0x40004000, 0), 0x40000000);
	CHECK_INT(run_lane("set.lt.f16x2.f16x2", 0x3c004000, 0x40003c00, 0), 0x3c000000);
	CHECK_INT(run_lane("max.NaN.bf16x2", 0x7fc03f80, 0x3f804000, 0), 0x7fff4000);
	CHECK_INT(run_lane("cvt.rna.tf32.f32", 0x3f801000, 0, 0), 0x3f802000);
}
