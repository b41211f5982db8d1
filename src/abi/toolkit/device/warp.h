// Barriers, and functions of the threads of a warp.
#pragma once
#include "language.h"

// Replaces clang's function of this name. clang 14 moves reads of shared memory across its own barrier: it assumes that
// a built-in function does not access a variable whose address is not taken.
DEVICE_FUNCTION void virgate_syncthreads()
{
	asm volatile("bar.sync 0;" ::: "memory");
}
#define __syncthreads() virgate_syncthreads()
DEVICE_FUNCTION void __syncwarp(unsigned int mask = 0xffffffff)
{
	asm volatile("bar.warp.sync %0;" ::"r"(mask) : "memory");
}

// Defines a shuffle function for values of four or eight bytes. `clamp` is the instruction's operand for segments of
// `width` lanes.
#define SHUFFLE(name, mode, clamp, by_type)                                                                        \
	template <typename T> DEVICE_FUNCTION T name(unsigned int mask, T value, by_type by, int width = warpSize) \
	{                                                                                                          \
		static_assert(sizeof(T) == 4 || sizeof(T) == 8, "no shuffle of this size");                        \
		int words[sizeof(T) / 4];                                                                          \
		__builtin_memcpy(words, &value, sizeof value);                                                     \
		for (int &word : words)                                                                            \
			word = __nvvm_shfl_sync_##mode##_i32(mask, word, by, (warpSize - width) << 8 | (clamp));   \
		__builtin_memcpy(&value, words, sizeof value);                                                     \
		return value;                                                                                      \
	}
SHUFFLE(__shfl_sync, idx, 31, int)
SHUFFLE(__shfl_up_sync, up, 0, unsigned int)
SHUFFLE(__shfl_down_sync, down, 31, unsigned int)
SHUFFLE(__shfl_xor_sync, bfly, 31, int)
#undef SHUFFLE

DEVICE_FUNCTION int __all_sync(unsigned int mask, int is_true)
{
	return __nvvm_vote_all_sync(mask, is_true);
}
DEVICE_FUNCTION int __any_sync(unsigned int mask, int is_true)
{
	return __nvvm_vote_any_sync(mask, is_true);
}
DEVICE_FUNCTION unsigned int __ballot_sync(unsigned int mask, int is_true)
{
	return __nvvm_vote_ballot_sync(mask, is_true);
}
DEVICE_FUNCTION unsigned int __activemask()
{
	unsigned int mask;
	asm volatile("activemask.b32 %0;" : "=r"(mask));
	return mask;
}

// Functions that reduce the values of the threads of a warp. Devices before compute capability 8.0 lack the
// instruction.
#define REDUCE(name, instruction, type)                                                                     \
	DEVICE_FUNCTION type name(unsigned int mask, type value)                                            \
	{                                                                                                   \
		type all;                                                                                   \
		asm volatile("redux.sync." instruction " %0, %1, %2;" : "=r"(all) : "r"(value), "r"(mask)); \
		return all;                                                                                 \
	}
REDUCE(__reduce_add_sync, "add.u32", unsigned int)
REDUCE(__reduce_add_sync, "add.s32", int)
REDUCE(__reduce_min_sync, "min.u32", unsigned int)
REDUCE(__reduce_min_sync, "min.s32", int)
REDUCE(__reduce_max_sync, "max.u32", unsigned int)
REDUCE(__reduce_max_sync, "max.s32", int)
REDUCE(__reduce_and_sync, "and.b32", unsigned int)
REDUCE(__reduce_or_sync, "or.b32", unsigned int)
REDUCE(__reduce_xor_sync, "xor.b32", unsigned int)
#undef REDUCE
