// Defines macros for the forms of f16 and bf16. The functions are pure: any thread.
#pragma once

#include "narrow.h"

// Flushes a subnormal f16 to 0. A bf16 needs no such function, because it has the exponents of f32.
static inline u16 ptx_flush_f16(u16 x)
{
	return x & 0x7c00 ? x : x & 0x8000;
}
static inline u16 ptx_keep_16(u16 x)
{
	return x;
}

// Applies a lane function to both halves of a pair.
#define PTX_PAIR1(lane, x) ((u32)lane((u16)((x) >> 16)) << 16 | lane((u16)(x)))
#define PTX_PAIR2(lane, x, y) ((u32)lane((u16)((x) >> 16), (u16)((y) >> 16)) << 16 | lane((u16)(x), (u16)(y)))
#define PTX_PAIR3(lane, x, y, z) \
	((u32)lane((u16)((x) >> 16), (u16)((y) >> 16), (u16)((z) >> 16)) << 16 | lane((u16)(x), (u16)(y), (u16)(z)))

// Define two forms of a lane function: for a single 16-bit number, and for a pair.
#define PTX_HALF1(text, type, lane)                            \
	PTX_OP1(text "." #type, lane##_one, u16, u16, lane(x)) \
	PTX_OP1(text "." #type "x2", lane##_two, u32, u32, PTX_PAIR1(lane, x))
#define PTX_HALF2(text, type, lane)                                    \
	PTX_OP2(text "." #type, lane##_one, u16, u16, u16, lane(x, y)) \
	PTX_OP2(text "." #type "x2", lane##_two, u32, u32, u32, PTX_PAIR2(lane, x, y))
#define PTX_HALF3(text, type, lane)                                            \
	PTX_OP3(text "." #type, lane##_one, u16, u16, u16, u16, lane(x, y, z)) \
	PTX_OP3(text "." #type "x2", lane##_two, u32, u32, u32, u32, PTX_PAIR3(lane, x, y, z))
// Defines rows with another mnemonic for the functions that PTX_HALF2 has defined.
#define PTX_HALF2_ALIAS(text, type, lane)                   \
	PTX_ROW2(text "." #type, lane##_one, u16, u16, u16) \
	PTX_ROW2(text "." #type "x2", lane##_two, u32, u32, u32)
