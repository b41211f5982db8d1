// Runs each form that reads or writes the carry flag on edge operands, and compares the result with the instruction's
// definition. The flag is the carry out of the word. A subtraction adds the complement, so its flag is 1 if there is no
// borrow.
#include <stdbool.h>

#include "run.h"

struct chain {
	const char *name;
	enum { ADD, SUBTRACT, MULTIPLY_LOW, MULTIPLY_HIGH } what;
	bool reads, writes;
};
static const struct chain chains[] = {
	{"add.cc", ADD, false, true},
	{"addc", ADD, true, false},
	{"addc.cc", ADD, true, true},
	{"sub.cc", SUBTRACT, false, true},
	{"subc", SUBTRACT, true, false},
	{"subc.cc", SUBTRACT, true, true},
	{"mad.lo.cc", MULTIPLY_LOW, false, true},
	{"madc.lo", MULTIPLY_LOW, true, false},
	{"madc.lo.cc", MULTIPLY_LOW, true, true},
	{"mad.hi.cc", MULTIPLY_HIGH, false, true},
	{"madc.hi", MULTIPLY_HIGH, true, false},
	{"madc.hi.cc", MULTIPLY_HIGH, true, true},
};
enum { CHAINS = sizeof chains / sizeof *chains };

struct word_type {
	const char *name;
	unsigned bits;
	bool is_signed;
};
static const struct word_type word_types[] = {
	{"u32", 32, false}, {"s32", 32, true}, {"u64", 64, false}, {"s64", 64, true}};

static const uint64_t edges[] = {
	0,
	1,
	2,
	0x7fff,
	0x10000,
	0x7fffffff,
	0x80000000,
	0x80000001,
	0xfffffffe,
	0xffffffff,
	0x100000000,
	0x7fffffffffffffff,
	0x8000000000000000,
	0x8000000000000001,
	0xfffffffffffffffe,
	0xffffffffffffffff,
	0x123456789abcdef0,
};
enum { EDGES = sizeof edges / sizeof *edges };

static uint64_t truncate_to(unsigned __int128 x, unsigned bits)
{
	return bits == 64 ? (uint64_t)x : (uint32_t)x;
}

// Returns the upper or lower word of the product.
static uint64_t product_word(const struct word_type *type, bool high, uint64_t a, uint64_t b)
{
	unsigned __int128 product;

	if (type->is_signed)
		product = type->bits == 64 ? (unsigned __int128)((__int128)(int64_t)a * (int64_t)b)
					   : (unsigned __int128)((int64_t)(int32_t)a * (int32_t)b);
	else
		product = (unsigned __int128)a * b;
	return truncate_to(high ? product >> type->bits : product, type->bits);
}

// Returns the result that the instruction must compute. *flag is the carry flag before the instruction, and is set to
// the expected flag after it.
static uint64_t compute_expected(const struct chain *chain, const struct word_type *type, uint64_t a, uint64_t b,
				 uint64_t c, unsigned *flag)
{
	unsigned carry_in = chain->reads ? *flag : chain->what == SUBTRACT;
	uint64_t x = a, y = b, sum, carry_out;

	if (chain->what == SUBTRACT) {
		y = truncate_to(~b, type->bits);
	} else if (chain->what != ADD) {
		x = product_word(type, chain->what == MULTIPLY_HIGH, a, b);
		y = c;
	}
	if (type->bits == 32) {
		sum = x + y + carry_in;
		carry_out = sum >> 32;
	} else {
		carry_out = __builtin_add_overflow(x, y, &sum);
		carry_out |= __builtin_add_overflow(sum, carry_in, &sum);
	}
	if (chain->writes)
		*flag = (unsigned)carry_out;
	return truncate_to(sum, type->bits);
}

// Checks one form on one lane. The flags of all other lanes must stay as they are.
static void check_operands(const struct ptx_alu_form *form, const struct chain *chain, const struct word_type *type,
			   const uint64_t operands[3], unsigned carry_in, unsigned *seen)
{
	enum { LANE = 9 };
	const uint32_t others = 0xdeadbeef & ~(1u << LANE);
	struct registers registers = {.carry = others | carry_in << LANE};
	unsigned flag = carry_in;
	uint64_t a = truncate_to(operands[0], type->bits), b = truncate_to(operands[1], type->bits);
	uint64_t c = truncate_to(operands[2], type->bits), want = compute_expected(chain, type, a, b, c, &flag);

	lanes_store(&registers.source[0], LANE, type->bits, a);
	lanes_store(&registers.source[1], LANE, type->bits, b);
	lanes_store(&registers.source[2], LANE, type->bits, c);
	run_form(form, &registers, 1u << LANE);
	uint64_t got = lanes_load(&registers.d, LANE, type->bits);
	if (got != want || registers.carry != (others | flag << LANE))
		FAIL("%s %llx, %llx, %llx with flag %u is %llx with flag %u, not %llx with flag %u", form->mnemonic,
		     (long long)a, (long long)b, (long long)c, carry_in, (long long)got, registers.carry >> LANE & 1,
		     (long long)want, flag);
	*seen |= 1u << (carry_in * 2 + flag);
}

static void check_form(const struct chain *chain, const struct word_type *type)
{
	char mnemonic[32];
	unsigned seen = 0; // bit 2 * old + new is set if a lane changed the flag from `old` to `new`

	snprintf(mnemonic, sizeof mnemonic, "%s.%s", chain->name, type->name);
	const struct ptx_alu_form *form = find_form(PTX_ALU_BASE, mnemonic);
	size_t thirds = chain->what >= MULTIPLY_LOW ? EDGES : 1;
	for (size_t i = 0; i < EDGES * EDGES * thirds * 2; i++) {
		uint64_t operands[3] = {edges[i / 2 % EDGES], edges[i / 2 / EDGES % EDGES],
					edges[i / 2 / EDGES / EDGES]};
		check_operands(form, chain, type, operands, i % 2, &seen);
	}
	// all four changes must have occurred; a form that only reads the flag must never change it
	if (seen != (chain->writes ? 0xfu : 0x9u))
		FAIL("%s: the operands miss a carry (%x)", mnemonic, seen);
}

TEST(every_form_and_carry)
{
	for (unsigned i = 0; i < CHAINS; i++)
		for (unsigned t = 0; t < sizeof word_types / sizeof *word_types; t++)
			check_form(&chains[i], &word_types[t]);
}

// Tests a sequence from nvcc's 128-bit division: addc reads the flag that tells whether a chain of subtractions became
// negative.
TEST(flag_of_a_subtraction_read_by_addc)
{
	struct registers registers = {0};

	for (uint32_t a = 0; a < 2; a++)
		for (uint32_t b = 0; b < 2; b++) {
			lanes_store(&registers.source[0], 0, 32, a);
			lanes_store(&registers.source[1], 0, 32, b);
			run_form(find_form(PTX_ALU_BASE, "sub.cc.u32"), &registers, 1);
			lanes_store(&registers.source[0], 0, 32, 0);
			lanes_store(&registers.source[1], 0, 32, 0);
			run_form(find_form(PTX_ALU_BASE, "addc.u32"), &registers, 1);
			CHECK_INT(lanes_load(&registers.d, 0, 32), a >= b);
		}
}
