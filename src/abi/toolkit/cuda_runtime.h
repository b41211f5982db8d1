// Declares for clang without a CUDA toolkit what nvcc declares before each file. scripts/compile-ptx and
// scripts/virgate-clang include it.
#pragma once
#include "device/language.h"
#include "device/bits.h"
#include "device/atomic.h"
#include "device/warp.h"
#include "device/math.h"
#include "device/host.h"
#include "device/kernel.h"
#include "device/memory.h"
#ifdef VIRGATE_MANAGED
#include "device/managed.h"
#endif

// Functions that the driver links to device code.
extern "C" {
__device__ int printf(const char *format, ...);
__device__ void *malloc(size_t bytes);
__device__ void free(void *memory);
__device__ void __assertfail(const char *expression, const char *file, unsigned int line, const char *function,
			     size_t char_size) __attribute__((noreturn));
__device__ void cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned int value);

// Called by the C library's assert().
__device__ inline __attribute__((noreturn)) void __assert_fail(const char *expression, const char *file,
							       unsigned int line, const char *function) throw()
{
	__assertfail(expression, file, line, function, 1);
}
}
