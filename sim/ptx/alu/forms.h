// Declares the tables of forms that the linker gathers, for lookups and for tests. Any thread.
#pragma once

#include <stddef.h>

#include "../alu.h"

enum ptx_alu_level {
	PTX_ALU_BASE, // any x86-64
	PTX_ALU_AVX2, // AVX2, FMA, BMI2
	PTX_ALU_LEVELS,
};

// Returns whether this build has the forms for a level and this processor can run them.
int ptx_alu_level_runs(enum ptx_alu_level level);
const struct ptx_alu_form *const *ptx_alu_level_forms(enum ptx_alu_level level, size_t *ret_count);
