#include "shim/contexts.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/hot.h"
#include "shim/entries.h"

_Atomic(CUcontext) shim_only_context;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primary;
static bool is_primary_charged;
static unsigned int other_count; // number of contexts other than the primary one
enum { OTHERS = 64 };
static CUcontext others[OTHERS]; // contexts other than the primary one, OTHERS at most

// Sets shim_only_context to the primary context if that is charged and the process has no other context, or else to
// NULL. Call it with the lock held.
static void find_only_context(void)
{
	shim_only_context = is_primary_charged && other_count == 0 ? primary : NULL;
}

// Replaces a context in the array `others`. NULL stands for an unused element. Call it with the lock held.
static void replace_other(CUcontext before, CUcontext after)
{
	for (size_t i = 0; i < OTHERS; i++)
		if (others[i] == before) {
			others[i] = after;
			return;
		}
}

VG_HOT CUcontext shim_current_context(void)
{
	CUcontext context = atomic_load_explicit(&shim_only_context, memory_order_relaxed);

	if (context)
		return context;
	return REAL(cuCtxGetCurrent)(&context) == CUDA_SUCCESS ? context : NULL;
}

CUcontext shim_context_of_stream(CUstream stream)
{
	CUcontext context = shim_only_context;

	if (context || !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD ||
	    REAL(cuStreamGetCtx)(stream, &context) != CUDA_SUCCESS)
		return shim_current_context();
	return context;
}

size_t shim_contexts_list(CUcontext *ret_contexts, size_t most)
{
	size_t count = 0;

	pthread_mutex_lock(&lock);
	if (primary && most)
		ret_contexts[count++] = primary;
	for (size_t i = 0; i < OTHERS && count < most; i++)
		if (others[i])
			ret_contexts[count++] = others[i];
	pthread_mutex_unlock(&lock);
	return count;
}

void shim_contexts_set_primary(CUcontext context, bool is_charged)
{
	pthread_mutex_lock(&lock);
	primary = context;
	is_primary_charged = is_charged;
	find_only_context();
	pthread_mutex_unlock(&lock);
}

void shim_contexts_add(CUcontext context)
{
	pthread_mutex_lock(&lock);
	other_count++;
	replace_other(NULL, context);
	find_only_context();
	pthread_mutex_unlock(&lock);
}

void shim_contexts_remove(CUcontext context)
{
	pthread_mutex_lock(&lock);
	other_count--;
	replace_other(context, NULL);
	find_only_context();
	pthread_mutex_unlock(&lock);
}
