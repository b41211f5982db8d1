// Tests cuDevSmResourceSplit of CUDA 13.1: possible groups, and work queues.
#include <float.h>

#include "program.h"

struct group {
	unsigned count, coscheduled, preferred, flags, reserved[12];
};
struct queue {
	CUdevice device;
	unsigned limit;
	int scope;
};
typedef CUresult (*split_function)(CUdevResource *, unsigned, const CUdevResource *, CUdevResource *, unsigned,
				   struct group *);
enum { WORKQUEUE_CONFIG = 1000, WORKQUEUE = 10000, BACKFILL = 1 };

static CUdevResource whole;

static split_function start(void)
{
	CUdriverProcAddressQueryResult status;
	split_function split = NULL;

	node_start("memory=1G,driver=13010");
	primary(0);
	CU(cuGetProcAddress_v2("cuDevSmResourceSplit", (void **)&split, 13000, 0, &status));
	CHECK_INT(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	CU(cuGetProcAddress_v2("cuDevSmResourceSplit", (void **)&split, 13010, 0, &status));
	CHECK(split != NULL);
	CU(cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM));
	return split;
}

TEST(groups)
{
	split_function split = start();
	CUdevResource parts[3], rest;
	struct group groups[3] = {{.count = 24}, {.count = 6, .flags = BACKFILL}, {0}};

	CU(split(NULL, 3, &whole, NULL, 0, groups));
	// the last group has the remaining SMs, rounded down to a multiple of 8
	CHECK_INT(groups[2].count, (132 - 30) / 8 * 8);
	groups[2].count = 0;
	CU(split(parts, 3, &whole, &rest, 0, groups));
	CHECK_INT(parts[2].sm.smCount, 96);
	CHECK_INT(rest.sm.smCount, 6);
	groups[0].count = 12; // this number is no multiple of 8
	GIVES(split(parts, 1, &whole, &rest, 0, groups), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	groups[0].coscheduled = 4;
	CU(split(parts, 1, &whole, &rest, 0, groups));
	groups[0].preferred = 6;
	GIVES(split(parts, 1, &whole, &rest, 0, groups), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	groups[0] = (struct group){.count = 132, .flags = BACKFILL};
	groups[1] = (struct group){.flags = BACKFILL};
	// the first group has all multiprocessors, so none are left for the second one
	CU(split(NULL, 2, &whole, NULL, 0, groups));
	CHECK_INT(groups[1].count, 0);
	GIVES(split(parts, 2, &whole, NULL, 0, groups), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	groups[0].reserved[3] = 1;
	GIVES(split(parts, 1, &whole, NULL, 0, groups), CUDA_ERROR_INVALID_VALUE);
	groups[0] = (struct group){.count = 8, .flags = 4};
	GIVES(split(parts, 1, &whole, NULL, 0, groups), CUDA_ERROR_INVALID_VALUE);
	groups[0].flags = 0;
	GIVES(split(parts, 0, &whole, NULL, 0, groups), CUDA_ERROR_INVALID_VALUE);
	GIVES(split(parts, 1, NULL, NULL, 0, groups), CUDA_ERROR_INVALID_VALUE);
	GIVES(split(parts, 1, &whole, NULL, 1, groups), CUDA_ERROR_INVALID_VALUE);
}

TEST(work_queues_of_green_contexts)
{
	split_function split = start();
	CUdevResource resources[3], found;
	CUdevResourceDesc description;
	CUgreenCtx green;
	struct group group = {.count = 8};
	struct queue queue;

	CU(split(resources, 1, &whole, NULL, 0, &group));
	CU(cuDeviceGetDevResource(0, &resources[1], (CUdevResourceType)WORKQUEUE_CONFIG));
	CU(cuDeviceGetDevResource(0, &resources[2], (CUdevResourceType)WORKQUEUE));
	memcpy(&queue, &resources[1].sm, sizeof queue);
	CHECK_INT(queue.device, 0);
	CHECK(queue.limit >= 1);
	queue.limit = 2;
	queue.scope = 1;
	memcpy(&resources[1].sm, &queue, sizeof queue);
	CU(cuDevResourceGenerateDesc(&description, resources, 3));
	CU(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	CU(cuGreenCtxGetDevResource(green, &found, (CUdevResourceType)WORKQUEUE_CONFIG));
	memcpy(&queue, &found.sm, sizeof queue);
	CHECK_INT(queue.limit, 2);
	CHECK_INT(queue.scope, 1);
	CU(cuGreenCtxDestroy(green));
	queue.scope = 2;
	memcpy(&resources[1].sm, &queue, sizeof queue);
	GIVES(cuDevResourceGenerateDesc(&description, resources, 3), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	GIVES(cuDevResourceGenerateDesc(&description, &resources[1], 2), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	GIVES(cuDeviceGetDevResource(0, &found, (CUdevResourceType)77), CUDA_ERROR_INVALID_RESOURCE_TYPE);
}

// Returns how many milliseconds a grid takes. Its blocks all run at the same time on the whole device. On a part of the
// multiprocessors they must run in several waves, which take longer.
static float time_grid(CUfunction function, CUstream stream)
{
	CUevent from, to;
	float ms;

	CU(cuEventCreate(&from, 0));
	CU(cuEventCreate(&to, 0));
	CU(cuEventRecord(from, stream));
	CU(cuLaunchKernel(function, 264, 1, 1, 1024, 1, 1, 0, stream, NULL, NULL));
	CU(cuEventRecord(to, stream));
	CU(cuEventSynchronize(to));
	CU(cuEventElapsedTime(&ms, from, to));
	CU(cuEventDestroy(from));
	CU(cuEventDestroy(to));
	return ms;
}

TEST(fewer_multiprocessors_take_longer)
{
	static const char ptx[] =
		".version 8.0\n.target sm_90\n.address_size 64\n"
		".visible .entry work() {\n.reg .b32 %i;\n.reg .pred %p;\nmov.u32 %i, 0;\nagain:\nadd.u32 %i, %i, 1;\n"
		"setp.lt.u32 %p, %i, 300;\n@%p bra again;\nret;\n}\n";
	struct group group = {.count = 16};
	split_function split = start();
	CUdevResourceDesc description;
	CUdevResource part;
	CUstream all, few;
	CUmodule module;
	CUfunction work;
	CUgreenCtx green;
	float all_ms = FLT_MAX, few_ms = 0;

	CU(split(&part, 1, &whole, NULL, 0, &group));
	CU(cuDevResourceGenerateDesc(&description, &part, 1));
	CU(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	CU(cuStreamCreate(&all, CU_STREAM_NON_BLOCKING));
	CU(cuGreenCtxStreamCreate(&few, green, CU_STREAM_NON_BLOCKING, 0));
	CU(cuModuleLoadData(&module, ptx));
	CU(cuModuleGetFunction(&work, module, "work"));
	// The grid takes 1 wave in stream `all` (132 multiprocessors) and 9 waves in stream `few` (16). Compare the
	// shortest times, because other programs slow some runs down.
	for (int i = 0; i < 6 && few_ms < 2 * all_ms; i++) {
		float all_now = time_grid(work, all), few_now = time_grid(work, few);
		all_ms = all_now < all_ms ? all_now : all_ms;
		few_ms = i == 0 || few_now < few_ms ? few_now : few_ms;
	}
	if (few_ms < 2 * all_ms)
		FAIL("%.1f ms on 16 multiprocessors, %.1f on 132", few_ms, all_ms);
}
