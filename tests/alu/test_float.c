// Tests f32 and f64 in every rounding mode. For the expected result, the host computes the same operation in float or
// double, with the rounding mode set by fesetround().
#include <fenv.h>
#include <math.h>

#include "run.h"

static uint64_t bits_f64(double x)
{
	uint64_t bits;
	memcpy(&bits, &x, 8);
	return bits;
}

static uint64_t run_on(enum ptx_alu_level level, const char *mnemonic, uint64_t a, uint64_t b, uint64_t c)
{
	const struct ptx_alu_form *form = find_form(level, mnemonic);
	struct registers registers = {0};

	for (unsigned lane = 0; lane < 32; lane++) {
		lanes_store(&registers.source[0], lane, form->bits[0], a);
		lanes_store(&registers.source[1], lane, form->bits[1], b);
		lanes_store(&registers.source[2], lane, form->bits[2], c);
	}
	run_form(form, &registers, UINT32_MAX);
	return lanes_load(&registers.d, 17, form->d_bits);
}

static const char *const modes[] = {"rn", "rz", "rm", "rp"};
static const int fe_modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

enum operation { ADD, SUB, MUL, DIV, RCP, SQRT, FMA, OPERATIONS };
static const char *const operation_names[] = {"add", "sub", "mul", "div", "rcp", "sqrt", "fma"};

// Computes the reference. The operands are volatile, so that the compiler does not move the arithmetic across the
// changes of the rounding mode.
static uint64_t compute_reference(enum operation operation, int wide, int mode, uint64_t a, uint64_t b, uint64_t c)
{
	volatile float x = f32_of(a), y = f32_of(b), z = f32_of(c), r = 0;
	volatile double p = f64_of(a), q = f64_of(b), s = f64_of(c), t = 0;

	fesetround(fe_modes[mode]);
	switch (operation) {
	case ADD:
		r = x + y, t = p + q;
		break;
	case SUB:
		r = x - y, t = p - q;
		break;
	case MUL:
		r = x * y, t = p * q;
		break;
	case DIV:
		r = x / y, t = p / q;
		break;
	case RCP:
		r = 1 / x, t = 1 / p;
		break;
	case SQRT:
		r = sqrtf(x), t = sqrt(p);
		break;
	default:
		r = fmaf(x, y, z), t = fma(p, q, s);
		break;
	}
	fesetround(FE_TONEAREST);
	if (wide)
		return bits_f64(t);
	return isnan(r) ? 0x7fffffff : bits_f32(r);
}

static void check_mode(enum ptx_alu_level level, enum operation operation, int wide, int mode, uint64_t *state)
{
	char mnemonic[32];

	snprintf(mnemonic, sizeof mnemonic, "%s.%s.%s", operation_names[operation], modes[mode], wide ? "f64" : "f32");
	for (unsigned round = 0; round < 400; round++) {
		uint64_t a = random_word(state), b = random_word(state), c = random_word(state);
		if (round % 4 == 0) // make the exponents similar, so that sums cancel
			b = a ^ (random_word(state) & 0x800000ff00000fff), c = b ^ 1;
		uint64_t want = compute_reference(operation, wide, mode, a, b, c);
		uint64_t got = run_on(level, mnemonic, a, b, c);
		if (wide && isnan(f64_of(want)) && isnan(f64_of(got)))
			continue;
		if (got != want)
			FAIL("%s %llx, %llx, %llx is %llx, not %llx", mnemonic, (long long)a, (long long)b,
			     (long long)c, (long long)got, (long long)want);
	}
}

TEST(every_rounding_mode)
{
	uint64_t state = 20240229;

	for (enum ptx_alu_level level = 0; level < PTX_ALU_LEVELS && ptx_alu_level_runs(level); level++)
		for (enum operation operation = 0; operation < OPERATIONS; operation++)
			for (int mode = 0; mode < 4; mode++) {
				check_mode(level, operation, 0, mode, &state);
				check_mode(level, operation, 1, mode, &state);
			}
}

TEST(rounding_mode_of_the_caller_is_restored)
{
	fesetround(FE_UPWARD);
	run_on(PTX_ALU_BASE, "add.rz.f32", 1, 2, 3);
	int mode = fegetround();
	fesetround(FE_TONEAREST);
	CHECK_INT(mode, FE_UPWARD);
}

TEST(flush_and_saturate)
{
	CHECK_INT(run_on(PTX_ALU_BASE, "add.ftz.f32", 0x00000001, 0x00000001, 0), 0);
	CHECK_INT(run_on(PTX_ALU_BASE, "add.ftz.f32", 0x807fffff, 0x80000000, 0), 0x80000000);
	CHECK_INT(run_on(PTX_ALU_BASE, "mul.ftz.f32", 0x00800000, 0xbf000000, 0), 0x80000000);
	CHECK_INT(run_on(PTX_ALU_BASE, "mul.f32", 0x00800000, 0xbf000000, 0), 0x80400000);
	CHECK_INT(run_on(PTX_ALU_BASE, "add.sat.f32", 0x3f800000, 0x3f800000, 0), 0x3f800000);
	CHECK_INT(run_on(PTX_ALU_BASE, "add.sat.f32", 0x7fc00000, 0x3f800000, 0), 0);
	CHECK_INT(run_on(PTX_ALU_BASE, "add.sat.f32", 0xbf800000, 0x00000000, 0), 0);
}

TEST(multiply_and_add_without_a_mode_rounds_once)
{
	CHECK_INT(run_on(PTX_ALU_BASE, "mad.f32", 0x3f800001, 0x3f800001, 0xbf800002), 0x28800000); // 2^-46
	CHECK_INT(run_on(PTX_ALU_BASE, "mad.ftz.f32", 0x3f800000, 0x00000001, 0), 0);
	CHECK_INT(run_on(PTX_ALU_BASE, "mad.sat.f32", 0x40000000, 0x40000000, 0), 0x3f800000);
	CHECK_INT(run_on(PTX_ALU_BASE, "mad.ftz.sat.f32", 0x40000000, 0x3e800000, 0x00000001), 0x3f000000);
}

// Tests results whose magnitude is below 2^-126 before rounding. With .ftz they become 0 in every rounding mode, as on
// an H200.
TEST(flush_at_the_border)
{
	const uint32_t least = 0x00800000, below_1 = 0x3f7fffff, below_minus_1 = 0xbf7fffff, above_1 = 0x3f800001;
	CHECK_INT(run_on(PTX_ALU_BASE, "mul.rn.f32", below_1, least, 0), 0x00800000);
	CHECK_INT(run_on(PTX_ALU_BASE, "mul.rn.ftz.f32", below_1, least, 0), 0);
	CHECK_INT(run_on(PTX_ALU_BASE, "mul.rn.ftz.f32", below_minus_1, least, 0), 0x80000000);
	CHECK_INT(run_on(PTX_ALU_BASE, "mul.rp.ftz.f32", below_1, least, 0), 0);
	CHECK_INT(run_on(PTX_ALU_BASE, "mul.rn.ftz.f32", above_1, least, 0), 0x00800001);
	CHECK_INT(run_on(PTX_ALU_BASE, "mul.rn.ftz.f32", 0x3f800000, least, 0), 0x00800000);
	CHECK_INT(run_on(PTX_ALU_BASE, "fma.rn.ftz.f32", below_1, least, 0x80000001), 0);
	CHECK_INT(run_on(PTX_ALU_BASE, "fma.rn.ftz.f32", below_minus_1, least, 0), 0x80000000);
	CHECK_INT(run_on(PTX_ALU_BASE, "fma.rp.ftz.f32", below_1, least, 0), 0);
	CHECK_INT(run_on(PTX_ALU_BASE, "fma.rn.ftz.f32", above_1, least, 0), 0x00800001);
	CHECK_INT(run_on(PTX_ALU_BASE, "fma.rn.ftz.f32", 0, least, 0x80800000), 0x80800000);
	CHECK_INT(run_on(PTX_ALU_BASE, "fma.rn.ftz.f32", 0x40000000, least, 0x80800000), 0x00800000);
}

// Tests NaN operands of f64 instructions. If both sources are NaN, the result is the second one, made quiet, as on an
// H200.
TEST(nan_payload_of_f64)
{
	const uint64_t one = 0x7ff8000000000111, two = 0xfff0000000000222, quiet_two = 0xfff8000000000222;
	static const char *const texts[] = {"add.rn.f64", "sub.rn.f64", "mul.rn.f64", "min.f64", "max.f64"};

	for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
		CHECK(run_on(PTX_ALU_BASE, texts[k], one, two, 0) == quiet_two);
		CHECK(run_on(PTX_ALU_BASE, texts[k], two, one, 0) == one);
	}
	CHECK(run_on(PTX_ALU_BASE, "div.rn.f64", one, two, 0) == one);
	CHECK(run_on(PTX_ALU_BASE, "fma.rn.f64", one, two, one) == quiet_two);
	CHECK(run_on(PTX_ALU_BASE, "fma.rn.f64", two, one, two) == one);
	CHECK(run_on(PTX_ALU_BASE, "fma.rn.f64", bits_f64(1), bits_f64(2), two) == quiet_two);
	CHECK(run_on(PTX_ALU_BASE, "rsqrt.approx.f64", two, 0, 0) == quiet_two);
	CHECK(run_on(PTX_ALU_BASE, "rsqrt.approx.ftz.f64", bits_f64(-1), 0, 0) == 0x7fffffff00000000);
}

TEST(minimum_and_maximum)
{
	CHECK_INT(run_on(PTX_ALU_BASE, "min.f32", 0x80000000, 0, 0), 0x80000000);
	CHECK_INT(run_on(PTX_ALU_BASE, "min.f32", 0, 0x80000000, 0), 0x80000000);
	CHECK_INT(run_on(PTX_ALU_BASE, "max.f32", 0x80000000, 0, 0), 0);
	CHECK_INT(run_on(PTX_ALU_BASE, "max.f32", 0x7fc00001, 0xc0000000, 0), 0xc0000000);
	CHECK_INT(run_on(PTX_ALU_BASE, "max.NaN.f32", 0x7fc00001, 0xc0000000, 0), 0x7fffffff);
	CHECK_INT(run_on(PTX_ALU_BASE, "min.f32", 0xffc00001, 0x7fc00000, 0), 0x7fffffff);
	CHECK_INT(run_on(PTX_ALU_BASE, "min.xorsign.abs.f32", 0xc0000000, 0x40400000, 0), 0xc0000000);
}

struct comparison {
	const char *name;
	int less, equal, greater, unordered;
};

TEST(comparisons)
{
	static const struct comparison all[] = {
		{"eq", 0, 1, 0, 0},  {"ne", 1, 0, 1, 0},  {"lt", 1, 0, 0, 0},  {"le", 1, 1, 0, 0},  {"gt", 0, 0, 1, 0},
		{"ge", 0, 1, 1, 0},  {"equ", 0, 1, 0, 1}, {"neu", 1, 0, 1, 1}, {"ltu", 1, 0, 0, 1}, {"leu", 1, 1, 0, 1},
		{"gtu", 0, 0, 1, 1}, {"geu", 0, 1, 1, 1}, {"num", 1, 1, 1, 0}, {"nan", 0, 0, 0, 1},
	};
	static const char *const float_types[] = {"f32", "f64", "f16", "bf16"};
	static const uint64_t low[] = {0xbf800000, 0xbff0000000000000, 0xbc00, 0xbf80};
	static const uint64_t high[] = {0x40000000, 0x4000000000000000, 0x4000, 0x4000};
	static const uint64_t nan[] = {0x7fc00000, 0x7ff8000000000000, 0x7e00, 0x7fc0};

	for (unsigned k = 0; k < sizeof all / sizeof *all; k++)
		for (unsigned t = 0; t < 4; t++) {
			char mnemonic[32];
			snprintf(mnemonic, sizeof mnemonic, "setp.%s.%s", all[k].name, float_types[t]);
			CHECK_INT(run_on(PTX_ALU_BASE, mnemonic, low[t], high[t], 0), all[k].less);
			CHECK_INT(run_on(PTX_ALU_BASE, mnemonic, low[t], low[t], 0), all[k].equal);
			CHECK_INT(run_on(PTX_ALU_BASE, mnemonic, high[t], low[t], 0), all[k].greater);
			CHECK_INT(run_on(PTX_ALU_BASE, mnemonic, nan[t], low[t], 0), all[k].unordered);
			CHECK_INT(run_on(PTX_ALU_BASE, mnemonic, high[t], nan[t], 0), all[k].unordered);
		}
}

// Tests setp with two results, p and q. q is the negated comparison, combined with the same predicate as p.
TEST(both_predicates)
{
	struct registers registers = {0};

	for (unsigned lane = 0; lane < 32; lane++) {
		lanes_store(&registers.source[0], lane, 32, lane);
		lanes_store(&registers.source[1], lane, 32, 10);
	}
	lanes_store(&registers.source[2], 0, 1, 0);
	*(uint32_t *)&registers.source[2] = 0x0ff00ff0;
	run_form(find_form(PTX_ALU_BASE, "setp.lt.and.u32"), &registers, UINT32_MAX);
	CHECK_INT(*(uint32_t *)&registers.d, 0x3ffu & 0x0ff00ff0);
	CHECK_INT(*(uint32_t *)&registers.e, ~0x3ffu & 0x0ff00ff0);
	run_form(find_form(PTX_ALU_BASE, "set.lt.xor.u32.s32"), &registers, UINT32_MAX);
	CHECK_INT((uint32_t)lanes_load(&registers.d, 5, 32), 0);
	CHECK_INT((uint32_t)lanes_load(&registers.d, 20, 32), 0xffffffff);
}

// Tests that the errors of the approximate instructions are within the limits in the PTX ISA's documentation.
TEST(approximations)
{
	for (int i = 1; i < 2000; i++) {
		float x = (float)i * 0.0031f - 3.1f, y = (float)i * 0.37f;
		double sine = (double)f32_of(run_on(PTX_ALU_BASE, "sin.approx.f32", bits_f32(x), 0, 0));
		double power = (double)f32_of(run_on(PTX_ALU_BASE, "ex2.approx.f32", bits_f32(x), 0, 0));
		double logarithm = (double)f32_of(run_on(PTX_ALU_BASE, "lg2.approx.f32", bits_f32(y), 0, 0));
		double inverse = (double)f32_of(run_on(PTX_ALU_BASE, "rcp.approx.ftz.f32", bits_f32(y), 0, 0));
		double root = (double)f32_of(run_on(PTX_ALU_BASE, "rsqrt.approx.f32", bits_f32(y), 0, 0));
		double seed = f64_of(run_on(PTX_ALU_BASE, "rcp.approx.ftz.f64", bits_f64((double)y), 0, 0));
		CHECK(fabs(sine - sin((double)x)) <= 0x1p-20);
		CHECK(fabs(power / exp2((double)x) - 1) <= 0x1p-22);
		CHECK(fabs(logarithm - log2((double)y)) <= 0x1p-22 * fmax(1, fabs(logarithm)));
		CHECK(fabs(inverse * (double)y - 1) <= 0x1p-23);
		CHECK(fabs(root * sqrt((double)y) - 1) <= 0x1p-22);
		CHECK(fabs(seed * (double)y - 1) <= 0x1p-18);
	}
	CHECK_INT(run_on(PTX_ALU_BASE, "ex2.approx.f32", 0xff800000, 0, 0), 0);
	CHECK_INT(run_on(PTX_ALU_BASE, "lg2.approx.f32", 0, 0, 0), 0xff800000);
	CHECK_INT(run_on(PTX_ALU_BASE, "sin.approx.f32", 0x7f800000, 0, 0), 0x7fffffff);
	CHECK_INT(run_on(PTX_ALU_BASE, "rsqrt.approx.f32", 0xbf800000, 0, 0), 0x7fffffff);
	CHECK_INT(run_on(PTX_ALU_BASE, "sin.approx.f32", 0x80000001, 0, 0), 0x80000000);
}
