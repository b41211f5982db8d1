// Runs one form of a PTX instruction: the function that computes it for one mnemonic, such as add.f32. A level, such as
// AVX2, selects the host processor for which the function was compiled.
// Operands and results are 64-bit words, one for each lane. All functions are pure, so any thread may call them.
#pragma once

#include <stdint.h>

#include "forms.h"
#include "test.h"

struct lanes {
	_Alignas(64) uint64_t word[32];
};

// Stores the value of one lane into a register. A register is an array of 32 elements of `bits` bits. The register of a
// predicate is a mask.
static inline void lanes_store(struct lanes *lanes, unsigned lane, unsigned bits, uint64_t value)
{
	if (bits == 1) {
		uint32_t *mask = (uint32_t *)lanes;
		*mask = (*mask & ~((uint32_t)1 << lane)) | (uint32_t)(value & 1) << lane;
	} else if (bits == 16) {
		((uint16_t *)lanes)[lane] = (uint16_t)value;
	} else if (bits == 32) {
		((uint32_t *)lanes)[lane] = (uint32_t)value;
	} else {
		lanes->word[lane] = value;
	}
}

static inline uint64_t lanes_load(const struct lanes *lanes, unsigned lane, unsigned bits)
{
	if (bits == 1)
		return *(const uint32_t *)lanes >> lane & 1;
	if (bits == 16)
		return ((const uint16_t *)lanes)[lane];
	if (bits == 32)
		return ((const uint32_t *)lanes)[lane];
	return lanes->word[lane];
}

static inline const struct ptx_alu_form *find_form(enum ptx_alu_level level, const char *mnemonic)
{
	size_t count;
	const struct ptx_alu_form *const *forms = ptx_alu_level_forms(level, &count);

	for (size_t i = 0; i < count; i++)
		if (strcmp(forms[i]->mnemonic, mnemonic) == 0)
			return forms[i];
	FAIL("no form %s", mnemonic);
}

struct registers {
	struct lanes d, e, source[4];
	uint32_t carry, immediate;
};

static inline void run_form(const struct ptx_alu_form *form, struct registers *registers, uint32_t mask)
{
	struct ptx_alu alu = {&registers->d,
			      &registers->e,
			      &registers->source[0],
			      &registers->source[1],
			      &registers->source[2],
			      &registers->source[3],
			      mask,
			      &registers->carry,
			      registers->immediate};

	form->run(&alu);
}

// Returns a random word. Edge values are more frequent than other values.
static inline uint64_t random_word(uint64_t *state)
{
	static const uint64_t edges[] = {
		0,
		1,
		2,
		3,
		31,
		32,
		33,
		63,
		64,
		127,
		128,
		255,
		0x7fff,
		0x8000,
		0xffff,
		0x3c00,
		0x7c00,
		0xfc00,
		0x7c01,
		0x3f80,
		0x7f80,
		0x0001000100010001,
		0x8000800080008000,
		0x7fffffff7fffffff,
		0x8000000080000000,
		0xffffffffffffffff,
		0xffffffff,
		0x100000000,
		0x3f8000003f800000,
		0x7f8000007f800000,
		0x7ff0000000000000,
		0xfff0000000000000,
		0x7ff8000000000001,
		0x0010000000000000,
		0x000fffffffffffff,
		0x0080000000800000,
		0x007fffff007fffff,
		0x7f7fffff7f7fffff,
		0x7fefffffffffffff,
		0x4330000000000001,
		0xfffffffffffffffe,
	};

	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	uint64_t draw = *state * 0x2545f4914f6cdd1du;
	if (draw >> 62 == 0)
		return edges[(draw >> 8) % (sizeof edges / sizeof *edges)];
	if (draw >> 62 == 1)
		return (draw >> 4) % 67; // return shift amounts and other small numbers
	return draw ^ draw >> 31;
}

// Runs a form on the values of one lane.
static inline uint64_t run_in_lane(unsigned lane, const char *mnemonic, uint64_t a, uint64_t b, uint64_t c)
{
	const struct ptx_alu_form *form = find_form(PTX_ALU_BASE, mnemonic);
	struct registers registers = {0};

	lanes_store(&registers.source[0], lane, form->bits[0], a);
	lanes_store(&registers.source[1], lane, form->bits[1], b);
	lanes_store(&registers.source[2], lane, form->bits[2], c);
	run_form(form, &registers, 1u << lane);
	return lanes_load(&registers.d, lane, form->d_bits);
}

static inline float f32_of(uint64_t bits)
{
	uint32_t low = (uint32_t)bits;
	float x;
	memcpy(&x, &low, 4);
	return x;
}

static inline uint32_t bits_f32(float x)
{
	uint32_t bits;
	memcpy(&bits, &x, 4);
	return bits;
}

static inline double f64_of(uint64_t bits)
{
	double x;
	memcpy(&x, &bits, 8);
	return x;
}
