// The limits of a streaming multiprocessor as kernels meet them. Any thread.
//
// The model: a block takes its threads, its registers (per warp, in units of 256) and its
// shared memory (in units of 128 bytes, plus what the system reserves per block); a
// multiprocessor holds as many blocks as all of these allow.
#pragma once

#include "module.h"

enum { SIM_CLUSTER_PORTABLE = 8, SIM_CLUSTER_MOST = 16 }; // blocks of a cluster

// The most shared memory a block may have (opt-in).
int sim_kernel_shared_limit(void);
// The most dynamic shared memory that a launch may ask for.
int sim_kernel_dynamic_limit(const struct ptx_function_info *info, const struct sim_settings *settings);

struct sim_multiprocessor {
	int threads, blocks, registers, shared, reserved_shared;
};
struct sim_multiprocessor sim_multiprocessor(void);
// Blocks of so many threads that one multiprocessor holds at once; 0 if not even one.
int sim_occupancy_blocks(const struct ptx_function_info *info, int threads, size_t dynamic_shared);
