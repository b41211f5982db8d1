// Tests launches: checks of shapes, arguments, shared memory; extended and cooperative launches; occupancy.
#include "conformance.h"

static CUmodule module;

static CUfunction function(const char *name)
{
	need_context();
	if (!module)
		module = need_module(ptx_basic);
	return need_function(module, name);
}

static CUresult shape(CUfunction kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz)
{
	return cuLaunchKernel(kernel, gx, gy, gz, bx, by, bz, 0, NULL, NULL, NULL);
}

CONFORM(shapes)
{
	CUfunction empty = function("empty");

	WORKS(shape(empty, 1, 1, 1, 1024, 1, 1));
	WORKS(shape(empty, 1, 1, 1, 16, 1, 64));
	GIVES(shape(empty, 0, 1, 1, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(shape(empty, 1, 0, 1, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(shape(empty, 1, 1, 1, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(shape(empty, 1, 1, 1, 1025, 1, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(shape(empty, 1, 1, 1, 32, 32, 2), CUDA_ERROR_INVALID_VALUE);
	GIVES(shape(empty, 1, 1, 1, 1, 1, 65), CUDA_ERROR_INVALID_VALUE);
	GIVES(shape(empty, 1, 65536, 1, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(shape(empty, 1, 1, 65536, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
	WORKS(shape(empty, 1, 65535, 1, 1, 1, 1));
	WORKS(cuCtxSynchronize());
	GIVES(shape(NULL, 1, 1, 1, 1, 1, 1), CUDA_ERROR_INVALID_HANDLE);
}

CONFORM(shared_memory)
{
	CUfunction empty = function("empty");
	int most = 0;

	WORKS(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 49152, NULL, NULL, NULL));
	GIVES(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 49153, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device));
	WORKS(cuFuncSetAttribute(empty, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most));
	WORKS(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, most, NULL, NULL, NULL));
	GIVES(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, most + 1, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuCtxSynchronize());
}

CONFORM(arguments)
{
	CUfunction store = function("store");
	CUdeviceptr address;
	unsigned value = 0x1234, seen = 0;
	struct {
		CUdeviceptr address;
		unsigned value;
	} buffer;
	size_t size = 12;

	NEED(cuMemAlloc(&address, 16));
	buffer.address = address;
	buffer.value = 0x5678;
	void *pointers[] = {&address, &value};
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
			 CU_LAUNCH_PARAM_END};
	WORKS(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, pointers, NULL));
	WORKS(cuMemcpyDtoH(&seen, address, 4));
	EQUALS(seen, 0x1234);
	WORKS(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
	WORKS(cuMemcpyDtoH(&seen, address, 4));
	EQUALS(seen, 0x5678);
	GIVES(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, pointers, extra), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemFree(address));
}

CONFORM(extended)
{
	CUfunction empty = function("empty");
	CUlaunchAttribute attributes[2];
	CUlaunchConfig config = {.gridDimX = 2,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = 32,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .attrs = attributes};

	WORKS(cuLaunchKernelEx(&config, empty, NULL, NULL));
	memset(attributes, 0, sizeof attributes);
	attributes[0].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
	attributes[0].value.cooperative = 1;
	config.numAttrs = 1;
	WORKS(cuLaunchKernelEx(&config, empty, NULL, NULL));
	attributes[0].id = 999;
	GIVES(cuLaunchKernelEx(&config, empty, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	attributes[0].id = CU_LAUNCH_ATTRIBUTE_IGNORE;
	WORKS(cuLaunchKernelEx(&config, empty, NULL, NULL));
	GIVES(cuLaunchKernelEx(NULL, empty, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	config.gridDimX = 0;
	GIVES(cuLaunchKernelEx(&config, empty, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuCtxSynchronize());
}

CONFORM(cooperative_size)
{
	CUfunction empty = function("empty");
	int blocks = 0, sms = 0;

	WORKS(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, empty, 1024, 0));
	HOLDS(blocks >= 1);
	WORKS(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
	WORKS(cuLaunchCooperativeKernel(empty, blocks * sms, 1, 1, 1024, 1, 1, 0, NULL, NULL));
	GIVES(cuLaunchCooperativeKernel(empty, blocks * sms + 1, 1, 1, 1024, 1, 1, 0, NULL, NULL),
	      CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
	WORKS(cuCtxSynchronize());
}

CONFORM(occupancy)
{
	CUfunction empty = function("empty");
	int blocks = 0, grid = 0, block = 0, threads = 0, most = 0;
	size_t dynamic = 0;

	WORKS(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device));
	WORKS(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, device));
	WORKS(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, empty, 1024, 0));
	EQUALS(blocks, threads / 1024);
	WORKS(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, empty, 32, 0));
	EQUALS(blocks, most);
	WORKS(cuOccupancyMaxPotentialBlockSize(&grid, &block, empty, NULL, 0, 0));
	EQUALS(block, 1024);
	WORKS(cuOccupancyAvailableDynamicSMemPerBlock(&dynamic, empty, 1, 128));
	HOLDS(dynamic >= 49152);
	GIVES(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, empty, 0, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuOccupancyMaxActiveBlocksPerMultiprocessor(NULL, empty, 32, 0), CUDA_ERROR_INVALID_VALUE);
}

// One kernel handle works in every context: the stream determines the context, whatever context is current.
CONFORM(a_streams_launch_needs_no_current_context)
{
	CUlaunchConfig config = {
		.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1};
	CUcontext made, now;
	CUlibrary library;
	CUkernel store;
	CUdeviceptr address;
	unsigned value = 0, seen = 0;

	need_context();
	NEED(cuLibraryLoadData(&library, ptx_basic, NULL, NULL, 0, NULL, NULL, 0));
	NEED(cuLibraryGetKernel(&store, library, "store"));
	NEED(cuMemAlloc(&address, 4));
	NEED(cuStreamCreate(&config.hStream, CU_STREAM_NON_BLOCKING));
	NEED(cuCtxCreate(&made, NULL, 0, device));
	NEED(cuCtxPopCurrent(&now)); // now only the primary context is on the stack
	void *pointers[] = {&address, &value};
	for (int i = 0; i < 2; i++) {
		CUcontext current = i ? made : NULL;
		value = 0x51 + (unsigned)i;
		NEED(cuCtxSetCurrent(current));
		WORKS(cuLaunchKernelEx(&config, (CUfunction)store, pointers, NULL));
		WORKS(cuStreamSynchronize(config.hStream));
		NEED(cuCtxGetCurrent(&now));
		HOLDS(now == current);
		need_context();
		WORKS(cuMemcpyDtoH(&seen, address, 4));
		EQUALS(seen, value);
	}
	NEED(cuCtxSetCurrent(NULL));
	config.hStream = NULL; // the default stream belongs to the current context
	GIVES(cuLaunchKernelEx(&config, (CUfunction)store, pointers, NULL), CUDA_ERROR_INVALID_CONTEXT);
	need_context();
	WORKS(cuCtxDestroy(made));
	WORKS(cuMemFree(address));
	WORKS(cuLibraryUnload(library));
}

CONFORM(stream_of_a_destroyed_context_is_not_ours)
{
	CUfunction empty = function("empty");
	CUcontext made;
	CUstream stream;

	NEED(cuCtxCreate(&made, NULL, 0, device));
	NEED(cuStreamCreate(&stream, 0));
	need_context();
	// The function is of one context, the stream of another.
	GIVES(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
	WORKS(cuCtxDestroy(made));
	need_context();
}

static const char ptx_local[] =
	PTX_HEAD ".visible .entry local(.param .u64 out, .param .u32 offset) {\n"
		 "  .local .align 16 .b8 depot[2048];\n"
		 "  .reg .b64 %rd<5>;\n  .reg .b32 %r<3>;\n"
		 "  ld.param.u64 %rd1, [out];\n  ld.param.u32 %r1, [offset];\n"
		 "  cvt.u64.u32 %rd2, %r1;\n  mov.u64 %rd3, depot;\n  add.s64 %rd4, %rd3, %rd2;\n"
		 "  cvta.local.u64 %rd4, %rd4;\n  st.volatile.u32 [%rd4], %r1;\n  ld.volatile.u32 %r2, [%rd4];\n"
		 "  st.global.u32 [%rd1], %r2;\n  ret;\n}\n";

CHILD(local_memory)
{
	int sms = 0, threads = 0, local = 0;
	unsigned offset = 64, seen = 0;
	CUdeviceptr out;

	need_context();
	WORKS(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
	WORKS(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device));
	CUfunction kernel = need_function(need_module(ptx_local), "local");
	WORKS(cuFuncGetAttribute(&local, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, kernel));
	EQUALS(local, 2048);
	NEED(cuMemAlloc(&out, 4));
	void *parameters[] = {&out, &offset};
	size_t before = memory_used(), each = (size_t)sms * (size_t)threads;
	GIVES(cuLaunchKernel(kernel, 0, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), CUDA_ERROR_INVALID_VALUE);
	EQUALS(memory_used(), before); // a launch that failed allocates nothing
	WORKS(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
	WORKS(cuCtxSynchronize());
	WORKS(cuMemcpyDtoH(&seen, out, 4));
	EQUALS(seen, 64);
	// A new context has 1 KiB of local memory for every thread that can be resident. The kernel needs 2 KiB, so the
	// driver allocated 1 KiB more for each of these threads.
	size_t after = memory_used();
	BETWEEN(after - before, 1024 * each, 1024 * each + 64 * MiB);
	WORKS(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
	WORKS(cuCtxSynchronize());
	EQUALS(memory_used(), after);
}

// Looks up the kernel before a context exists, and launches it while no context is current.
CHILD(local_memory_without_context)
{
	int sms = 0, threads = 0;
	unsigned offset = 64;
	CUlibrary library;
	CUkernel kernel;
	CUstream stream;
	CUdeviceptr out;

	NEED(cuInit(0));
	NEED(cuLibraryLoadData(&library, ptx_local, NULL, NULL, 0, NULL, NULL, 0));
	NEED(cuLibraryGetKernel(&kernel, library, "local"));
	need_context();
	WORKS(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
	WORKS(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device));
	NEED(cuMemAlloc(&out, 4));
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	void *parameters[] = {&out, &offset};
	size_t before = memory_used(), after[2], each = (size_t)sms * (size_t)threads;
	for (int i = 0; i < 2; i++) {
		NEED(cuCtxSetCurrent(NULL));
		WORKS(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
		WORKS(cuStreamSynchronize(stream));
		need_context();
		after[i] = memory_used();
	}
	BETWEEN(after[0] - before, 1024 * each, 1024 * each + 64 * MiB);
	EQUALS(after[1], after[0]);
}

CONFORM(local_memory_comes_at_the_first_launch)
{
	run_child("local_memory", NULL);
	run_child("local_memory_without_context", NULL);
}
