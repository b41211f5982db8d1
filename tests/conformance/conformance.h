// Helpers of the conformance programs: they create a context, measure the device memory in use, and load PTX kernels.
// Only one thread may use them, unless a test says otherwise. Include in exactly one file per program.
#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <stddef.h>
#include <time.h>

#define KiB ((size_t)1 << 10)
#define MiB ((size_t)1 << 20)
#define GiB ((size_t)1 << 30)

#define RESULT CUresult
static inline const char *result_name(CUresult result)
{
	const char *name = NULL;

	return cuGetErrorName(result, &name) == CUDA_SUCCESS && name ? name : "an unknown result";
}

#include "differences.h"

static inline bool in_vgpu(void)
{
	return getenv("VIRGATE_VGPU") != NULL;
}

// Checks how much device memory is in use: `want`. In a vGPU, where memory is charged before the driver allocates it,
// the figure must be `charged`.
#define COSTS(got, want, charged)             \
	do {                                  \
		if (in_vgpu())                \
			EQUALS(got, charged); \
		else                          \
			EQUALS(got, want);    \
	} while (0)
// Waits until a figure has the value. The memory of an ended process is free at once, but a vGPU is refunded within a
// second.
#define COMES_TO(got, want)                                                                                           \
	do {                                                                                                          \
		for (int tries_ = in_vgpu() ? 200 : 0; tries_ > 0 && (long long)(got) != (long long)(want); tries_--) \
			usleep(5000);                                                                                 \
		EQUALS(got, want);                                                                                    \
	} while (0)
#define run_child(name, argument)                                                                       \
	do {                                                                                            \
		size_t before_ = memory_of_all();                                                       \
		int status_ = wait_child(start_child(name, argument));                                  \
		assertions++;                                                                           \
		if (status_ != 0)                                                                       \
			differ(__FILE__, __LINE__, "child %s ended with %d", name, status_);            \
		COMES_TO(memory_of_all() > before_, 0); /* may be less: earlier memory is freed late */ \
	} while (0)

// Returns how much memory of the device is in use by all processes. Returns 0 without a context, since the driver
// cannot be queried then.
static inline size_t memory_of_all(void)
{
	CUcontext current = NULL;
	size_t available = 0, total = 0;

	if (cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current || cuMemGetInfo(&available, &total) != CUDA_SUCCESS)
		return 0;
	return total - available;
}

static CUdevice device;
static CUcontext context;

// Makes the primary context of device 0 current to this thread.
static inline void need_context(void)
{
	if (!context) {
		NEED(cuInit(0));
		NEED(cuDeviceGet(&device, 0));
		NEED(cuDevicePrimaryCtxRetain(&context, device));
	}
	NEED(cuCtxSetCurrent(context));
}

static inline size_t memory_used(void)
{
	size_t available = 0, total = 0;

	NEED(cuMemGetInfo(&available, &total));
	return total - available;
}

static inline CUmodule need_module(const char *ptx)
{
	CUmodule module = NULL;

	NEED(cuModuleLoadData(&module, ptx));
	return module;
}

static inline CUfunction need_function(CUmodule module, const char *name)
{
	CUfunction function = NULL;

	NEED(cuModuleGetFunction(&function, module, name));
	return function;
}

static inline double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

#define PTX_HEAD ".version 7.5\n.target sm_75\n.address_size 64\n"

// store(address, value): one word; spin(nanoseconds): keeps a stream busy; empty().
static const char ptx_basic[] __attribute__((unused)) =
	PTX_HEAD ".visible .entry empty() { ret; }\n"
		 ".visible .entry store(.param .u64 address, .param .u32 value) {\n"
		 "	.reg .b64 %a;\n	.reg .b32 %v;\n"
		 "	ld.param.u64 %a, [address];\n	ld.param.u32 %v, [value];\n"
		 "	st.global.u32 [%a], %v;\n	ret;\n}\n"
		 ".visible .entry load(.param .u64 from, .param .u64 to) {\n"
		 "	.reg .b64 %a, %b;\n	.reg .b32 %v;\n"
		 "	ld.param.u64 %a, [from];\n	ld.param.u64 %b, [to];\n"
		 "	ld.global.u32 %v, [%a];\n	st.global.u32 [%b], %v;\n	ret;\n}\n"
		 ".visible .entry spin(.param .u64 nanoseconds) {\n"
		 "	.reg .b64 %n, %s, %t;\n	.reg .pred %p;\n"
		 "	ld.param.u64 %n, [nanoseconds];\n	mov.u64 %s, %globaltimer;\n"
		 "again:\n	mov.u64 %t, %globaltimer;\n	sub.u64 %t, %t, %s;\n"
		 "	setp.lt.u64 %p, %t, %n;\n	@%p bra again;\n	ret;\n}\n"
		 ".visible .entry trapped() { trap; ret; }\n";
