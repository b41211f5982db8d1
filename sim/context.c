// Creates and ends contexts, and sets their error after a failure. Keeps each thread's stack of current contexts.
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "entry.h"
#include "exec.h"
#include "log.h"
#include "memory.h"
#include "mps.h"
#include "process.h"
#include "region_time.h"
#include "stream.h"
#include "texture.h"

static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_context *contexts;
static atomic_ullong context_ids = 1;

// The thread's stack of current contexts. An entry may be NULL.
static _Thread_local struct {
	struct sim_context **items;
	size_t count, capacity;
} stack;
static _Thread_local struct sim_context *current;
static pthread_key_t stack_key;
static pthread_once_t stack_once = PTHREAD_ONCE_INIT;

static void create_stack_key(void)
{
	pthread_key_create(&stack_key, free);
}

static CUresult push_context(struct sim_context *context)
{
	if (stack.count == stack.capacity) {
		size_t more = stack.capacity ? 2 * stack.capacity : 8;
		struct sim_context **grown = realloc(stack.items, more * sizeof *grown);
		if (!grown)
			return CUDA_ERROR_OUT_OF_MEMORY;
		stack.items = grown;
		stack.capacity = more;
		pthread_once(&stack_once, create_stack_key);
		pthread_setspecific(stack_key, grown); // the stack is freed when the thread ends
	}
	stack.items[stack.count++] = context;
	current = context;
	return CUDA_SUCCESS;
}

static void pop_context(void)
{
	stack.count--;
	current = stack.count ? stack.items[stack.count - 1] : NULL;
}

static CUresult set_current(struct sim_context *context)
{
	if (stack.count == 0)
		return context ? push_context(context) : CUDA_SUCCESS;
	if (!context) {
		pop_context();
		return CUDA_SUCCESS;
	}
	stack.items[stack.count - 1] = current = context;
	return CUDA_SUCCESS;
}

static CUresult check_alive(const struct sim_context *context)
{
	return atomic_load_explicit(&context->magic, memory_order_acquire) == SIM_CONTEXT_MAGIC
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult sim_context_get(CUcontext handle, struct sim_context **ret_context)
{
	struct sim_context *context = (struct sim_context *)handle;

	if ((uintptr_t)handle < 4096 || (uintptr_t)handle % sizeof(void *))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (check_alive(context) != CUDA_SUCCESS)
		return context->was_context == SIM_CONTEXT_MAGIC ? CUDA_ERROR_CONTEXT_IS_DESTROYED
								 : CUDA_ERROR_INVALID_CONTEXT;
	*ret_context = context;
	return CUDA_SUCCESS;
}

bool sim_context_is_inactive(CUcontext handle, CUresult result)
{
	return result == CUDA_ERROR_CONTEXT_IS_DESTROYED && ((struct sim_context *)handle)->primary;
}

CUresult sim_context_current_any(struct sim_context **ret_context)
{
	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	SIM_TRY(check_alive(current));
	*ret_context = current;
	return CUDA_SUCCESS;
}

CUresult sim_context_top(struct sim_context **ret_context)
{
	CUresult result = sim_context_current_any(ret_context);

	if (!sim_context_is_inactive(sim_context_handle(current), result))
		return result;
	*ret_context = current;
	return CUDA_SUCCESS;
}

CUresult sim_context_current(struct sim_context **ret_context)
{
	struct sim_context *context;

	SIM_TRY(sim_context_current_any(&context));
	SIM_TRY(sim_failure());
	SIM_TRY((CUresult)atomic_load_explicit(&context->device->lost, memory_order_relaxed));
	*ret_context = context;
	return CUDA_SUCCESS;
}

static void stop_work(struct sim_context *context, void *data)
{
	int none = 0;
	atomic_compare_exchange_strong(&context->cancel, &none, SIM_CANCEL_WORK);
}

// Sets the sticky error, which all later calls return, unless one was set before. Returns the sticky error.
static CUresult set_sticky_error(const struct sim_device *device, CUresult error)
{
	int before = CUDA_SUCCESS;

	if (!atomic_compare_exchange_strong(&sim_process.fault, &before, (int)error))
		return (CUresult)before;
	sim_log("device %d: the context failed, and with it those of every device: %s", device->ordinal,
		sim_error_name(error));
	sim_contexts_each(stop_work, NULL); // threads that wait for this work wake up and get the error
	for (int i = 0; i < sim_process.device_count && sim_process.config.slice_ns; i++)
		region_time_wake(sim_process.region, sim_process.devices[i].physical);
	return error;
}

CUresult sim_context_fail(const struct sim_context *context, CUresult error)
{
	// Publish the failure first: another thread may see the sticky error and end this process at once.
	if (sim_failure() == CUDA_SUCCESS)
		sim_mps_publish_failure(context, error);
	return set_sticky_error(context->device, error);
}

void sim_context_fail_with_others(const struct sim_device *device, CUresult error)
{
	(void)set_sticky_error(device, error);
}

void sim_contexts_each(void (*each)(struct sim_context *context, void *data), void *data)
{
	pthread_mutex_lock(&contexts_lock);
	for (struct sim_context *context = contexts; context; context = context->next)
		if (check_alive(context) == CUDA_SUCCESS)
			each(context, data);
	pthread_mutex_unlock(&contexts_lock);
}

static bool is_idle(struct sim_context *context)
{
	bool all = true;

	pthread_mutex_lock(&context->lock);
	for (struct sim_stream *stream = context->streams; stream && all; stream = stream->next)
		all = stream->last == NULL;
	pthread_mutex_unlock(&context->lock);
	return all;
}

bool sim_has_pending_work(void)
{
	bool pending = false;

	pthread_mutex_lock(&contexts_lock);
	for (struct sim_context *context = contexts; context && !pending; context = context->next)
		pending = check_alive(context) == CUDA_SUCCESS && !is_idle(context);
	pthread_mutex_unlock(&contexts_lock);
	return pending;
}

// Waits until the context's work has ended. Cancels the work if that takes longer than two seconds.
static void wait_until_idle(struct sim_context *context)
{
	uint64_t until = sim_clock_ns() + 2000000000u;
	const struct timespec nap = {.tv_nsec = 200000};

	while (!is_idle(context)) {
		if (sim_clock_ns() > until)
			atomic_store(&context->cancel, SIM_CANCEL_WAITS);
		nanosleep(&nap, NULL);
	}
}

static void set_default_limits(struct sim_context *context)
{
	context->limits[CU_LIMIT_STACK_SIZE] = SIM_STACK_DEFAULT;
	context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = SIM_MIB;
	context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 * SIM_MIB;
	context->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
	context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
	context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 128;
}

CUresult sim_driver_memory_create(struct sim_device *device, size_t size, struct sim_physical **ret_physical)
{
	CUresult result = sim_physical_create(device, size, ret_physical);

	if (result == CUDA_SUCCESS)
		(*ret_physical)->driver = true;
	return result;
}

CUresult sim_context_new(struct sim_device *device, unsigned flags, struct sim_context *parent,
			 struct sim_context *revive, struct sim_context **ret_context)
{
	struct sim_context *context = revive ? revive : calloc(1, sizeof *context);
	CUresult result = CUDA_SUCCESS;

	if (!context)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!parent && !region_add_context(sim_process.region, device->physical, sim_process.config.mode)) {
		result = CUDA_ERROR_DEVICE_UNAVAILABLE;
	} else if (!parent && sim_process.config.context) {
		sim_memory_lock();
		result = sim_driver_memory_create(device, sim_process.config.context, &context->overhead);
		sim_memory_unlock();
		if (result != CUDA_SUCCESS)
			region_count_context(sim_process.region, device->physical, -1);
	}
	if (result != CUDA_SUCCESS) {
		if (!revive)
			free(context);
		return result;
	}
	sim_mps_join_device(device);
	context->device = device;
	context->flags = flags;
	context->api_version = 3020;
	context->parent = parent ? parent : context;
	context->sms = sim_process.sms;
	context->id = atomic_fetch_add(&context_ids, 1);
	context->was_context = SIM_CONTEXT_MAGIC;
	set_default_limits(context);
	if (!revive) {
		pthread_mutex_init(&context->lock, NULL);
		pthread_cond_init(&context->no_room_waiters, NULL);
	}
	context->peers = 0;
	context->legacy = sim_stream_new(context, 0, 0);
	context->legacy->legacy = true;
	// If the process has failed already, cancel the context here. A later failure cancels all contexts in the list,
	// and so this one, too.
	pthread_mutex_lock(&contexts_lock);
	atomic_store(&context->cancel, sim_failure() ? SIM_CANCEL_WORK : 0);
	atomic_store(&context->magic, SIM_CONTEXT_MAGIC);
	if (!revive) {
		context->next = contexts;
		contexts = context;
	}
	pthread_mutex_unlock(&contexts_lock);
	*ret_context = context;
	return CUDA_SUCCESS;
}

CUresult sim_context_alloc_green(struct sim_context *context)
{
	struct sim_physical **grown;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	if (!sim_process.config.context) // contexts cost no memory in this configuration
		return CUDA_SUCCESS;
	sim_memory_lock();
	grown = realloc(context->green_memory, (context->green_count + 1) * sizeof(struct sim_physical *));
	if (grown) {
		context->green_memory = grown;
		result = sim_driver_memory_create(context->device, SIM_GREEN_BYTES, &grown[context->green_count]);
		context->green_count += result == CUDA_SUCCESS;
	}
	sim_memory_unlock();
	return result;
}

void sim_context_end(struct sim_context *context)
{
	wait_until_idle(context);
	atomic_store(&context->magic, 0);
	if (context->parent == context) {
		sim_exec_context_finish(context);
		sim_texture_context_finish(context);
		sim_memory_context_finish(context);
	}
	// Closing a stream removes it from the list, so start again at the head of the list each time.
	for (;;) {
		pthread_mutex_lock(&context->lock);
		struct sim_stream *stream = context->streams;
		while (stream && atomic_load(&stream->magic) == 0)
			stream = stream->next;
		pthread_mutex_unlock(&context->lock);
		if (!stream)
			break;
		sim_stream_close(stream);
	}
	sim_context_forget_waits(context);
	atomic_store(&context->recorder, NULL); // the recorder was closed together with the other streams
	sim_memory_lock();
	sim_physical_unref(context->overhead);
	sim_physical_unref(context->stack);
	context->overhead = context->stack = NULL;
	for (size_t i = 0; i < context->green_count; i++)
		sim_physical_unref(context->green_memory[i]);
	free(context->green_memory);
	context->green_memory = NULL;
	context->green_count = 0;
	context->local = 0;
	sim_memory_unlock();
	if (context->parent == context)
		region_count_context(sim_process.region, context->device->physical, -1);
	// The struct is not freed, so that sim_context_get() can tell a destroyed context from an invalid handle.
}

// ---- driver functions: creation and the stack -----------------------------------------------

bool sim_context_flags_are_valid(unsigned flags)
{
	unsigned schedule = flags & CU_CTX_SCHED_MASK;

	return !(flags & ~(unsigned)CU_CTX_FLAGS_MASK) && schedule <= CU_CTX_SCHED_BLOCKING_SYNC && schedule != 3;
}

static CUresult create_context(CUcontext *pctx, unsigned flags, CUdevice dev, unsigned version)
{
	struct sim_device *device;
	struct sim_context *context;

	if (!pctx || !sim_context_flags_are_valid(flags))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_device_get(dev, &device));
	SIM_TRY((CUresult)atomic_load(&device->lost));
	SIM_TRY(sim_failure());
	SIM_TRY(sim_context_new(device, flags, NULL, NULL, &context));
	context->api_version = version;
	SIM_TRY(push_context(context));
	*pctx = sim_context_handle(context);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	SIM_ENTER(cuCtxCreate);
	return create_context(pctx, flags, dev, 3010);
}

CUresult CUDAAPI cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	SIM_ENTER(cuCtxCreate_v2);
	return create_context(pctx, flags, dev, 3020);
}

CUresult CUDAAPI cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags,
				CUdevice dev)
{
	SIM_ENTER(cuCtxCreate_v3);
	if (numParams < 0 || (numParams > 0 && !paramsArray))
		return CUDA_ERROR_INVALID_VALUE;
	if (numParams > 0) // needs MPS
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	return create_context(pctx, flags, dev, 3020);
}

CUresult CUDAAPI cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev)
{
	SIM_ENTER(cuCtxCreate_v4);
	if (ctxCreateParams && ctxCreateParams->numExecAffinityParams > 0)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	if (ctxCreateParams && ctxCreateParams->cigParams)
		return CUDA_ERROR_NOT_SUPPORTED;
	return create_context(pctx, flags, dev, 3020);
}

CUresult CUDAAPI cuCtxDestroy_v2(CUcontext ctx)
{
	struct sim_context *context;

	SIM_ENTER(cuCtxDestroy_v2);
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_context_get(ctx, &context) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (context->primary || context->green)
		return CUDA_ERROR_INVALID_CONTEXT;
	sim_context_end(context);
	if (current == context)
		pop_context();
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxDestroy(CUcontext ctx)
{
	SIM_ENTER(cuCtxDestroy);
	return cuCtxDestroy_v2(ctx);
}

CUresult CUDAAPI cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
	struct sim_context *context;

	SIM_ENTER(cuCtxAttach);
	if (!pctx || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_context_current(&context));
	context->attached++;
	*pctx = sim_context_handle(context);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxDetach(CUcontext ctx)
{
	struct sim_context *context;

	SIM_ENTER(cuCtxDetach);
	SIM_TRY(sim_context_get(ctx, &context));
	if (context->attached == 0)
		return cuCtxDestroy_v2(ctx);
	context->attached--;
	return CUDA_SUCCESS;
}

// Accepts also a primary context that is not retained: it may be current. Calls that use it then fail with
// CUDA_ERROR_CONTEXT_IS_DESTROYED, until it is retained.
static CUresult get_for_stack(CUcontext handle, struct sim_context **ret_context)
{
	CUresult result = sim_context_get(handle, ret_context);

	if (!sim_context_is_inactive(handle, result))
		return result;
	*ret_context = (struct sim_context *)handle;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext ctx)
{
	struct sim_context *context;

	SIM_ENTER(cuCtxPushCurrent_v2);
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(get_for_stack(ctx, &context));
	return push_context(context);
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext ctx)
{
	SIM_ENTER(cuCtxPushCurrent);
	return cuCtxPushCurrent_v2(ctx);
}

CUresult CUDAAPI cuCtxPopCurrent_v2(CUcontext *pctx)
{
	SIM_ENTER(cuCtxPopCurrent_v2);
	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (pctx)
		*pctx = sim_context_handle(current);
	pop_context();
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *pctx)
{
	SIM_ENTER(cuCtxPopCurrent);
	return cuCtxPopCurrent_v2(pctx);
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext ctx)
{
	struct sim_context *context = NULL;

	SIM_ENTER(cuCtxSetCurrent);
	if (ctx)
		SIM_TRY(get_for_stack(ctx, &context));
	return set_current(context);
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *pctx)
{
	SIM_ENTER(cuCtxGetCurrent);
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = sim_context_handle(current);
	return CUDA_SUCCESS;
}
