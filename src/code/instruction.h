// Classifies an instruction of PTX by its name with all modifiers:
// "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32". Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// Returns whether the instruction is wmma.mma, mma, wgmma.mma_async or tcgen05.mma, in any form. Instructions that only
// move their operands are not.
bool code_ptx_tensor(const char *instruction, size_t length);
// Returns whether the instruction is mixed. A tensor instruction is mixed unless all types that it names are f16, or
// all are f64: the others accumulate in more bits than their inputs have (also integers), compute in tf32, or choose
// the accumulator at run time (tcgen05). Additions and multiplications of two floating-point types are mixed, such as
// fma.rn.f32.f16. Conversions are not.
bool code_ptx_mixed(const char *instruction, size_t length);
