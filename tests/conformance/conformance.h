// What the conformance programs share: assertions that go on after a difference (so that one run
// on a GPU tells all of them), a context, device memory in use, PTX kernels, and children.
// One thread, unless a test says otherwise. Include in exactly one file per program.
#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "../test.h"

#define KiB ((size_t)1 << 10)
#define MiB ((size_t)1 << 20)
#define GiB ((size_t)1 << 30)

static unsigned assertions, differences;
static char first_difference[768];

static inline const char *result_name(CUresult result)
{
	const char *name = NULL;

	return cuGetErrorName(result, &name) == CUDA_SUCCESS && name ? name : "an unknown result";
}

__attribute__((format(printf, 3, 4))) static inline void differ(const char *file, int line, const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	const char *base = strrchr(file, '/');
	printf("  differs %s:%d: %s\n", base ? base + 1 : file, line, text);
	if (differences++ == 0)
		snprintf(first_difference, sizeof first_difference, "%s:%d: %s", base ? base + 1 : file, line, text);
}

// The call gives exactly this result.
#define GIVES(call, want)                                                                          \
	do {                                                                                       \
		CUresult got_ = (call), want_ = (want);                                            \
		assertions++;                                                                      \
		if (got_ != want_)                                                                 \
			differ(__FILE__, __LINE__, "%s gave %d %s, not %d %s", #call, got_,        \
			       result_name(got_), want_, result_name(want_));                      \
	} while (0)
#define WORKS(call) GIVES(call, CUDA_SUCCESS)
// The call fails, however: where drivers differ in the code and nobody relies on it.
#define FAILS(call)                                                                                \
	do {                                                                                       \
		assertions++;                                                                      \
		if ((call) == CUDA_SUCCESS)                                                        \
			differ(__FILE__, __LINE__, "%s succeeded", #call);                         \
	} while (0)
#define EQUALS(got, want)                                                                          \
	do {                                                                                       \
		long long got_ = (long long)(got), want_ = (long long)(want);                      \
		assertions++;                                                                      \
		if (got_ != want_)                                                                 \
			differ(__FILE__, __LINE__, "%s is %lld, not %lld (%s)", #got, got_, want_, #want); \
	} while (0)
#define HOLDS(condition)                                                                           \
	do {                                                                                       \
		assertions++;                                                                      \
		if (!(condition))                                                                  \
			differ(__FILE__, __LINE__, "not so: %s", #condition);                      \
	} while (0)
// low <= got <= high
#define BETWEEN(got, low, high)                                                                    \
	do {                                                                                       \
		long long got_ = (long long)(got);                                                 \
		assertions++;                                                                      \
		if (got_ < (long long)(low) || got_ > (long long)(high))                           \
			differ(__FILE__, __LINE__, "%s is %lld, not within %s .. %s", #got, got_, #low, #high); \
	} while (0)
static inline bool in_vgpu(void)
{
	return getenv("VIRGATE_VGPU") != NULL;
}

// Device memory that is taken by now; inside a vGPU, which charges it ahead of the driver, `charged`.
#define COSTS(got, want, charged)                                                                  \
	do {                                                                                       \
		if (in_vgpu())                                                                     \
			EQUALS(got, charged);                                                      \
		else                                                                               \
			EQUALS(got, want);                                                         \
	} while (0)
// What a process that has ended held is free at once; a vGPU is refunded within a second.
#define COMES_TO(got, want)                                                                        \
	do {                                                                                       \
		for (int tries_ = in_vgpu() ? 200 : 0; tries_ > 0 && (long long)(got) != (long long)(want); tries_--) \
			usleep(5000);                                                              \
		EQUALS(got, want);                                                                 \
	} while (0)
// Without this the rest of the test has no meaning: end it.
#define NEED(call)                                                                                 \
	do {                                                                                       \
		CUresult got_ = (call);                                                            \
		assertions++;                                                                      \
		if (got_ != CUDA_SUCCESS)                                                          \
			FAIL("%s:%d: %s gave %d %s", __FILE__, __LINE__, #call, got_, result_name(got_)); \
	} while (0)

static inline void end_differences(void)
{
	unsigned count = differences;

	differences = 0;
	if (count)
		FAIL("%u differ, first %s", count, first_difference);
}

#define CONFORM(name)                                                                              \
	static void conform_##name(void);                                                          \
	TEST(name)                                                                                 \
	{                                                                                          \
		differences = 0;                                                                   \
		conform_##name();                                                                  \
		end_differences();                                                                 \
	}                                                                                          \
	static void conform_##name(void)

// A part that runs in a process of its own (exec'd, so that it has no CUDA state): what kills a
// context, or must see an uninitialised driver. The test runs it with run_child("name", argument).
#define CHILD(name)                                                                                \
	static void child_##name(const char *argument);                                            \
	__attribute__((constructor)) static void begin_##name(void)                                \
	{                                                                                          \
		const char *wanted = getenv("CONFORMANCE_CHILD");                                  \
		if (!wanted || strcmp(wanted, #name) != 0)                                         \
			return;                                                                    \
		setvbuf(stdout, NULL, _IOLBF, 0);                                                  \
		child_##name(getenv("CONFORMANCE_ARGUMENT"));                                      \
		_exit(differences ? 1 : 0);                                                        \
	}                                                                                          \
	static void child_##name(const char *argument)

static inline pid_t start_child(const char *name, const char *argument)
{
	// Before the fork: it allocates, and another thread may have held the allocator's lock.
	setenv("CONFORMANCE_CHILD", name, 1);
	setenv("CONFORMANCE_ARGUMENT", argument ? argument : "", 1);
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); // a killed test leaves nobody behind
		execl("/proc/self/exe", "conformance-child", (char *)NULL);
		_exit(127);
	}
	unsetenv("CONFORMANCE_CHILD");
	unsetenv("CONFORMANCE_ARGUMENT");
	return child;
}

static inline int wait_child(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#define run_child(name, argument)                                                                  \
	do {                                                                                       \
		size_t before_ = memory_of_all();                                                  \
		int status_ = wait_child(start_child(name, argument));                             \
		assertions++;                                                                      \
		if (status_ != 0)                                                                  \
			differ(__FILE__, __LINE__, "child %s ended with %d", name, status_);       \
		COMES_TO(memory_of_all() > before_, 0); /* less: what an earlier test gave back late */ \
	} while (0)

// 0 without a context: then it cannot be asked.
static inline size_t memory_of_all(void)
{
	CUcontext current = NULL;
	size_t available = 0, total = 0;

	if (cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current || cuMemGetInfo(&available, &total) != CUDA_SUCCESS)
		return 0;
	return total - available;
}

__attribute__((destructor)) static void print_assertions(void)
{
	if (assertions)
		printf("# %u assertions\n", assertions);
}

static CUdevice device;
static CUcontext context;

// The primary context of device 0, current to this thread.
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
static const char ptx_basic[] __attribute__((unused)) = PTX_HEAD
	".visible .entry empty() { ret; }\n"
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
