// Tests green contexts: resources and their splits, cost, streams confined to some multiprocessors.
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
	WORKS(cuDevSmResourceSplitByCount(NULL, &count, &whole, NULL, 0, 8)); // only queries the number of groups
	// some multiprocessors may be left over, because they do not fill a cluster
	BETWEEN(count, 1, whole.sm.smCount / 8);
	count = 1;
	FAILS(cuDevSmResourceSplitByCount(groups, &count, &whole, &rest, 0, whole.sm.smCount + 8));
	FAILS(cuDeviceGetDevResource(device, &whole, 77));
}

CONFORM(rules_of_splits)
{
	CUdevResource whole = {0}, groups[2], again, rest, other;
	CUdevResourceDesc description;
	unsigned count = 2;

	need_context();
	WORKS(cuDeviceGetDevResource(device, &whole, CU_DEV_RESOURCE_TYPE_SM));
	GIVES(cuDevSmResourceSplitByCount(groups, NULL, &whole, &rest, 0, 8), CUDA_ERROR_INVALID_VALUE);
	NEED(cuDevSmResourceSplitByCount(groups, &count, &whole, &rest, 0, 8));
	EQUALS(count, 2);
	count = 1;
	// Only a context's own resource can be split, not a group or what remained.
	GIVES(cuDevSmResourceSplitByCount(&again, &count, &groups[0], NULL, 0, 8),
	      CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	count = 1;
	GIVES(cuDevSmResourceSplitByCount(&again, &count, &rest, NULL, 0, 8),
	      CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	WORKS(cuDevResourceGenerateDesc(&description, groups, 2)); // groups of one split
	count = 1;
	NEED(cuDevSmResourceSplitByCount(&other, &count, &whole, NULL, 0, 16));
	groups[1] = other;
	WORKS(cuDevResourceGenerateDesc(&description, groups, 2)); // groups of different splits can be combined, too
	GIVES(cuDevResourceGenerateDesc(NULL, groups, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuDevResourceGenerateDesc(&description, NULL, 1), CUDA_ERROR_INVALID_VALUE);
}

// Types that CUDA 13.1 added. The header of an earlier toolkit does not have them.
struct group {
	unsigned count, coscheduled, preferred, flags, reserved[12];
};
typedef CUresult (*split_function)(CUdevResource *, unsigned, const CUdevResource *, CUdevResource *, unsigned,
				   struct group *);
enum { WORKQUEUE_CONFIG = 1000, WORKQUEUE = 10000, BACKFILL = 1 };

CONFORM(structured_splits)
{
	CUdriverProcAddressQueryResult status;
	CUdevResource whole = {0}, parts[2], rest;
	CUdevResourceDesc description;
	split_function split = NULL;
	int version = 0;

	need_context();
	NEED(cuDriverGetVersion(&version));
	if (version < 13010) {
		GIVES(cuGetProcAddress("cuDevSmResourceSplit", (void **)&split, 13010, 0, &status),
		      CUDA_ERROR_INVALID_VALUE);
		GIVES(cuGetProcAddress("cuMemAlloc", (void **)&split, 13010, 0, &status), CUDA_ERROR_INVALID_VALUE);
		WORKS(cuGetProcAddress("cuDevSmResourceSplit", (void **)&split, version, 0, &status));
		EQUALS(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
		HOLDS(split == NULL);
		GIVES(cuDeviceGetDevResource(device, &rest, (CUdevResourceType)WORKQUEUE_CONFIG),
		      CUDA_ERROR_INVALID_RESOURCE_TYPE);
		return;
	}
	WORKS(cuGetProcAddress("cuDevSmResourceSplit", (void **)&split, 13010, 0, &status));
	HOLDS(split != NULL);
	if (!split)
		return;
	NEED(cuDeviceGetDevResource(device, &whole, CU_DEV_RESOURCE_TYPE_SM));
	struct group groups[2] = {{.count = 16}, {.count = 0, .flags = BACKFILL}};
	WORKS(split(NULL, 2, &whole, &rest, 0, groups)); // only queries the split
	EQUALS(groups[0].count, 16);
	BETWEEN(groups[1].count, 1, whole.sm.smCount - 16);
	groups[0].count = 16, groups[1].count = 8, groups[1].flags = 0;
	NEED(split(parts, 2, &whole, &rest, 0, groups));
	EQUALS(parts[0].sm.smCount, 16);
	EQUALS(parts[1].sm.smCount, 8);
	EQUALS(rest.sm.smCount, whole.sm.smCount - 24);
	WORKS(cuDevResourceGenerateDesc(&description, parts, 2));
	groups[0].count = whole.sm.smCount + 8;
	FAILS(split(parts, 1, &whole, &rest, 0, groups));
	GIVES(split(parts, 2, &whole, &rest, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuDeviceGetDevResource(device, &rest, (CUdevResourceType)WORKQUEUE_CONFIG));
	EQUALS(rest.type, WORKQUEUE_CONFIG);
	WORKS(cuDeviceGetDevResource(device, &rest, (CUdevResourceType)WORKQUEUE));
}

CHILD(green_memory)
{
	enum { MANY = 8 };
	CUdevResource whole = {0}, part;
	CUdevResourceDesc description;
	unsigned count = 1;
	size_t start, before = 0;
	CUgreenCtx green;

	need_context();
	start = memory_used();
	NEED(cuDeviceGetDevResource(device, &whole, CU_DEV_RESOURCE_TYPE_SM));
	NEED(cuDevSmResourceSplitByCount(&part, &count, &whole, NULL, 0, 8));
	NEED(cuDevResourceGenerateDesc(&description, &part, 1));
	// the first context may use more memory than the others, so it is not measured
	for (int i = 0; i <= MANY; i++) {
		NEED(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
		NEED(cuGreenCtxDestroy(green));
		if (i == 0)
			before = memory_used();
	}
	EQUALS(memory_used() - before, MANY * 4 * MiB); // the driver keeps the memory of destroyed contexts
	WORKS(cuDevicePrimaryCtxReset(device));
	NEED(cuDevicePrimaryCtxRetain(&context, device));
	NEED(cuCtxSetCurrent(context));
	BETWEEN(memory_used(), 0, start + 4 * MiB);
}

CONFORM(green_contexts_keep_memory_until_the_primary_is_released)
{
	run_child("green_memory", NULL);
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
	BETWEEN(memory_used() - before, 0, 64 * MiB); // a green context takes far less memory than a context
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
	CUcontext of_both = NULL;
	of_green_stream = NULL;
	WORKS(cuStreamGetCtx_v2(stream, &of_both, &of_green_stream));
	// `of_both` is the primary context, which the green context belongs to
	HOLDS(of_both != NULL && of_both != view && of_green_stream == green);
	// a kernel of the primary context can run on the green context's stream
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
