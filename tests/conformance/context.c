// Tests contexts: primary and created ones, a thread's stack of contexts, limits, memory costs.
#include "conformance.h"

#include <pthread.h>

CONFORM(primary_state)
{
	unsigned flags = 99;
	int active = -1;
	CUcontext again = NULL;

	need_context();
	WORKS(cuDevicePrimaryCtxGetState(device, &flags, &active));
	EQUALS(flags, 0);
	EQUALS(active, 1);
	WORKS(cuDevicePrimaryCtxRetain(&again, device));
	HOLDS(again == context);
	WORKS(cuDevicePrimaryCtxRelease(device));
	WORKS(cuCtxSynchronize());
	GIVES(cuDevicePrimaryCtxRetain(NULL, device), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuDevicePrimaryCtxRetain(&again, 99), CUDA_ERROR_INVALID_DEVICE);
	GIVES(cuDevicePrimaryCtxRelease(99), CUDA_ERROR_INVALID_DEVICE);
	GIVES(cuCtxDestroy(context), CUDA_ERROR_INVALID_CONTEXT); // a primary context is released, not destroyed
}

CHILD(primary_life)
{
	unsigned flags = 99;
	int active = -1;
	CUcontext first = NULL, second = NULL, current = NULL;
	CUdeviceptr address = 0;

	NEED(cuInit(0));
	NEED(cuDeviceGet(&device, 0));
	WORKS(cuDevicePrimaryCtxGetState(device, &flags, &active));
	EQUALS(active, 0);
	GIVES(cuDevicePrimaryCtxRelease(device), CUDA_ERROR_INVALID_CONTEXT); // never retained
	WORKS(cuDevicePrimaryCtxSetFlags(device, CU_CTX_SCHED_BLOCKING_SYNC));
	WORKS(cuDevicePrimaryCtxRetain(&first, device));
	WORKS(cuDevicePrimaryCtxGetState(device, &flags, &active));
	EQUALS(active, 1);
	EQUALS(flags & CU_CTX_SCHED_MASK, CU_CTX_SCHED_BLOCKING_SYNC);
	WORKS(cuCtxGetCurrent(&current));
	HOLDS(current == NULL); // retaining the primary context does not make it current
	WORKS(cuCtxSetCurrent(first));
	WORKS(cuMemAlloc(&address, 4096));
	WORKS(cuDevicePrimaryCtxRelease(device));
	WORKS(cuDevicePrimaryCtxGetState(device, &flags, &active));
	EQUALS(active, 0);
	GIVES(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	GIVES(cuMemAlloc(&address, 4096), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	WORKS(cuDevicePrimaryCtxRetain(&second, device));
	HOLDS(second == first); // the handle of a device's primary context never changes
	WORKS(cuCtxSynchronize());
	WORKS(cuDevicePrimaryCtxReset(device));
	WORKS(cuDevicePrimaryCtxGetState(device, &flags, &active));
	EQUALS(active, 0);
	WORKS(cuCtxPopCurrent(&current)); // a released context can be current, but is not usable
	WORKS(cuCtxPushCurrent(current));
	GIVES(cuMemAlloc(&address, 4096), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

CONFORM(primary_life)
{
	run_child("primary_life", NULL);
}

// Makes the primary context current while the context is not retained. That works because its handle is constant. The
// CUDA runtime does the same.
CHILD(inactive_primary)
{
	CUcontext primary = NULL, current = NULL;
	CUdevice where = 99;
	CUdeviceptr address = 0;
	unsigned flags, version = 0;
	int active = -1;

	NEED(cuInit(0));
	NEED(cuDeviceGet(&device, 0));
	NEED(cuDevicePrimaryCtxRetain(&primary, device));
	NEED(cuDevicePrimaryCtxRelease(device));
	WORKS(cuCtxSetCurrent(primary));
	WORKS(cuCtxGetCurrent(&current));
	HOLDS(current == primary);
	WORKS(cuDevicePrimaryCtxGetState(device, &flags, &active));
	EQUALS(active, 0); // making the context current does not activate it
	WORKS(cuCtxGetDevice(&where));
	EQUALS(where, device);
	GIVES(cuCtxGetApiVersion(primary, &version), CUDA_ERROR_INVALID_CONTEXT);
	GIVES(cuMemAlloc(&address, 4096), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	NEED(cuDevicePrimaryCtxRetain(&current, device));
	HOLDS(current == primary);
	WORKS(cuCtxGetApiVersion(primary, &version));
	WORKS(cuMemAlloc(&address, 4096));
	WORKS(cuDevicePrimaryCtxReset(device)); // a reset leaves the context current
	WORKS(cuCtxGetCurrent(&current));
	HOLDS(current == primary);
	WORKS(cuDevicePrimaryCtxGetState(device, &flags, &active));
	EQUALS(active, 0);
	WORKS(cuCtxGetDevice(&where));
	GIVES(cuMemAlloc(&address, 4096), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	NEED(cuDevicePrimaryCtxRetain(&current, device));
	HOLDS(current == primary);
	WORKS(cuMemAlloc(&address, 4096));
	WORKS(cuMemFree(address));
}

CONFORM(inactive_primary)
{
	run_child("inactive_primary", NULL);
}

CONFORM(created_and_destroyed)
{
	CUcontext made = NULL, current = NULL, popped = NULL;
	CUdevice where = -1;
	unsigned flags = 99, version = 0;
	unsigned long long identity = 0, other = 0;

	need_context();
	WORKS(cuCtxCreate(&made, NULL, CU_CTX_SCHED_SPIN, device));
	WORKS(cuCtxGetCurrent(&current));
	HOLDS(current == made && made != context);
	WORKS(cuCtxGetDevice(&where));
	EQUALS(where, device);
	WORKS(cuCtxGetFlags(&flags));
	EQUALS(flags & CU_CTX_SCHED_MASK, CU_CTX_SCHED_SPIN);
	WORKS(cuCtxGetApiVersion(made, &version));
	HOLDS(version >= 3010);
	WORKS(cuCtxGetId(made, &identity));
	WORKS(cuCtxGetId(context, &other));
	HOLDS(identity != other);
	WORKS(cuCtxPopCurrent(&popped));
	HOLDS(popped == made);
	WORKS(cuCtxGetCurrent(&current));
	HOLDS(current == context);
	WORKS(cuCtxPushCurrent(made));
	WORKS(cuCtxDestroy(made));
	WORKS(cuCtxGetCurrent(&current));
	HOLDS(current == context); // destroying the current context pops it
	// An H200 answered INVALID in several runs and IS_DESTROYED in one; the reason is unknown.
	CUresult again = cuCtxDestroy(made);
	HOLDS(again == CUDA_ERROR_INVALID_CONTEXT || again == CUDA_ERROR_CONTEXT_IS_DESTROYED);
	GIVES(cuCtxPushCurrent(NULL), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuCtxDestroy(NULL), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuCtxCreate(NULL, NULL, 0, device), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuCtxCreate(&made, NULL, 0x10000, device), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuCtxCreate(&made, NULL, 0, 99), CUDA_ERROR_INVALID_DEVICE);
}

CONFORM(set_current_replaces_the_top)
{
	CUcontext made = NULL, current = NULL;

	need_context();
	NEED(cuCtxCreate(&made, NULL, 0, device));
	WORKS(cuCtxSetCurrent(context)); // replaces the new context, which was at the top of the stack
	WORKS(cuCtxGetCurrent(&current));
	HOLDS(current == context);
	WORKS(cuCtxSetCurrent(NULL)); // pops
	WORKS(cuCtxGetCurrent(&current));
	HOLDS(current == context);
	WORKS(cuCtxDestroy(made));
	need_context();
}

static void *look_at_current(void *ret_current)
{
	*(CUresult *)ret_current = cuCtxSynchronize();
	return NULL;
}

CONFORM(new_thread_has_no_context)
{
	pthread_t thread;
	CUresult result = CUDA_SUCCESS;

	need_context();
	pthread_create(&thread, NULL, look_at_current, &result);
	pthread_join(thread, NULL);
	EQUALS(result, CUDA_ERROR_INVALID_CONTEXT);
}

CONFORM(memory_of_another_context)
{
	CUcontext made = NULL;
	CUdeviceptr ours = 0, theirs = 0;
	CUcontext owner = NULL;

	need_context();
	NEED(cuMemAlloc(&ours, 4096));
	NEED(cuCtxCreate(&made, NULL, 0, device));
	NEED(cuMemAlloc(&theirs, 4096));
	WORKS(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, theirs));
	HOLDS(owner == made);
	WORKS(cuMemsetD8(ours, 1, 4096)); // unified addressing
	WORKS(cuMemFree(ours));		  // frees memory with any current context
	WORKS(cuCtxDestroy(made));
	need_context();
	FAILS(cuMemFree(theirs)); // this memory was freed with its context
}

CONFORM(limits)
{
	size_t value = 0, stack = 0;

	need_context();
	WORKS(cuCtxGetLimit(&stack, CU_LIMIT_STACK_SIZE));
	EQUALS(stack, 1024);
	WORKS(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
	EQUALS(value, 8 * MiB);
	WORKS(cuCtxGetLimit(&value, CU_LIMIT_PRINTF_FIFO_SIZE));
	HOLDS(value >= 1 * MiB);
	GIVES(cuCtxGetLimit(&value, 99), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuCtxSetLimit(99, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuCtxGetLimit(NULL, CU_LIMIT_STACK_SIZE), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2000));
	WORKS(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
	EQUALS(value, 2000);
	WORKS(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, stack));
	FAILS(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, (size_t)1 << 40));
}

CHILD(heap_limits)
{
	size_t before, value = 0, heap = 0, fifo = 0;

	need_context();
	WORKS(cuCtxGetLimit(&heap, CU_LIMIT_MALLOC_HEAP_SIZE));
	WORKS(cuCtxGetLimit(&fifo, CU_LIMIT_PRINTF_FIFO_SIZE));
	before = memory_used();
	WORKS(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 * MiB));
	WORKS(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 16 * MiB));
	size_t now = memory_used();
	WORKS(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
	HOLDS(value >= 64 * MiB);
	size_t raised = value - heap;
	WORKS(cuCtxGetLimit(&value, CU_LIMIT_PRINTF_FIFO_SIZE));
	HOLDS(value >= 16 * MiB);
	raised += value - fifo;
	// the driver allocates the memory only when a module that needs it is loaded; a vGPU charges it at once
	COSTS(now - before, 0, raised);
}

CONFORM(heap_limits_cost_nothing_yet)
{
	run_child("heap_limits", NULL);
}

CHILD(stack_limit)
{
	size_t before, after, restored;
	int sms = 0, threads = 0;

	need_context();
	WORKS(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
	WORKS(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device));
	before = memory_used();
	WORKS(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
	after = memory_used();
	HOLDS(after > before); // the stack of every thread that can be resident is allocated at once
	BETWEEN(after - before, (size_t)sms * threads * 3000, (size_t)sms * threads * 4096 + 64 * MiB);
	WORKS(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
	restored = memory_used();
	HOLDS(restored <= after);
}

CONFORM(stack_limit_costs_at_once)
{
	run_child("stack_limit", NULL);
}

CONFORM(a_context_costs_memory_until_destroyed)
{
	CUcontext made = NULL;
	size_t before, during;

	need_context();
	if (in_vgpu())
		usleep(600000); // by then the daemon has measured undeclared overhead of earlier tests
	before = memory_used();
	NEED(cuCtxCreate(&made, NULL, 0, device));
	during = memory_used();
	WORKS(cuCtxDestroy(made));
	need_context();
	HOLDS(during > before + MiB);
	EQUALS(memory_used(), before);
}

CONFORM(cache_and_priorities)
{
	CUfunc_cache cache;
	int least = 99, greatest = 99;

	need_context();
	WORKS(cuCtxGetCacheConfig(&cache));
	WORKS(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
	WORKS(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_NONE));
	WORKS(cuCtxGetStreamPriorityRange(&least, &greatest));
	EQUALS(least, 0);
	HOLDS(greatest < 0);
	WORKS(cuCtxGetStreamPriorityRange(NULL, NULL));
	WORKS(cuCtxResetPersistingL2Cache());
}

CONFORM(peer_access_to_itself)
{
	need_context();
	FAILS(cuCtxEnablePeerAccess(context, 0));
	GIVES(cuCtxDisablePeerAccess(context), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	GIVES(cuCtxEnablePeerAccess(context, 1), CUDA_ERROR_INVALID_VALUE);
}
