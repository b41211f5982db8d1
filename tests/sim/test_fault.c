// Tests a fault of a kernel while threads wait in every possible way for work that would never end.
#include "sim_test.h"

#include <pthread.h>
#include <stdatomic.h>

static const char kernels[] = ".version 7.5\n.target sm_75\n.address_size 64\n"
			      ".visible .entry poke() { .reg .b64 %a; mov.u64 %a, 16; st.global.u32 [%a], 1; ret; }\n"
			      ".visible .entry forever() { again: bra again; }\n";

static CUcontext contexts[2];
static CUstream busy, behind;
static CUevent event;
static CUdeviceptr memory;
static atomic_int callbacks_run;

static void count_callback(void *data)
{
	atomic_fetch_add(&callbacks_run, 1);
}

static CUresult wait_stream(void)
{
	return cuStreamSynchronize(busy);
}

static CUresult wait_stream_behind(void)
{
	return cuStreamSynchronize(behind);
}

static CUresult wait_legacy(void)
{
	return cuStreamSynchronize(NULL);
}

static CUresult wait_event(void)
{
	return cuEventSynchronize(event);
}

static CUresult wait_context(void)
{
	return cuCtxSynchronize();
}

static CUresult wait_copy(void)
{
	unsigned word;
	return cuMemcpyDtoH_v2(&word, memory, sizeof word);
}

static CUresult (*const ways[])(void) = {wait_stream, wait_stream_behind, wait_legacy,
					 wait_event,  wait_context,	  wait_copy};
enum { WAYS = sizeof ways / sizeof *ways };

static void *wait_with(void *way)
{
	CU(cuCtxSetCurrent(contexts[0]));
	GIVES((*(CUresult(*const *)(void))way)(), CUDA_ERROR_ILLEGAL_ADDRESS);
	return NULL;
}

static CUfunction load_function(const char *name)
{
	CUmodule module;
	CUfunction found;
	CU(cuModuleLoadData(&module, kernels));
	CU(cuModuleGetFunction(&found, module, name));
	return found;
}

static void launch(const char *name, CUstream stream)
{
	CU(cuLaunchKernel(load_function(name), 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
}

TEST(a_fault_wakes_waiting_threads_and_stops_running_kernels)
{
	pthread_t threads[WAYS];

	node_start("memory=256M,ctx=16M,devices=2");
	contexts[1] = primary(1);
	contexts[0] = primary(0);
	CU(cuStreamCreate(&busy, CU_STREAM_DEFAULT)); // operations in the legacy stream must wait for this stream
	CU(cuStreamCreate(&behind, CU_STREAM_NON_BLOCKING));
	CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	CU(cuMemAlloc_v2(&memory, 4096));
	launch("forever", busy);
	CU(cuLaunchHostFunc(busy, count_callback, NULL));
	CU(cuEventRecord(event, busy));
	CU(cuStreamWaitEvent(behind, event, 0));
	CU(cuLaunchHostFunc(behind, count_callback, NULL));
	CU(cuMemFreeAsync(memory, behind)); // this free must wait for the kernel that never ends
	CU(cuMemAlloc_v2(&memory, 4096));
	for (int i = 0; i < WAYS; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, wait_with, (void *)&ways[i]), 0);
	pause_ms(100);
	CU(cuCtxSetCurrent(contexts[1]));
	CUstream fails;
	CU(cuStreamCreate(&fails, CU_STREAM_NON_BLOCKING));
	launch("poke", fails);
	for (int i = 0; i < WAYS; i++)
		pthread_join(threads[i], NULL);
	CHECK_INT(atomic_load(&callbacks_run), 0);
	// The fault has ended all work, so resetting the contexts does not wait.
	CU(cuDevicePrimaryCtxReset_v2(0));
	CU(cuDevicePrimaryCtxReset_v2(1));
	GIVES(cuDevicePrimaryCtxRetain(&contexts[0], 0), CUDA_ERROR_ILLEGAL_ADDRESS);
}
