#include "shim/raise.h"

#include <pthread.h>

#include "shim/contexts.h"
#include "shim/kernel.h"

// a thread holds the lock while it reads and raises a context's charge
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// Makes the context of a launch current in this thread, which may have another current context. Returns false if there
// is no context.
static bool enter_context(CUcontext context)
{
	return context && REAL(cuCtxPushCurrent_v2)(context) == CUDA_SUCCESS;
}

static void leave_context(bool has_entered)
{
	CUcontext popped;

	if (has_entered)
		REAL(cuCtxPopCurrent_v2)(&popped);
}

static CUresult load_deferred(enum vg_entry entry, CUkernel kernel, CUcontext context)
{
	bool has_entered = enter_context(context);
	CUresult result = shim_kernel_load(entry, kernel);

	leave_context(has_entered);
	return result;
}

static size_t read_stack_limit(CUcontext context)
{
	bool has_entered = enter_context(context);
	size_t stack = 0;

	if (REAL(cuCtxGetLimit)(&stack, CU_LIMIT_STACK_SIZE) != CUDA_SUCCESS)
		stack = 0;
	leave_context(has_entered);
	return stack;
}

// Returns how much a context is charged for local memory: for its stack limit, and for earlier launches.
static uint64_t read_charge(CUcontext context)
{
	struct shim_record record;
	size_t stack = read_stack_limit(context);
	uint64_t charged = 0;

	if (stack > shim_local_initial)
		charged = shim_for_every_thread(stack - shim_local_initial);
	if (shim_record_find(SHIM_LOCAL, (uintptr_t)context, &record))
		charged += record.bytes;
	return charged;
}

static CUresult raise_charge(enum vg_entry entry, uint64_t local, struct shim_raise *raise)
{
	struct shim_record record = {.key = (uintptr_t)raise->context,
				     .context = raise->context,
				     .type = SHIM_LOCAL,
				     .kind = VG_LEDGER_LIMITS};
	uint64_t wanted = shim_local_beyond_initial(local), charged = read_charge(raise->context);
	CUresult result;

	if (wanted <= charged)
		return CUDA_SUCCESS;
	raise->bytes = wanted - charged;
	result = shim_charge(entry, VG_LEDGER_LIMITS, raise->bytes);
	if (result != CUDA_SUCCESS)
		return result;
	record.bytes = raise->bytes;
	if (shim_record_add_bytes(&record) == 0)
		return CUDA_SUCCESS;
	shim_refund_record(&record);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult shim_raise_for_launch(enum vg_entry entry, CUfunction function, CUstream stream, CUcontext context,
			       struct shim_raise *ret_raise)
{
	struct shim_record kernel;
	CUresult result;

	*ret_raise = (struct shim_raise){0};
	if (!shim_counting() || !shim_record_find(SHIM_KERNEL, (uintptr_t)function, &kernel))
		return CUDA_SUCCESS;
	ret_raise->context = context ? context : shim_context_of_stream(stream);
	if (kernel.origin == SHIM_UNKNOWN) {
		result = load_deferred(entry, (CUkernel)function, ret_raise->context);
		if (result != CUDA_SUCCESS || !shim_record_find(SHIM_KERNEL, (uintptr_t)function, &kernel))
			return result;
	}
	pthread_mutex_lock(&lock);
	result = raise_charge(entry, kernel.bytes, ret_raise);
	pthread_mutex_unlock(&lock);
	if (result == CUDA_SUCCESS)
		shim_local_note_charge(read_charge(ret_raise->context));
	return result;
}

CUresult shim_raise_finish(CUresult result, const struct shim_raise *raise)
{
	struct shim_record record;

	if (result == CUDA_SUCCESS || !raise->bytes)
		return result;
	if (shim_record_remove(SHIM_LOCAL, (uintptr_t)raise->context, &record)) {
		shim_refund(VG_LEDGER_LIMITS, raise->bytes);
		record.bytes -= raise->bytes < record.bytes ? raise->bytes : record.bytes;
		if (record.bytes)
			shim_record_add_bytes(&record);
	}
	shim_local_note_contexts(0);
	return result;
}

CUresult shim_raise_for_kernel_node(enum vg_entry entry, CUfunction function, CUcontext context)
{
	struct shim_raise raise;

	return SHIM_LAUNCH_WATCHED ? shim_raise_for_launch(entry, function, NULL, context, &raise) : CUDA_SUCCESS;
}

CUresult shim_raise_for_node(enum vg_entry entry, const CUgraphNodeParams *parameters)
{
	if (!parameters || parameters->type != CU_GRAPH_NODE_TYPE_KERNEL)
		return CUDA_SUCCESS;
	return shim_raise_for_kernel_node(
		entry, parameters->kernel.func ? parameters->kernel.func : (CUfunction)parameters->kernel.kern,
		parameters->kernel.ctx);
}
