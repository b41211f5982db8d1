// Tests the scope of a kernel's fault: other streams, other devices, waiting threads, contexts created later.
#include "conformance.h"

#include <pthread.h>

static const CUresult illegal = CUDA_ERROR_ILLEGAL_ADDRESS;

// A context with a stream. The kernel of sides[1] faults.
struct side {
	CUcontext context;
	CUstream stream;
	CUfunction store, trap, spin;
	CUdeviceptr memory;
};

static struct side make_side(CUcontext of)
{
	struct side side = {.context = of};

	NEED(cuCtxSetCurrent(of));
	CUmodule module = need_module(ptx_basic);
	side.store = need_function(module, "store");
	side.trap = need_function(module, "trapped");
	side.spin = need_function(module, "spin");
	NEED(cuMemAlloc(&side.memory, 4096));
	NEED(cuStreamCreate(&side.stream, CU_STREAM_NON_BLOCKING));
	return side;
}

static CUcontext primary_of(CUdevice of)
{
	CUcontext retained = NULL;

	NEED(cuDevicePrimaryCtxRetain(&retained, of));
	return retained;
}

// Creates contexts on two devices, or both on the first one.
static void make_sides(struct side sides[2], int devices)
{
	NEED(cuInit(0));
	for (int i = 0; i < 2; i++)
		sides[i] = make_side(primary_of(devices == 2 ? i : 0));
}

static CUresult launch(CUfunction function, CUstream stream, void **arguments)
{
	return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

static void launch_fault(const struct side *side, bool trap)
{
	CUdeviceptr nowhere = 0x10;
	unsigned value = 1;

	NEED(cuCtxSetCurrent(side->context));
	NEED(launch(trap ? side->trap : side->store, side->stream, trap ? NULL : (void *[]){&nowhere, &value}));
}

static void launch_spin(const struct side *side, unsigned long long nanoseconds)
{
	NEED(cuCtxSetCurrent(side->context));
	NEED(launch(side->spin, side->stream, (void *[]){&nanoseconds}));
}

static void check_lost(const struct side *side, CUresult error)
{
	CUdeviceptr address = side->memory;
	unsigned value = 1;
	void *arguments[] = {&address, &value};

	WORKS(cuCtxSetCurrent(side->context));
	GIVES(cuStreamQuery(side->stream), error);
	GIVES(cuStreamSynchronize(side->stream), error);
	GIVES(cuCtxSynchronize(), error);
	GIVES(launch(side->store, side->stream, arguments), error);
	GIVES(cuMemcpyDtoH(&value, side->memory, 4), error);
	GIVES(cuMemAlloc(&address, MiB), error);
}

CHILD(fault_of_the_second)
{
	const bool trap = strstr(argument, "trap");
	const CUresult error = trap ? CUDA_ERROR_LAUNCH_FAILED : illegal;
	struct side sides[2];

	make_sides(sides, 2);
	for (int i = 0; i < 2 && strstr(argument, "peers"); i++) {
		NEED(cuCtxSetCurrent(sides[i].context));
		NEED(cuCtxEnablePeerAccess(sides[!i].context, 0));
	}
	if (strstr(argument, "busy"))
		launch_spin(&sides[0], 300000000);
	launch_fault(&sides[1], trap);
	GIVES(cuStreamSynchronize(sides[1].stream), error);
	GIVES(cuCtxSynchronize(), error);
	check_lost(&sides[0], error);
	WORKS(cuDevicePrimaryCtxReset(1)); // the reset succeeds, but has no effect
	check_lost(&sides[0], error);
}

static bool two_devices(void)
{
	int devices = 0;

	NEED(cuInit(0));
	NEED(cuDeviceGetCount(&devices));
	return devices >= 2;
}

CONFORM(a_fault_of_one_device_is_every_devices)
{
	static const char *const cases[] = {"idle", "peers", "busy", "trap", "trap, peers"};
	int peers = 0;

	if (!two_devices())
		SKIP("one device is visible");
	NEED(cuDeviceCanAccessPeer(&peers, 0, 1));
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (peers || !strstr(cases[i], "peers"))
			run_child("fault_of_the_second", cases[i]);
}

static void *wait_for_stream(void *side_)
{
	const struct side *side = side_;
	CUresult result = cuCtxSetCurrent(side->context);

	return (void *)(uintptr_t)(result != CUDA_SUCCESS ? result : cuStreamSynchronize(side->stream));
}

// A kernel faults while a thread waits for another kernel that runs for 20 s more.
CHILD(fault_while_a_thread_waits)
{
	const int devices = strstr(argument, "two") ? 2 : 1;
	struct side sides[2];
	void *waited = NULL;
	pthread_t waiter;
	size_t available, total;

	make_sides(sides, devices);
	launch_spin(&sides[0], 20000000000);
	if (pthread_create(&waiter, NULL, wait_for_stream, &sides[0]) != 0)
		FAIL("no thread to be had");
	usleep(300000); // the thread waits by then
	double start = seconds();
	launch_fault(&sides[1], false);
	if (!strstr(argument, "unseen")) {
		GIVES(cuStreamSynchronize(sides[1].stream), illegal);
		WORKS(cuCtxSetCurrent(sides[0].context));
		GIVES(cuStreamQuery(sides[0].stream), illegal);
		GIVES(cuStreamSynchronize(sides[0].stream), illegal);
	}
	pthread_join(waiter, &waited);
	GIVES((CUresult)(uintptr_t)waited, illegal);
	HOLDS(seconds() - start < 5);
	WORKS(cuCtxSetCurrent(sides[0].context));
	if (devices == 2) {
		GIVES(cuMemGetInfo(&available, &total), illegal);
		WORKS(cuDevicePrimaryCtxReset(0)); // the reset does not wait for the long kernel, either
		HOLDS(seconds() - start < 8);
		GIVES(cuDevicePrimaryCtxRetain(&context, 0), illegal);
	}
}

CONFORM(fault_wakes_threads_waiting_for_another_stream)
{
	run_child("fault_while_a_thread_waits", "one device");
}

CONFORM(fault_wakes_threads_waiting_for_another_device)
{
	if (!two_devices())
		SKIP("one device is visible");
	run_child("fault_while_a_thread_waits", "two devices");
	run_child("fault_while_a_thread_waits", "two devices, unseen");
}

CHILD(fault_before_the_first_has_a_context)
{
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	CUmemGenericAllocationHandle piece;
	CUcontext made;
	unsigned flags;
	int active = 1;

	NEED(cuInit(0));
	struct side side = make_side(primary_of(1));
	launch_fault(&side, false);
	GIVES(cuStreamSynchronize(side.stream), illegal);
	GIVES(cuDevicePrimaryCtxRetain(&made, 0), illegal);
	GIVES(cuCtxCreate(&made, NULL, 0, 0), illegal);
	WORKS(cuDevicePrimaryCtxGetState(0, &flags, &active));
	WORKS(cuMemCreate(&piece, 2 * MiB, &properties, 0));
	WORKS(cuDevicePrimaryCtxRelease(1));
	GIVES(cuDevicePrimaryCtxRetain(&made, 0), illegal);
}

CHILD(fault_among_contexts_of_the_programs_own)
{
	struct side sides[2];
	CUdeviceptr address;
	CUcontext made;

	NEED(cuInit(0));
	for (int i = 0; i < 2; i++) {
		NEED(cuCtxCreate(&made, NULL, 0, i));
		sides[i] = make_side(made);
	}
	launch_fault(&sides[1], false);
	GIVES(cuStreamSynchronize(sides[1].stream), illegal);
	WORKS(cuCtxSetCurrent(sides[0].context));
	GIVES(cuCtxSynchronize(), illegal);
	GIVES(cuMemAlloc(&address, 4096), illegal);
	WORKS(cuCtxDestroy(sides[1].context));
	WORKS(cuCtxSetCurrent(sides[0].context));
	GIVES(cuMemAlloc(&address, 4096), illegal);
	WORKS(cuCtxDestroy(sides[0].context));
	GIVES(cuCtxCreate(&made, NULL, 0, 0), illegal);
}

CONFORM(after_a_fault_no_device_gets_a_context)
{
	if (!two_devices())
		SKIP("one device is visible");
	run_child("fault_before_the_first_has_a_context", NULL);
	run_child("fault_among_contexts_of_the_programs_own", NULL);
}
