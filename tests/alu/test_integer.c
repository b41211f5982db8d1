// Compares the integer forms with 128-bit arithmetic, and with definitions that compute bit by bit.
#include "run.h"

#define run_one(...) run_in_lane(9, __VA_ARGS__)

typedef unsigned __int128 u128;
typedef __int128 s128;

static uint64_t low_bits(u128 x, unsigned bits)
{
	return (uint64_t)x & (bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1);
}
static s128 signed_value(uint64_t x, unsigned bits, int is_signed)
{
	x = low_bits(x, bits);
	return is_signed && x >> (bits - 1) ? (s128)x - ((s128)1 << bits) : (s128)x;
}

struct integer_type {
	const char *name;
	unsigned bits;
	int is_signed;
};
static const struct integer_type types[] = {{"u16", 16, 0}, {"s16", 16, 1}, {"u32", 32, 0},
					    {"s32", 32, 1}, {"u64", 64, 0}, {"s64", 64, 1}};

static void check_type(const struct integer_type *type, const char *name, s128 want, uint64_t a, uint64_t b, uint64_t c,
		       unsigned bits)
{
	char mnemonic[64];

	snprintf(mnemonic, sizeof mnemonic, "%s.%s", name, type->name);
	uint64_t got = run_one(mnemonic, a, b, c);
	if (got != low_bits((u128)want, bits))
		FAIL("%s %llx, %llx, %llx is %llx, not %llx", mnemonic, (long long)a, (long long)b, (long long)c,
		     (long long)got, (long long)low_bits((u128)want, bits));
}

TEST(arithmetic)
{
	uint64_t state = 1234567;

	for (unsigned t = 0; t < 6; t++)
		for (unsigned round = 0; round < 300; round++) {
			const struct integer_type *type = types + t;
			unsigned bits = type->bits;
			uint64_t a = random_word(&state), b = random_word(&state), c = random_word(&state);
			s128 x = signed_value(a, bits, type->is_signed), y = signed_value(b, bits, type->is_signed);
			s128 z = signed_value(c, bits, type->is_signed);
			// Computes the product as unsigned, because the product of two 64-bit unsigned numbers does not
			// fit into a signed 128-bit one.
			u128 product = (u128)x * (u128)y;
			s128 high = type->is_signed ? (s128)product >> bits : (s128)(product >> bits);
			check_type(type, "add", x + y, a, b, c, bits);
			check_type(type, "sub", x - y, a, b, c, bits);
			check_type(type, "mul.lo", (s128)product, a, b, c, bits);
			check_type(type, "mul.hi", high, a, b, c, bits);
			check_type(type, "mad.lo", (s128)(product + (u128)z), a, b, c, bits);
			check_type(type, "mad.hi", (s128)((u128)high + (u128)z), a, b, c, bits);
			check_type(type, "min", x < y ? x : y, a, b, c, bits);
			check_type(type, "max", x > y ? x : y, a, b, c, bits);
			check_type(type, "sad", z + (x > y ? x - y : y - x), a, b, c, bits);
			check_type(type, "div", y ? x / y : -1, a, b, c, bits);
			if (y)
				check_type(type, "rem", x % y, a, b, c, bits);
			if (type->is_signed)
				check_type(type, "abs", x < 0 ? -x : x, a, b, c, bits);
			if (bits == 64)
				continue;
			check_type(type, "mul.wide", x * y, a, b, c, 2 * bits);
			check_type(type, "mad.wide", x * y + signed_value(c, 2 * bits, type->is_signed), a, b, c,
				   2 * bits);
		}
}

TEST(division_never_traps)
{
	CHECK(run_one("div.u32", 5, 0, 0) == UINT32_MAX);
	CHECK(run_one("div.u64", 5, 0, 0) == UINT64_MAX);
	CHECK(run_one("div.s32", 0x80000000, 0xffffffff, 0) == 0x80000000);
	CHECK(run_one("div.s64", (uint64_t)1 << 63, UINT64_MAX, 0) == (uint64_t)1 << 63);
	CHECK(run_one("rem.s64", (uint64_t)1 << 63, UINT64_MAX, 0) == 0);
	CHECK(run_one("div.s16", 0x8000, 0xffff, 0) == 0x8000);
}

TEST(saturation)
{
	uint64_t state = 99;

	for (unsigned round = 0; round < 1000; round++) {
		uint64_t a = random_word(&state), b = random_word(&state);
		s128 x = signed_value(a, 32, 1), y = signed_value(b, 32, 1), sum = x + y, difference = x - y;
		sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
		difference = difference > INT32_MAX ? INT32_MAX : difference < INT32_MIN ? INT32_MIN : difference;
		CHECK(run_one("add.sat.s32", a, b, 0) == low_bits((u128)sum, 32));
		CHECK(run_one("sub.sat.s32", a, b, 0) == low_bits((u128)difference, 32));
	}
}

// Adds or subtracts 128-bit numbers with a chain of instructions on four 32-bit words or two 64-bit words.
static u128 add_chain(const char *first, const char *next, const char *last, unsigned bits, u128 x, u128 y)
{
	struct registers registers = {0};
	unsigned words = 128 / bits;
	u128 result = 0;

	registers.carry = 0xdeadbeef;
	for (unsigned w = 0; w < words; w++) {
		char mnemonic[32];
		snprintf(mnemonic, sizeof mnemonic, "%s.u%u", w == 0 ? first : w == words - 1 ? last : next, bits);
		lanes_store(&registers.source[0], 3, bits, low_bits(x >> w * bits, bits));
		lanes_store(&registers.source[1], 3, bits, low_bits(y >> w * bits, bits));
		run_form(find_form(PTX_ALU_BASE, mnemonic), &registers, 1u << 3);
		result |= (u128)lanes_load(&registers.d, 3, bits) << w * bits;
	}
	CHECK((registers.carry & ~8u) == (0xdeadbeef & ~8u));
	return result;
}

TEST(carry_chains)
{
	uint64_t state = 4242;

	for (unsigned round = 0; round < 500; round++) {
		u128 x = (u128)random_word(&state) << 64 | random_word(&state);
		u128 y = (u128)random_word(&state) << 64 | random_word(&state);
		CHECK(add_chain("add.cc", "addc.cc", "addc", 32, x, y) == x + y);
		CHECK(add_chain("add.cc", "addc.cc", "addc", 64, x, y) == x + y);
		CHECK(add_chain("sub.cc", "subc.cc", "subc", 32, x, y) == x - y);
		CHECK(add_chain("sub.cc", "subc.cc", "subc", 64, x, y) == x - y);
	}
}

TEST(multiply_with_carry)
{
	uint64_t state = 777;
	struct registers registers = {0};

	for (unsigned round = 0; round < 500; round++) {
		uint32_t x = (uint32_t)random_word(&state), y = (uint32_t)random_word(&state);
		uint64_t z = random_word(&state), want = (uint64_t)x * y + z;
		lanes_store(&registers.source[0], 0, 32, x);
		lanes_store(&registers.source[1], 0, 32, y);
		lanes_store(&registers.source[2], 0, 32, z);
		run_form(find_form(PTX_ALU_BASE, "mad.lo.cc.u32"), &registers, 1);
		CHECK(lanes_load(&registers.d, 0, 32) == (uint32_t)want);
		lanes_store(&registers.source[2], 0, 32, z >> 32);
		run_form(find_form(PTX_ALU_BASE, "madc.hi.cc.u32"), &registers, 1);
		CHECK(lanes_load(&registers.d, 0, 32) == want >> 32);
		CHECK((registers.carry & 1) == (uint32_t)((u128)((u128)(uint64_t)((uint64_t)x * y) + z) >> 64));
	}
}

TEST(shifts_clamp)
{
	uint64_t state = 31337;

	for (unsigned round = 0; round < 2000; round++) {
		uint64_t a = random_word(&state);
		uint32_t by = (uint32_t)random_word(&state);
		uint64_t funnel = a, n = by & 31, m = by < 32 ? by : 32;
		CHECK(run_one("shl.b32", a, by, 0) == (by > 31 ? 0 : (uint32_t)a << by));
		CHECK(run_one("shr.u64", a, by, 0) == (by > 63 ? 0 : a >> by));
		CHECK(run_one("shl.b64", a, by, 0) == (by > 63 ? 0 : a << by));
		CHECK(run_one("shr.s32", a, by, 0) == (uint32_t)((int32_t)a >> (by > 31 ? 31 : by)));
		CHECK(run_one("shr.s16", a, by, 0) == (uint16_t)((int16_t)a >> (by > 15 ? 15 : by)));
		CHECK(run_one("shf.l.wrap.b32", (uint32_t)funnel, funnel >> 32, by) == (uint32_t)(funnel << n >> 32));
		CHECK(run_one("shf.r.wrap.b32", (uint32_t)funnel, funnel >> 32, by) == (uint32_t)(funnel >> n));
		CHECK(run_one("shf.l.clamp.b32", (uint32_t)funnel, funnel >> 32, by) == (uint32_t)(funnel << m >> 32));
		CHECK(run_one("shf.r.clamp.b32", (uint32_t)funnel, funnel >> 32, by) == (uint32_t)(funnel >> m));
	}
}

// Compares bfe and bfi with their definitions bit by bit.
TEST(bit_fields)
{
	uint64_t state = 5150;

	for (unsigned round = 0; round < 3000; round++) {
		uint64_t a = random_word(&state), b = random_word(&state);
		uint32_t start = (uint32_t)random_word(&state) & 0xff, length = (uint32_t)random_word(&state) & 0xff;
		uint64_t plain = 0, with_sign = 0, inserted = b;
		unsigned top = start + length - 1 > 63 ? 63 : start + length - 1;
		for (unsigned i = 0; i < 64; i++) {
			uint64_t bit = start + i < 64 ? a >> (start + i) & 1 : 0;
			if (i < length && start + i < 64)
				plain |= bit << i;
			if (length)
				with_sign |= (i < length && start + i < 64 ? bit : a >> top & 1) << i;
			if (i < length && start + i < 64)
				inserted = (inserted & ~((uint64_t)1 << (start + i))) | (a >> i & 1) << (start + i);
		}
		CHECK(run_one("bfe.u64", a, start, length) == plain);
		CHECK(run_one("bfe.s64", a, start, length) == with_sign);
		const struct ptx_alu_form *form = find_form(PTX_ALU_BASE, "bfi.b64");
		struct registers registers = {0};
		lanes_store(&registers.source[0], 0, 64, a);
		lanes_store(&registers.source[1], 0, 64, b);
		lanes_store(&registers.source[2], 0, 32, start);
		lanes_store(&registers.source[3], 0, 32, length);
		run_form(form, &registers, 1);
		CHECK(lanes_load(&registers.d, 0, 64) == inserted);
	}
}

TEST(searches)
{
	uint64_t state = 60;

	for (unsigned round = 0; round < 2000; round++) {
		uint64_t a = random_word(&state);
		uint32_t count = 0, highest = UINT32_MAX, reversed = 0, differs = UINT32_MAX;
		for (unsigned i = 0; i < 32; i++) {
			unsigned bit = a >> i & 1;
			count += bit;
			highest = bit ? i : highest;
			reversed |= bit << (31 - i);
			if (bit != (a >> 31 & 1))
				differs = i;
		}
		CHECK(run_one("popc.b32", a, 0, 0) == count);
		CHECK(run_one("clz.b32", a, 0, 0) == (highest == UINT32_MAX ? 32 : 31 - highest));
		CHECK(run_one("bfind.u32", a, 0, 0) == highest);
		CHECK(run_one("bfind.shiftamt.u32", a, 0, 0) == (highest == UINT32_MAX ? highest : 31 - highest));
		CHECK(run_one("bfind.s32", a, 0, 0) == differs);
		CHECK(run_one("brev.b32", a, 0, 0) == reversed);
	}
	CHECK(run_one("fns.b32", 0xaaaaaaaa, 3, 1) == 3);
	CHECK(run_one("fns.b32", 0xaaaaaaaa, 3, (uint32_t)-1) == 3);
	CHECK(run_one("fns.b32", 0xaaaaaaaa, 3, (uint32_t)-2) == 1);
	CHECK(run_one("fns.b32", 0xaaaaaaaa, 3, 99) == UINT32_MAX);
}

TEST(lookup_tables_of_lop3)
{
	uint64_t state = 8080;
	const struct ptx_alu_form *form = find_form(PTX_ALU_BASE, "lop3.b32");

	for (unsigned table = 0; table < 256; table++) {
		struct registers registers = {.immediate = table};
		uint32_t x = (uint32_t)random_word(&state), y = (uint32_t)random_word(&state);
		uint32_t z = (uint32_t)random_word(&state), want = 0;
		lanes_store(&registers.source[0], 5, 32, x);
		lanes_store(&registers.source[1], 5, 32, y);
		lanes_store(&registers.source[2], 5, 32, z);
		for (unsigned i = 0; i < 32; i++)
			want |= (table >> ((x >> i & 1) * 4 + (y >> i & 1) * 2 + (z >> i & 1)) & 1) << i;
		run_form(form, &registers, 1u << 5);
		CHECK_INT(lanes_load(&registers.d, 5, 32), want);
	}
}

TEST(permutations)
{
	CHECK_INT(run_one("prmt.b32", 0x33221100, 0x77665544, 0x7531), 0x77553311);
	// each byte of the result consists of copies of the sign bit of a byte of the source
	CHECK_INT(run_one("prmt.b32", 0x80007f00, 0, 0xba98), 0xff000000);
	CHECK_INT(run_one("prmt.b32.f4e", 0x33221100, 0x77665544, 1), 0x44332211);
	CHECK_INT(run_one("prmt.b32.b4e", 0x33221100, 0x77665544, 1), 0x66770011);
	CHECK_INT(run_one("prmt.b32.rc8", 0x33221100, 0x77665544, 2), 0x22222222);
	CHECK_INT(run_one("prmt.b32.rc16", 0x33221100, 0x77665544, 1), 0x33223322);
	CHECK_INT(run_one("prmt.b32.ecl", 0x33221100, 0x77665544, 1), 0x33221111);
	CHECK_INT(run_one("prmt.b32.ecr", 0x33221100, 0x77665544, 2), 0x22221100);
}

TEST(dot_products)
{
	CHECK_INT(run_one("dp4a.u32.u32", 0xff010203, 0x02030405, 10), 255 * 2 + 3 + 8 + 15 + 10);
	CHECK_INT((int32_t)run_one("dp4a.s32.s32", 0xff010203, 0x02030405, 10), -2 + 3 + 8 + 15 + 10);
	CHECK_INT((int32_t)run_one("dp4a.s32.u32", 0xff000000, 0xff000000, 0), -255);
	CHECK_INT((int32_t)run_one("dp2a.lo.s32.u32", 0xffff0003, 0x99880502, 1), -5 + 6 + 1);
	CHECK_INT((int32_t)run_one("dp2a.hi.s32.s32", 0xffff0003, 0xff040502, 1), 1 + 12 + 1);
	CHECK_INT(run_one("vabsdiff4.u32.u32.u32.add", 0x01ff0305, 0x0501ff05, 7), 4 + 254 + 252 + 7);
	CHECK_INT(run_one("vadd4.u32.u32.u32.sat", 0xff10807f, 0x0210807f, 0), 0xff20fffe);
	CHECK_INT(run_one("vadd4.s32.s32.s32.sat", 0x7f808001, 0x0180ff01, 0), 0x7f808002);
	CHECK_INT(run_one("vset4.u32.u32.lt", 0x01020304, 0x02020205, 0), 0x01000001);
}
