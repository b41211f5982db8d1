// Classifies an instruction of PTX by its name with all modifiers:
// "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32". Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// Returns whether the instruction multiplies matrices: wmma.mma, mma, wgmma.mma_async or tcgen05.mma, in any form.
// Returns false for instructions that only load or store matrices.
bool code_ptx_tensor(const char *instruction, size_t length);
// Returns whether the instruction is mixed. A tensor instruction is not mixed if all types that it names are f16, or
// all are f64. Any other tensor instruction accumulates in more bits than its inputs have, computes in tf32, or chooses
// the accumulator at run time (tcgen05). An addition or multiplication of two floating-point types is mixed, such as
// fma.rn.f32.f16. A conversion is not.
bool code_ptx_mixed(const char *instruction, size_t length);
