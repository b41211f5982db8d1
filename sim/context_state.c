// Implements the properties of contexts (limits, flags, caches), and waits for contexts.
#include "capture.h"
#include "context.h"
#include "entry.h"
#include "exec.h"
#include "memory.h"
#include "process.h"

CUresult CUDAAPI cuCtxGetDevice(CUdevice *device)
{
	struct sim_context *context;

	SIM_ENTER(cuCtxGetDevice);
	SIM_TRY(sim_context_top(&context));
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = context->device->ordinal;
	return CUDA_SUCCESS;
}

// Returns the context of a handle. NULL: the current context.
static CUresult get_context(CUcontext handle, struct sim_context **ret_context)
{
	return handle ? sim_context_get(handle, ret_context) : sim_context_current_any(ret_context);
}

CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
	struct sim_context *context;

	SIM_ENTER(cuCtxGetDevice_v2);
	SIM_TRY(ctx ? sim_context_get(ctx, &context) : sim_context_top(&context));
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = context->device->ordinal;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetFlags(unsigned int *flags)
{
	struct sim_context *context;

	SIM_ENTER(cuCtxGetFlags);
	SIM_TRY(sim_context_current_any(&context));
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = context->flags;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetFlags(unsigned int flags)
{
	struct sim_context *context;

	SIM_ENTER(cuCtxSetFlags);
	SIM_TRY(sim_context_current(&context));
	if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	context->flags = flags;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
	struct sim_context *context;

	SIM_ENTER(cuCtxGetId);
	SIM_TRY(get_context(ctx, &context));
	if (!ctxId)
		return CUDA_ERROR_INVALID_VALUE;
	*ctxId = context->id;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
	struct sim_context *context;

	SIM_ENTER(cuCtxGetApiVersion);
	CUresult result = get_context(ctx, &context);
	if (ctx && sim_context_is_inactive(ctx, result))
		return CUDA_ERROR_INVALID_CONTEXT;
	SIM_TRY(result);
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = context->api_version;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSynchronize(void)
{
	struct sim_context *context;

	SIM_ENTER(cuCtxSynchronize);
	SIM_TRY(sim_context_current(&context));
	SIM_TRY(sim_capture_check_context(context->parent, context->green));
	return sim_context_synchronize(context);
}

CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext ctx)
{
	struct sim_context *context;

	SIM_ENTER(cuCtxSynchronize_v2);
	SIM_TRY(get_context(ctx, &context));
	SIM_TRY(sim_failure());
	SIM_TRY(sim_capture_check_context(context->parent, context->green));
	return sim_context_synchronize(context);
}

static bool is_known_limit(CUlimit limit)
{
	switch (limit) {
	case CU_LIMIT_STACK_SIZE:
	case CU_LIMIT_PRINTF_FIFO_SIZE:
	case CU_LIMIT_MALLOC_HEAP_SIZE:
	case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
	case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
	case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
		return true;
	case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
		return sim_process.config.cc_major < 9;
	default:
		return false;
	}
}

CUresult CUDAAPI cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
	struct sim_context *context;

	SIM_ENTER(cuCtxGetLimit);
	SIM_TRY(sim_context_current(&context));
	if (!pvalue || (unsigned)limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_known_limit(limit))
		return CUDA_ERROR_INVALID_VALUE;
	*pvalue = context->parent->limits[limit];
	return CUDA_SUCCESS;
}

// Returns how much device memory the stacks of all threads need, if each stack has `each` bytes. Stacks of up to
// SIM_STACK_DEFAULT bytes need none, because every context has them anyway.
static size_t get_stack_bytes(size_t each)
{
	const size_t threads = (size_t)2048 * sim_process.config.sms;

	return each > SIM_STACK_DEFAULT ? sim_round_up((each - SIM_STACK_DEFAULT) * threads, SIM_GRANULE) : 0;
}

// Allocates stacks of `each` bytes for every thread that the device can run. On failure, the stacks get their old size
// again, or the default size if another process took the memory. Call it with the memory lock held.
static CUresult resize_stack(struct sim_context *context, size_t before, size_t each)
{
	struct sim_physical *old = context->stack;
	CUresult result = CUDA_SUCCESS;

	context->stack = NULL;
	sim_physical_unref(old);
	if (get_stack_bytes(each))
		result = sim_driver_memory_create(context->device, get_stack_bytes(each), &context->stack);
	if (result == CUDA_SUCCESS)
		return result;
	// Allocate stacks of the old size again. Their memory was freed above, but another process may have it now.
	context->stack = NULL;
	if (get_stack_bytes(before) &&
	    sim_driver_memory_create(context->device, get_stack_bytes(before), &context->stack) != CUDA_SUCCESS) {
		context->stack = NULL;
		context->limits[CU_LIMIT_STACK_SIZE] = SIM_STACK_DEFAULT;
		context->local = 0;
	}
	return result;
}

static size_t max_size(size_t left, size_t right)
{
	return left > right ? left : right;
}

// Allocates the stack for every thread that the device can run at once, as hardware does.
static CUresult set_stack(struct sim_context *context, size_t value)
{
	const size_t most = 512 << 10;
	CUresult result;

	if (value > most)
		return CUDA_ERROR_INVALID_VALUE;
	value = sim_round_up(value, 16);
	(void)sim_context_synchronize(context);
	sim_memory_lock();
	result = resize_stack(context, max_size(context->limits[CU_LIMIT_STACK_SIZE], context->local),
			      max_size(value, context->local));
	if (result == CUDA_SUCCESS)
		context->limits[CU_LIMIT_STACK_SIZE] = value;
	sim_memory_unlock();
	return result;
}

// Allocates local memory for every thread that the device can run. A launch calls this if its kernel needs more than
// earlier kernels did. The context keeps the memory.
CUresult sim_context_reserve_local(struct sim_context *context, size_t bytes)
{
	CUresult result = CUDA_SUCCESS;

	sim_memory_lock();
	size_t before = max_size(context->limits[CU_LIMIT_STACK_SIZE], context->local);
	if (bytes > before)
		result = resize_stack(context, before, bytes);
	if (result == CUDA_SUCCESS && bytes > context->local)
		context->local = bytes;
	sim_memory_unlock();
	return result;
}

CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct sim_context *context;

	SIM_ENTER(cuCtxSetLimit);
	SIM_TRY(sim_capture_check_unsafe());
	SIM_TRY(sim_context_current(&context));
	context = context->parent;
	if ((unsigned)limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_known_limit(limit))
		return CUDA_ERROR_INVALID_VALUE;
	if (limit == CU_LIMIT_STACK_SIZE)
		return set_stack(context, value);
	if (limit == CU_LIMIT_PRINTF_FIFO_SIZE || limit == CU_LIMIT_MALLOC_HEAP_SIZE) {
		if (value > sim_process.config.memory)
			return CUDA_ERROR_OUT_OF_MEMORY;
		SIM_TRY(sim_exec_set_limit(context, limit, value));
	}
	if (limit == CU_LIMIT_MAX_L2_FETCH_GRANULARITY)
		value = value < 32 ? 32 : value > 128 ? 128 : value;
	context->limits[limit] = value;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
	struct sim_context *context;

	SIM_ENTER(cuCtxGetCacheConfig);
	SIM_TRY(sim_context_current(&context));
	if (!pconfig)
		return CUDA_ERROR_INVALID_VALUE;
	*pconfig = context->cache_config;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache config)
{
	struct sim_context *context;

	SIM_ENTER(cuCtxSetCacheConfig);
	SIM_TRY(sim_capture_check_unsafe());
	SIM_TRY(sim_context_current(&context));
	if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
		return CUDA_ERROR_INVALID_VALUE;
	context->cache_config = config;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetSharedMemConfig(CUsharedconfig *pConfig)
{
	struct sim_context *context;

	SIM_ENTER(cuCtxGetSharedMemConfig);
	SIM_TRY(sim_context_current(&context));
	if (!pConfig)
		return CUDA_ERROR_INVALID_VALUE;
	*pConfig = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE; // the bank size is fixed since compute capability 5
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetSharedMemConfig(CUsharedconfig config)
{
	struct sim_context *context;

	SIM_ENTER(cuCtxSetSharedMemConfig);
	SIM_TRY(sim_context_current(&context));
	return (unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	struct sim_context *context;

	SIM_ENTER(cuCtxGetStreamPriorityRange);
	SIM_TRY(sim_context_current(&context));
	if (leastPriority)
		*leastPriority = 0;
	if (greatestPriority)
		*greatestPriority = -5;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxResetPersistingL2Cache(void)
{
	struct sim_context *context;

	SIM_ENTER(cuCtxResetPersistingL2Cache);
	return sim_context_current(&context);
}

CUresult CUDAAPI cuCtxGetExecAffinity(CUexecAffinityParam *pExecAffinity, CUexecAffinityType type)
{
	struct sim_context *context;

	SIM_ENTER(cuCtxGetExecAffinity);
	SIM_TRY(sim_context_current(&context));
	if (!pExecAffinity)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	pExecAffinity->type = type;
	pExecAffinity->param.smCount.val = context->sms;
	return CUDA_SUCCESS;
}
