// Finds an instruction form by its mnemonic. Every form is compiled twice, with and without AVX2. The forms with AVX2
// are used if the processor can run them.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "forms.h"

typedef const struct ptx_alu_form *const form_link;

// The linker defines these symbols at the start and end of each section with forms. A build without AVX2 lacks the
// second section.
#define BOUND __attribute__((visibility("hidden")))
extern BOUND form_link __start_ptx_alu_base[], __stop_ptx_alu_base[];
extern BOUND __attribute__((weak)) form_link __start_ptx_alu_avx2[], __stop_ptx_alu_avx2[];

int ptx_alu_level_runs(enum ptx_alu_level level)
{
	if (level == PTX_ALU_BASE)
		return 1;
	__builtin_cpu_init();
	return &__start_ptx_alu_avx2[0] != &__stop_ptx_alu_avx2[0] && __builtin_cpu_supports("avx2") &&
	       __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
	       __builtin_cpu_supports("popcnt");
}

const struct ptx_alu_form *const *ptx_alu_level_forms(enum ptx_alu_level level, size_t *ret_count)
{
	form_link *first = level == PTX_ALU_BASE ? __start_ptx_alu_base : __start_ptx_alu_avx2;
	form_link *end = level == PTX_ALU_BASE ? __stop_ptx_alu_base : __stop_ptx_alu_avx2;

	*ret_count = (size_t)(end - first);
	return first;
}

enum { SLOTS = 1 << 15 }; // size of the hash table: a power of two, at least twice the number of forms

static const struct ptx_alu_form *slots[SLOTS];
static pthread_once_t slots_once = PTHREAD_ONCE_INIT;

static uint64_t find_slot(const char *mnemonic, size_t length)
{
	uint64_t hash = vg_hash(mnemonic, length);

	return hash ^ hash >> 32;
}

static void fill_slots(void)
{
	enum ptx_alu_level level = ptx_alu_level_runs(PTX_ALU_AVX2) ? PTX_ALU_AVX2 : PTX_ALU_BASE;
	size_t count;
	form_link *forms = ptx_alu_level_forms(level, &count);

	if (count > SLOTS / 2)
		abort(); // too many forms would make lookups slow, or endless
	for (size_t i = 0; i < count; i++) {
		uint64_t at = find_slot(forms[i]->mnemonic, strlen(forms[i]->mnemonic));
		while (slots[at % SLOTS])
			at++;
		slots[at % SLOTS] = forms[i];
	}
}

const struct ptx_alu_form *ptx_alu_find(const char *mnemonic, unsigned length)
{
	pthread_once(&slots_once, fill_slots);
	for (uint64_t at = find_slot(mnemonic, length); slots[at % SLOTS]; at++) {
		const struct ptx_alu_form *form = slots[at % SLOTS];
		if (strncmp(form->mnemonic, mnemonic, length) == 0 && form->mnemonic[length] == '\0')
			return form;
	}
	return NULL;
}
