// Tests every comparison of halves: 14 operators, both formats, with and without .ftz, alone and in pairs, on all pairs
// of edge values. The reference compares their bits as integers.
#include <stdbool.h>

#include "run.h"

static const struct {
	const char *name;
	// the operator is true for these results of a comparison; bits 0 to 3: less, equal, greater, unordered
	unsigned truth;
} operators[] = {
	{"eq", 2},   {"ne", 5},	 {"lt", 1},   {"le", 3},   {"gt", 4},	{"ge", 6},  {"equ", 10},
	{"neu", 13}, {"ltu", 9}, {"leu", 11}, {"gtu", 12}, {"geu", 14}, {"num", 7}, {"nan", 8},
};
enum { OPERATORS = sizeof operators / sizeof *operators };

static const struct format {
	const char *name, *flags;
	unsigned least_normal, infinity, one;
	bool flushes;
} formats[] = {
	{"f16", "", 0x0400, 0x7c00, 0x3c00, false},
	{"f16", "ftz.", 0x0400, 0x7c00, 0x3c00, true},
	{"bf16", "", 0x0080, 0x7f80, 0x3f80, false},
};
enum { FORMATS = sizeof formats / sizeof *formats };

// The edge values have these magnitudes: 0, subnormals, the least normal number, 1, its neighbour, the greatest finite
// number, infinity, a signalling and a quiet NaN. Each occurs with both signs.
enum { MAGNITUDES = 11, CODES = 2 * MAGNITUDES, LANES = 32, PAIRS = CODES * CODES };

static unsigned edge_bits(const struct format *format, unsigned index)
{
	const unsigned magnitudes[MAGNITUDES] = {0,
						 1,
						 2,
						 format->least_normal - 1,
						 format->least_normal,
						 format->one,
						 format->one + 1,
						 format->infinity - 1,
						 format->infinity,
						 format->infinity + 1,
						 0x7fff};

	return magnitudes[index % MAGNITUDES] | (index >= MAGNITUDES ? 0x8000 : 0);
}

static int order_of(const struct format *format, unsigned half)
{
	int magnitude = (int)(half & 0x7fff);

	if (format->flushes && magnitude < (int)format->least_normal)
		magnitude = 0;
	return half & 0x8000 ? -magnitude : magnitude;
}

static bool compares(const struct format *format, unsigned truth, unsigned a, unsigned b)
{
	int x = order_of(format, a), y = order_of(format, b);
	bool unordered = (a & 0x7fff) > format->infinity || (b & 0x7fff) > format->infinity;

	return truth >> (unordered ? 3 : x < y ? 0 : x == y ? 1 : 2) & 1;
}

// The operands of a warp: for each lane, a pair of edge values in the low halves and another pair in the high halves.
struct operands {
	unsigned a[2][LANES], b[2][LANES];
	uint32_t predicate;
};

static void fill_operands(const struct format *format, unsigned first, struct operands *operands)
{
	for (unsigned lane = 0; lane < LANES; lane++)
		for (unsigned high = 0; high < 2; high++) {
			unsigned pair = (first + lane + high * 173) % PAIRS;
			operands->a[high][lane] = edge_bits(format, pair / CODES);
			operands->b[high][lane] = edge_bits(format, pair % CODES);
		}
	operands->predicate = first * 0x9e3779b9u ^ 0x5a5a3c3c;
}

// Returns the lanes in which the comparison of the low halves is true, or of the high halves if `high`.
static uint32_t find_truth(const struct format *format, unsigned truth, const struct operands *operands, unsigned high)
{
	uint32_t lanes = 0;

	for (unsigned lane = 0; lane < LANES; lane++)
		lanes |= (uint32_t)compares(format, truth, operands->a[high][lane], operands->b[high][lane]) << lane;
	return lanes;
}

static void run_all(const struct ptx_alu_form *form, const struct operands *operands, struct registers *registers)
{
	*registers = (struct registers){0};
	for (unsigned lane = 0; lane < LANES; lane++) {
		lanes_store(&registers->source[0], lane, form->bits[0],
			    operands->a[0][lane] | (uint64_t)operands->a[1][lane] << 16);
		lanes_store(&registers->source[1], lane, form->bits[1],
			    operands->b[0][lane] | (uint64_t)operands->b[1][lane] << 16);
	}
	*(uint32_t *)&registers->source[2] = operands->predicate;
	run_form(form, registers, UINT32_MAX);
}

static uint32_t combine(const char *word, uint32_t truth, uint32_t predicate)
{
	return !*word ? truth : *word == 'a' ? truth & predicate : *word == 'o' ? truth | predicate : truth ^ predicate;
}
static const char *const words[] = {"", "and.", "or.", "xor."};

static void check_lanes(const struct ptx_alu_form *form, unsigned first, uint32_t got, uint32_t want)
{
	if (got != want)
		FAIL("%s of pairs %u on: %08x, not %08x", form->mnemonic, first, got, want);
}

// Checks the instruction setp. With halves, it sets p to the result and q to its negation. With pairs, it sets p for
// the low and q for the high halves.
static void check_setp(enum ptx_alu_level level, const struct format *format, unsigned k, const char *word, bool pair)
{
	struct registers registers;
	struct operands operands;
	char mnemonic[64];

	snprintf(mnemonic, sizeof mnemonic, "setp.%s.%s%s%s%s", operators[k].name, word, format->flags, format->name,
		 pair ? "x2" : "");
	const struct ptx_alu_form *form = find_form(level, mnemonic);
	for (unsigned first = 0; first < PAIRS; first += LANES) {
		fill_operands(format, first, &operands);
		run_all(form, &operands, &registers);
		uint32_t low = find_truth(format, operators[k].truth, &operands, 0);
		uint32_t other = pair ? find_truth(format, operators[k].truth, &operands, 1) : ~low;
		check_lanes(form, first, *(uint32_t *)&registers.d, combine(word, low, operands.predicate));
		check_lanes(form, first, *(uint32_t *)&registers.e, combine(word, other, operands.predicate));
	}
}

// Checks the instruction set. In each half of a pair, the result must be `yes` where the comparison is true.
static void check_set(enum ptx_alu_level level, const struct format *format, unsigned k, const char *word,
		      const char *result, uint32_t yes, bool pair)
{
	struct registers registers;
	struct operands operands;
	char mnemonic[64];

	snprintf(mnemonic, sizeof mnemonic, "set.%s.%s%s%s.%s%s", operators[k].name, word, format->flags, result,
		 format->name, pair ? "x2" : "");
	const struct ptx_alu_form *form = find_form(level, mnemonic);
	for (unsigned first = 0; first < PAIRS; first += LANES) {
		fill_operands(format, first, &operands);
		run_all(form, &operands, &registers);
		uint32_t low = combine(word, find_truth(format, operators[k].truth, &operands, 0), operands.predicate);
		uint32_t high = pair ? find_truth(format, operators[k].truth, &operands, 1) : 0;
		for (unsigned lane = 0; lane < LANES; lane++)
			check_lanes(form, first, (uint32_t)lanes_load(&registers.d, lane, form->d_bits),
				    (low >> lane & 1 ? yes : 0) | (high >> lane & 1 ? yes << 16 : 0));
	}
}

static void check_operator(enum ptx_alu_level level, const struct format *format, unsigned k)
{
	char pair[16];

	snprintf(pair, sizeof pair, "%sx2", format->name);
	for (unsigned w = 0; w < sizeof words / sizeof *words; w++) {
		check_setp(level, format, k, words[w], false);
		check_setp(level, format, k, words[w], true);
		check_set(level, format, k, words[w], "u32", UINT32_MAX, false);
		check_set(level, format, k, words[w], "s32", UINT32_MAX, false);
		check_set(level, format, k, words[w], "f32", 0x3f800000, false);
		check_set(level, format, k, words[w], "u16", UINT16_MAX, false);
		check_set(level, format, k, words[w], "s16", UINT16_MAX, false);
		check_set(level, format, k, words[w], format->name, format->one, false);
	}
	check_set(level, format, k, "", pair, format->one, true);
	check_set(level, format, k, "", "u32", UINT16_MAX, true);
	check_set(level, format, k, "", "s32", UINT16_MAX, true);
}

TEST(every_operator_on_edges)
{
	for (enum ptx_alu_level level = 0; level < PTX_ALU_LEVELS && ptx_alu_level_runs(level); level++)
		for (unsigned f = 0; f < FORMATS; f++)
			for (unsigned k = 0; k < OPERATORS; k++)
				check_operator(level, &formats[f], k);
}
