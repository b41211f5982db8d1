// Green contexts: resources and how they split, cost, streams confined to some multiprocessors.
#include "conformance.h"

static unsigned multiprocessors(void)
{
	int count = 0;

	WORKS(cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
	return count;
}

CONFORM(resources)
{
	CUdevResource whole = {0}, groups[32], rest = {0};
	unsigned count = 1;

	need_context();
	WORKS(cuDeviceGetDevResource(device, &whole, CU_DEV_RESOURCE_TYPE_SM));
	EQUALS(whole.type, CU_DEV_RESOURCE_TYPE_SM);
	EQUALS(whole.sm.smCount, multiprocessors());
	WORKS(cuDevSmResourceSplitByCount(groups, &count, &whole, &rest, 0, 16));
	EQUALS(count, 1);
	EQUALS(groups[0].sm.smCount, 16);
	EQUALS(rest.sm.smCount, whole.sm.smCount - 16);
	count = 1;
	WORKS(cuDevSmResourceSplitByCount(groups, &count, &whole, &rest, 0, 9)); // rounded up
	EQUALS(groups[0].sm.smCount, 16);
	count = 0;
	WORKS(cuDevSmResourceSplitByCount(NULL, &count, &whole, NULL, 0, 8)); // how many there could be
	BETWEEN(count, 1, whole.sm.smCount / 8); // clusters of multiprocessors may leave some over
	count = 1;
	FAILS(cuDevSmResourceSplitByCount(groups, &count, &whole, &rest, 0, whole.sm.smCount + 8));
	FAILS(cuDeviceGetDevResource(device, &whole, 77));
}

CONFORM(green_contexts)
{
	CUdevResource whole = {0}, part, found = {0};
	CUdevResourceDesc description;
	CUgreenCtx green = NULL;
	CUcontext view = NULL, of_stream = NULL;
	CUgreenCtx of_green_stream = NULL;
	CUstream stream = NULL;
	unsigned count = 1;
	size_t before;

	need_context();
	before = memory_used();
	NEED(cuDeviceGetDevResource(device, &whole, CU_DEV_RESOURCE_TYPE_SM));
	NEED(cuDevSmResourceSplitByCount(&part, &count, &whole, NULL, 0, 8));
	NEED(cuDevResourceGenerateDesc(&description, &part, 1));
	GIVES(cuGreenCtxCreate(&green, description, device, 0), CUDA_ERROR_INVALID_VALUE); // the flag is required
	NEED(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
	BETWEEN(memory_used() - before, 0, 64 * MiB); // far less than a context
	WORKS(cuGreenCtxGetDevResource(green, &found, CU_DEV_RESOURCE_TYPE_SM));
	EQUALS(found.sm.smCount, 8);
	WORKS(cuCtxFromGreenCtx(&view, green));
	HOLDS(view != NULL && view != context);
	WORKS(cuCtxGetDevResource(context, &found, CU_DEV_RESOURCE_TYPE_SM));
	EQUALS(found.sm.smCount, whole.sm.smCount);
	GIVES(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_DEFAULT, 0), CUDA_ERROR_INVALID_VALUE);
	NEED(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
	WORKS(cuStreamGetGreenCtx(stream, &of_green_stream));
	HOLDS(of_green_stream == green);
	WORKS(cuStreamGetCtx(stream, &of_stream));
	// a kernel of the primary context runs on it
	CUfunction store = need_function(need_module(ptx_basic), "store");
	CUdeviceptr address;
	unsigned value = 8, word = 0;
	NEED(cuMemAlloc(&address, 4));
	void *arguments[] = {&address, &value};
	WORKS(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuMemcpyDtoH(&word, address, 4));
	EQUALS(word, 8);
	WORKS(cuMemFree(address));
	WORKS(cuStreamDestroy(stream));
	WORKS(cuGreenCtxDestroy(green));
	FAILS(cuGreenCtxDestroy(NULL));
}
