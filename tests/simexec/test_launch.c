// Tests all ways to launch a kernel, the limits and attributes of launches, and the heap of kernels.
#include <sched.h>

#include "program.h"

TEST(arguments_by_pointer_and_by_buffer)
{
	load_kernels();
	CUdeviceptr data = words(64);
	int n = 64, by = 2;
	CU(LAUNCH(kernel("add"), 2, 32, 0, NULL, &data, &n, &by));
	CHECK_INT(word(data + 63 * 4), 2);
	struct {
		CUdeviceptr p;
		int n, by;
	} buffer = {data, 64, 5};
	size_t size = sizeof buffer;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
			 CU_LAUNCH_PARAM_END};
	CU(cuLaunchKernel(kernel("add"), 2, 1, 1, 32, 1, 1, 0, NULL, NULL, extra));
	CHECK_INT(word(data), 7);
	size = 8;
	CHECK_INT(cuLaunchKernel(kernel("add"), 2, 1, 1, 32, 1, 1, 0, NULL, NULL, extra), CUDA_ERROR_INVALID_VALUE);
	int many[100], *at = many;
	for (int i = 0; i < 100; i++)
		at[i] = i;
	CU(LAUNCH(kernel("wide"), 1, 1, 0, NULL, many, &data));
	CHECK_INT(word(data), 4950);
}

TEST(deprecated_launch_calls)
{
	load_kernels();
	CUfunction function = kernel("add");
	CUdeviceptr data = words(8);
	CU(cuFuncSetBlockShape(function, 4, 1, 1));
	CU(cuParamSetv(function, 0, &data, 8));
	CU(cuParamSeti(function, 8, 8));
	CU(cuParamSeti(function, 12, 11));
	CU(cuParamSetSize(function, 16));
	CU(cuLaunchGrid(function, 2, 1));
	CHECK_INT(word(data + 28), 11);
	CU(cuLaunch(function));
	CHECK_INT(word(data), 22);
	CHECK_INT(word(data + 28), 11);
}

// The conformance tests check the limits of all kernels.
TEST(launches_beyond_the_limit_of_the_kernel_fail)
{
	load_kernels();
	CUdeviceptr data = words(1);
	CU(LAUNCH(kernel("narrow"), 1, 64, 0, NULL, &data));
	CHECK_INT(LAUNCH(kernel("narrow"), 1, 65, 0, NULL, &data), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(word(data), 64);
}

TEST(launch_attributes)
{
	load_kernels();
	CUdeviceptr data = words(2);
	CUlaunchAttribute attributes[2] = {{.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1},
					   {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value.priority = 0}};
	CUlaunchConfig config = {.gridDimX = 8,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = 32,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .attrs = attributes,
				 .numAttrs = 2};
	CU(cuLaunchKernelEx(&config, kernel("meet"), (void *[]){&data}, NULL));
	CHECK_INT(word(data), 8);
	CHECK_INT(word(data + 4), 0);
	config.gridDimX = 132 * 2 + 1;
	config.blockDimX = 1024;
	CHECK_INT(cuLaunchKernelEx(&config, kernel("meet"), (void *[]){&data}, NULL),
		  CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
	config.gridDimX = 2;
	config.blockDimX = 32;
	attributes[0] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {1, 1, 1}};
	CU(cuLaunchKernelEx(&config, kernel("empty"), NULL, NULL));
	attributes[0].value.clusterDim.x = 2;
	CU(cuLaunchKernelEx(&config, kernel("empty"), NULL, NULL));
	attributes[0] = (CUlaunchAttribute){.id = (CUlaunchAttributeID)99};
	CHECK_INT(cuLaunchKernelEx(&config, kernel("empty"), NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(constants_atomics_and_the_heap)
{
	load_kernels();
	CUdeviceptr address, data = words(4);
	int by = 2;
	size_t size;
	CU(cuModuleGetGlobal_v2(&address, &size, kernels, "counter"));
	int before = word(address);
	CU(LAUNCH(kernel("bump"), 4, 64, 0, NULL, &by));
	CHECK_INT(word(address), before + 512);
	CU(LAUNCH(kernel("heap"), 1, 1, 0, NULL, &data));
	CHECK_INT(word(data), 7);
	CHECK_INT(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 * MIB), CUDA_ERROR_INVALID_VALUE); // in use
}

// The first block changes memory until the second one has run. With a single host thread, the second block would never
// run.
TEST(blocks_of_a_small_grid_use_several_processors)
{
	static const char text[] =
		".version 7.5\n.target sm_75\n.address_size 64\n"
		".visible .entry wait_for_second(.param .u64 data) {\n.reg .b64 %a;\n.reg .b32 %r<4>;\n.reg .pred %p;\n"
		"ld.param.u64 %a, [data];\nmov.u32 %r1, %ctaid.x;\nsetp.eq.u32 %p, %r1, 1;\n@%p bra SECOND;\n"
		"AGAIN:\nadd.u32 %r2, %r2, 1;\nst.volatile.global.u32 [%a], %r2;\nld.volatile.global.u32 %r3, [%a+4];\n"
		"setp.eq.u32 %p, %r3, 0;\n@%p bra AGAIN;\nret;\n"
		"SECOND:\nst.volatile.global.u32 [%a+4], 1;\nret;\n}\n";
	cpu_set_t processors;
	CUfunction function;
	CUmodule module;

	if (sched_getaffinity(0, sizeof processors, &processors) == 0 && CPU_COUNT(&processors) < 2)
		SKIP("there is only one processor");
	load_kernels();
	CUdeviceptr data = words(2);
	CU(cuModuleLoadData(&module, text));
	CU(cuModuleGetFunction(&function, module, "wait_for_second"));
	for (int i = 0; i < 20; i++) { // host threads that sleep until there is a launch must start to work, too
		CU(cuMemsetD32_v2(data, 0, 2));
		CU(LAUNCH(function, 2, 1, 0, NULL, &data));
		CU(cuCtxSynchronize());
		CHECK_INT(word(data + 4), 1);
	}
	CU(cuModuleUnload(module));
	CU(cuMemFree_v2(data));
}
