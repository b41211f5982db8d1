// Checks properties that all forms of PTX instructions must have: masks of lanes are obeyed, and versions for all host
// processors agree.
#include "run.h"

static void fill_registers(struct registers *registers, const struct ptx_alu_form *form, uint64_t *state)
{
	memset(registers, 0, sizeof *registers);
	for (unsigned lane = 0; lane < 32; lane++) {
		for (unsigned s = 0; s < form->sources; s++)
			lanes_store(&registers->source[s], lane, form->bits[s], random_word(state));
		lanes_store(&registers->d, lane, form->d_bits, 0xa5a5a5a5a5a5a5a5u);
		if (form->e_bits)
			lanes_store(&registers->e, lane, form->e_bits, lane & 1);
	}
	registers->carry = (uint32_t)random_word(state);
	registers->immediate = (uint32_t)random_word(state) & 0xff;
}

// Checks that a form writes only the lanes of its mask, with the same results as when all lanes are written.
static void check_masks(const struct ptx_alu_form *form)
{
	uint64_t state = 88172645463325252u;

	for (unsigned round = 0; round < 6; round++) {
		struct registers before, whole, part;
		uint32_t mask = round ? (uint32_t)(random_word(&state) ^ 0x0f0ff0f0) : 0;
		fill_registers(&before, form, &state);
		whole = before;
		part = before;
		run_form(form, &whole, UINT32_MAX);
		run_form(form, &part, mask);
		for (unsigned lane = 0; lane < 32; lane++) {
			const struct registers *source = mask >> lane & 1 ? &whole : &before;
			if (lanes_load(&part.d, lane, form->d_bits) != lanes_load(&source->d, lane, form->d_bits))
				FAIL("%s: d of lane %u under mask %08x", form->mnemonic, lane, mask);
			if (form->e_bits && lanes_load(&part.e, lane, 1) != lanes_load(&source->e, lane, 1))
				FAIL("%s: e of lane %u under mask %08x", form->mnemonic, lane, mask);
			if ((part.carry ^ source->carry) >> lane & 1)
				FAIL("%s: carry of lane %u under mask %08x", form->mnemonic, lane, mask);
		}
	}
}

TEST(forms_write_the_lanes_of_their_mask)
{
	for (enum ptx_alu_level level = 0; level < PTX_ALU_LEVELS && ptx_alu_level_runs(level); level++) {
		size_t count;
		const struct ptx_alu_form *const *forms = ptx_alu_level_forms(level, &count);
		CHECK(count > 1000);
		for (size_t i = 0; i < count; i++)
			check_masks(forms[i]);
	}
}

TEST(destination_may_be_a_source)
{
	uint64_t state = 362436069;
	size_t count;
	const struct ptx_alu_form *const *forms = ptx_alu_level_forms(PTX_ALU_BASE, &count);

	for (size_t i = 0; i < count; i++)
		for (unsigned s = 0; s < forms[i]->sources; s++) {
			struct registers apart, same;
			if (forms[i]->bits[s] != forms[i]->d_bits)
				continue;
			fill_registers(&apart, forms[i], &state);
			same = apart;
			apart.d = apart.source[s];
			run_form(forms[i], &apart, 0xfff0ff0f);
			struct ptx_alu alu = {&same.source[s], &same.e,		&same.source[0],
					      &same.source[1], &same.source[2], &same.source[3],
					      0xfff0ff0f,      &same.carry,	same.immediate};
			forms[i]->run(&alu);
			if (memcmp(&same.source[s], &apart.d, 32 * forms[i]->d_bits / 8) != 0)
				FAIL("%s: written over source %u", forms[i]->mnemonic, s);
		}
}

// Checks that forms that are compiled for newer host processors compute the same bits as the others.
TEST(levels_agree)
{
	if (!ptx_alu_level_runs(PTX_ALU_AVX2))
		SKIP("this processor has no AVX2 and FMA");
	uint64_t state = 521288629;
	size_t count;
	const struct ptx_alu_form *const *forms = ptx_alu_level_forms(PTX_ALU_BASE, &count);

	for (size_t i = 0; i < count; i++) {
		struct registers base, wide;
		const struct ptx_alu_form *other = find_form(PTX_ALU_AVX2, forms[i]->mnemonic);
		for (unsigned round = 0; round < 20; round++) {
			fill_registers(&base, forms[i], &state);
			wide = base;
			run_form(forms[i], &base, UINT32_MAX);
			run_form(other, &wide, UINT32_MAX);
			if (memcmp(&base, &wide, sizeof base) != 0)
				FAIL("%s: the levels differ", forms[i]->mnemonic);
		}
	}
}

TEST(lookup_finds_every_form)
{
	size_t count;
	const struct ptx_alu_form *const *forms = ptx_alu_level_forms(PTX_ALU_BASE, &count);

	for (size_t i = 0; i < count; i++) {
		char padded[128];
		unsigned length = (unsigned)snprintf(padded, sizeof padded, "%s.x", forms[i]->mnemonic) - 2;
		const struct ptx_alu_form *found = ptx_alu_find(padded, length);
		if (!found || strcmp(found->mnemonic, forms[i]->mnemonic) != 0)
			FAIL("%s is not found", forms[i]->mnemonic);
		if (memcmp(&found->d_bits, &forms[i]->d_bits, sizeof *found - offsetof(struct ptx_alu_form, d_bits)) !=
		    0)
			FAIL("%s is in the table twice, with different operands", forms[i]->mnemonic);
		CHECK(!ptx_alu_find(padded, length + 2));
	}
	CHECK(!ptx_alu_find("wgmma", 5));
	CHECK(!ptx_alu_find("", 0));
}
