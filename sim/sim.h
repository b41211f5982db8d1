// Declares what every file of the simulated driver needs: the driver API, the names of the driver's structs, granules,
// SIM_TRY. Any thread may call any function of the simulated driver unless its comment says otherwise.
//
// Order of the locks, outermost first: the lock of the captures, the memory lock, context->lock, event->lock, the mutex
// of the region. No lock is held while an operation runs, or while a thread waits for one.
#pragma once

#pragma GCC visibility push(default)
#include "abi/cuda_abi.h"
#pragma GCC visibility pop

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "config.h"

struct sim_array;
struct sim_block;
struct sim_context;
struct sim_device;
struct sim_event;
struct sim_green;
struct sim_host;
struct sim_mark;
struct sim_op;
struct sim_physical;
struct sim_pointer;
struct sim_pool;
struct sim_range;
struct sim_sparse;
struct sim_stream;
struct sim_time_cursor;

#define SIM_MIB ((size_t)1 << 20)
#define SIM_GRANULE (2 * SIM_MIB) // unit in which device addresses are mapped, and in which access to them is given
#define SIM_GRANULE_SHIFT 21

// Rounds up to a multiple of `unit`. Returns 0 if the result overflows.
static inline size_t sim_round_up(size_t value, size_t unit)
{
	return value > SIZE_MAX - unit ? 0 : (value + unit - 1) / unit * unit;
}

// Evaluates a CUresult, and returns it from the calling function unless it is CUDA_SUCCESS. The only other macros that
// return from the calling function are SIM_ENTER in entry.h and those of nvml.h.
#define SIM_TRY(expression)                   \
	do {                                  \
		CUresult try_ = (expression); \
		if (try_ != CUDA_SUCCESS)     \
			return try_;          \
	} while (0)
