#include <pthread.h>
#include <stdatomic.h>

#include "shim/context.h"
#include "shim/function.h"
#include "shim/local.h"

_Atomic bool shim_launch_watched;

// What a context has for every thread from the start, as part of its own figure.
static const uint64_t from_the_start = 1024;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t raising = PTHREAD_MUTEX_INITIALIZER; // what a context holds is looked up, then raised
static uint64_t heaviest; // bytes a thread, of all kernels noted
static int contexts, deferred;

static void watch_again(void)
{
	shim_launch_watched = heaviest > 0 || deferred > 0;
}

void shim_local_contexts(int change)
{
	pthread_mutex_lock(&lock);
	contexts += change;
	watch_again();
	pthread_mutex_unlock(&lock);
}

static bool forget(uint64_t function)
{
	struct shim_record record;

	return shim_record_take(SHIM_KERNEL, function, &record) && record.origin == SHIM_UNKNOWN;
}

void shim_local_note(uint64_t function, uint64_t local)
{
	struct shim_record record = {.key = function, .bytes = local, .what = SHIM_KERNEL};
	bool was_deferred;

	if (local <= from_the_start && !heaviest && !deferred)
		return;
	was_deferred = forget(function); // the handle may have been another function's
	pthread_mutex_lock(&lock);
	deferred -= was_deferred;
	if (local > from_the_start && shim_record_put(&record) == 0 && local > heaviest)
		heaviest = local;
	watch_again();
	pthread_mutex_unlock(&lock);
}

void shim_local_defer(CUkernel kernel)
{
	struct shim_record record = {.key = (uintptr_t)kernel, .what = SHIM_KERNEL, .origin = SHIM_UNKNOWN};

	pthread_mutex_lock(&lock);
	if (!shim_record_find(SHIM_KERNEL, record.key, &record) && shim_record_put(&record) == 0)
		deferred++;
	watch_again();
	pthread_mutex_unlock(&lock);
}

static CUcontext context_of(CUstream stream)
{
	CUcontext context = shim_only_context;

	if (context || !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD ||
	    REAL(cuStreamGetCtx)(stream, &context) != CUDA_SUCCESS)
		return shim_current_context();
	return context;
}

static uint64_t beyond_the_start(uint64_t each)
{
	return each > from_the_start ? shim_round_granularity(shim_for_every_thread(each - from_the_start)) : 0;
}

// A launch's context need not be the thread's current one, and there may be none.
static bool enter(CUcontext context)
{
	return context && REAL(cuCtxPushCurrent_v2)(context) == CUDA_SUCCESS;
}

static void leave(bool entered)
{
	CUcontext popped;

	if (entered)
		REAL(cuCtxPopCurrent_v2)(&popped);
}

static CUresult know_within(enum vg_entry entry, CUkernel kernel, CUcontext context)
{
	bool entered = enter(context);
	CUresult result = shim_kernel_known(entry, kernel);

	leave(entered);
	return result;
}

static size_t stack_limit_of(CUcontext context)
{
	bool entered = enter(context);
	size_t stack = 0;

	if (REAL(cuCtxGetLimit)(&stack, CU_LIMIT_STACK_SIZE) != CUDA_SUCCESS)
		stack = 0;
	leave(entered);
	return stack;
}

// What the context has been charged for it: by its stack limit, and by launches.
static uint64_t held_by(CUcontext context)
{
	struct shim_record record;
	size_t stack = stack_limit_of(context);
	uint64_t held = 0;

	if (stack > from_the_start)
		held = shim_for_every_thread(stack - from_the_start);
	if (shim_record_find(SHIM_LOCAL, (uintptr_t)context, &record))
		held += record.bytes;
	return held;
}

static CUresult raise_to(enum vg_entry entry, uint64_t local, struct shim_raise *raise)
{
	struct shim_record record = {.key = (uintptr_t)raise->context, .context = raise->context, .what = SHIM_LOCAL,
				     .kind = VG_LEDGER_LIMITS};
	uint64_t wanted = beyond_the_start(local), held = held_by(raise->context);
	CUresult result = CUDA_SUCCESS;

	if (wanted > held) {
		raise->bytes = wanted - held;
		result = shim_charge(entry, VG_LEDGER_LIMITS, raise->bytes);
	}
	if (result != CUDA_SUCCESS || !raise->bytes)
		return result;
	record.bytes = raise->bytes;
	if (shim_record_grow(&record) == 0)
		return CUDA_SUCCESS;
	shim_refund_record(&record);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

// With one context that holds what the heaviest needs there is nothing to watch any more.
static void watch_no_more(CUcontext context)
{
	uint64_t held = held_by(context);

	pthread_mutex_lock(&lock);
	if (contexts <= 1 && deferred == 0 && held >= beyond_the_start(heaviest))
		shim_launch_watched = false;
	pthread_mutex_unlock(&lock);
}

CUresult shim_local_raise(enum vg_entry entry, CUfunction function, CUstream stream, CUcontext context,
			  struct shim_raise *ret_raise)
{
	struct shim_record kernel;
	CUresult result;

	*ret_raise = (struct shim_raise){0};
	if (!shim_counting() || !shim_record_find(SHIM_KERNEL, (uintptr_t)function, &kernel))
		return CUDA_SUCCESS;
	ret_raise->context = context ? context : context_of(stream);
	if (kernel.origin == SHIM_UNKNOWN) {
		result = know_within(entry, (CUkernel)function, ret_raise->context);
		if (result != CUDA_SUCCESS || !shim_record_find(SHIM_KERNEL, (uintptr_t)function, &kernel))
			return result;
	}
	pthread_mutex_lock(&raising);
	result = raise_to(entry, kernel.bytes, ret_raise);
	pthread_mutex_unlock(&raising);
	if (result == CUDA_SUCCESS)
		watch_no_more(ret_raise->context);
	return result;
}

CUresult shim_local_launched(CUresult result, const struct shim_raise *raise)
{
	struct shim_record record;

	if (result == CUDA_SUCCESS || !raise->bytes)
		return result;
	if (shim_record_take(SHIM_LOCAL, (uintptr_t)raise->context, &record)) {
		shim_refund(VG_LEDGER_LIMITS, raise->bytes);
		record.bytes -= raise->bytes < record.bytes ? raise->bytes : record.bytes;
		if (record.bytes)
			shim_record_grow(&record);
	}
	shim_local_contexts(0);
	return result;
}
