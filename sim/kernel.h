// Declares the limits of a multiprocessor for kernels (kernel.c, occupancy.c). Any thread.
//
// A block needs its threads, its registers (for each warp, in units of 256) and its shared memory (in units of 128
// bytes, plus what the system reserves for each block). A multiprocessor runs as many blocks as all of these allow.
#pragma once

#include "module.h"

enum { SIM_CLUSTER_PORTABLE = 8, SIM_CLUSTER_MOST = 16 }; // blocks of a cluster: the portable size, and the largest one

// Returns the most shared memory that a block can have if the program opts in.
int sim_kernel_shared_limit(void);
// Returns the most dynamic shared memory with which the kernel can be launched.
int sim_kernel_dynamic_limit(const struct ptx_function_info *info, const struct sim_settings *settings);

struct sim_multiprocessor {
	int threads, blocks, registers, shared, reserved_shared;
};
struct sim_multiprocessor sim_multiprocessor(void);
// Returns how many blocks of `threads` threads one multiprocessor runs at once; may be 0.
int sim_occupancy_blocks(const struct ptx_function_info *info, int threads, size_t dynamic_shared);
