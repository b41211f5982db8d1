// Tests faults of kernels, and printf. Each part runs in its own process, because a fault makes all later calls of the
// process fail.
#include "program.h"

static CUfunction empty; // looked up before the fault, because looking it up would fail after the fault

static void start(void)
{
	load_kernels();
	empty = kernel("empty");
}

static void check_sticky(CUresult error)
{
	size_t free, total;
	CUdeviceptr address;
	CHECK_INT(cuCtxSynchronize(), error);
	CHECK_INT(cuMemAlloc_v2(&address, 4), error);
	CHECK_INT(cuMemGetInfo_v2(&free, &total), error);
	CHECK_INT(cuModuleGetFunction(&(CUfunction){NULL}, kernels, "empty"), error);
	CHECK_INT(LAUNCH(empty, 1, 1, 0, NULL, NULL), error);
}

static void write_anywhere(void)
{
	start();
	CUdeviceptr nowhere = 0x10;
	CU(LAUNCH(kernel("wild"), 1, 1, 0, NULL, &nowhere));
	check_sticky(CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void write_freed_memory(void)
{
	start();
	CUdeviceptr gone;
	CU(cuMemAlloc_v2(&gone, 8 * MIB));
	CU(cuMemFree_v2(gone));
	CU(LAUNCH(kernel("wild"), 1, 1, 0, NULL, &gone));
	check_sticky(CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void write_misaligned(void)
{
	start();
	CUdeviceptr data = words(4);
	CU(LAUNCH(kernel("crooked"), 1, 1, 0, NULL, &data));
	check_sticky(CUDA_ERROR_MISALIGNED_ADDRESS);
}

static void trap(void)
{
	start();
	CU(LAUNCH(kernel("stop"), 1, 1, 0, NULL, NULL));
	check_sticky(CUDA_ERROR_LAUNCH_FAILED);
}

static void fail_assertion(void)
{
	start();
	int v = 1;
	CU(LAUNCH(kernel("hold"), 1, 1, 0, NULL, &v));
	check_sticky(CUDA_ERROR_ASSERT);
}

TEST(illegal_addresses_are_sticky)
{
	run_with_fault(NULL, write_anywhere);
}
TEST(accesses_to_freed_memory_are_sticky)
{
	run_with_fault(NULL, write_freed_memory);
}
TEST(misaligned_addresses_are_sticky)
{
	run_with_fault(NULL, write_misaligned);
}
TEST(traps_are_sticky)
{
	run_with_fault(NULL, trap);
}

TEST(failed_assertions_are_printed)
{
	run_with_fault(NULL, fail_assertion);
	CHECK_CONTAINS(output, "v == 0");
	CHECK_CONTAINS(output, "kernels.cu");
}

static void run_deadlock(void)
{
	static const char text[] = ".version 8.0\n.target sm_70\n.address_size 64\n"
				   ".visible .entry stuck() {\n.reg .pred %p;\n.reg .u32 %r1;\nmov.u32 %r1, %tid.x;\n"
				   "setp.eq.u32 %p, %r1, 0;\n@%p bra ONE;\nbarrier.sync 1, 64;\nret;\n"
				   "ONE:\nbarrier.sync 2, 64;\nret;\n}\n";
	CUfunction function;
	CUmodule module;
	start();
	CU(cuModuleLoadData(&module, text));
	CU(cuModuleGetFunction(&function, module, "stuck"));
	CU(LAUNCH(function, 1, 64, 0, NULL, NULL));
	CHECK_INT(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_TIMEOUT);
}

TEST(deadlocks_are_reported_with_their_lines)
{
	run_with_fault(NULL, run_deadlock);
	CHECK_CONTAINS(output, "line 1");
}

static void print_late(void)
{
	start();
	int n = 2;
	CU(LAUNCH(kernel("say"), 1, 2, 0, NULL, &n));
	pause_ms(100);
	printf("before\n");
	fflush(stdout);
	CU(cuCtxSynchronize());
	fflush(stdout);
	printf("after\n");
}

TEST(printf_writes_when_the_host_waits)
{
	run_with_fault(NULL, print_late);
	CHECK_STR(output, "before\nthread 0 of 2: text 1.00\nthread 1 of 2: text 1.00\nafter\n");
}
