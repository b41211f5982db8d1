// What an instruction of PTX does, told by its name with all modifiers:
// "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32". Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// wmma.mma, mma, wgmma.mma_async and tcgen05.mma in all their forms; what moves their operands is none of them.
bool code_ptx_tensor(const char *instruction, size_t length);
// A tensor instruction, unless all types that it names are f16, or all are f64: others accumulate in more bits than
// their inputs have (integers too), compute in tf32, or say at run time what they accumulate in (tcgen05). And
// additions and multiplications of floating-point numbers of two types, such as fma.rn.f32.f16. Conversions are none.
bool code_ptx_mixed(const char *instruction, size_t length);
