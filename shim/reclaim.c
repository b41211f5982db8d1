#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "shim/export.h"
#include "shim/graph.h"
#include "shim/pool.h"
#include "shim/reclaim.h"

_Atomic bool shim_dirty;

// Frees in stream order of memory that has a charge of its own.
struct pending {
	CUevent event;
	uint64_t bytes;
	enum vg_ledger_kind kind;
	struct pending *next;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pending *pending;

static bool mark_stream(CUevent *ret_event, bool per_thread, CUstream stream)
{
	SHIM_RELAXED;
	CUresult result = REAL(cuEventCreate)(ret_event, CU_EVENT_DISABLE_TIMING);

	if (result != CUDA_SUCCESS)
		return false;
	result = per_thread ? REAL(cuEventRecord_ptsz)(*ret_event, stream) : REAL(cuEventRecord)(*ret_event, stream);
	if (result != CUDA_SUCCESS)
		REAL(cuEventDestroy_v2)(*ret_event);
	return result == CUDA_SUCCESS;
}

void shim_refund_in_order(const struct shim_record *record, bool per_thread, CUstream stream)
{
	struct pending *one = record->bytes ? malloc(sizeof *one) : NULL;

	if (!one || !mark_stream(&one->event, per_thread, stream)) {
		free(one);
		shim_refund_record(record);
		return;
	}
	one->bytes = record->bytes;
	one->kind = record->kind;
	pthread_mutex_lock(&lock);
	one->next = pending;
	pending = one;
	pthread_mutex_unlock(&lock);
	shim_dirty = true;
}

static void settle_pending(void)
{
	pthread_mutex_lock(&lock);
	for (struct pending **link = &pending; *link;) {
		struct pending *one = *link;
		if (REAL(cuEventQuery)(one->event) == CUDA_ERROR_NOT_READY) {
			link = &one->next;
			shim_dirty = true;
			continue;
		}
		REAL(cuEventDestroy_v2)(one->event);
		shim_refund(one->kind, one->bytes);
		*link = one->next;
		free(one);
	}
	pthread_mutex_unlock(&lock);
}

void shim_settle(void)
{
	SHIM_RELAXED;

	shim_dirty = false;
	settle_pending();
	shim_exports_settle();
	shim_pools_settle();
	shim_graphs_settle();
}

bool shim_reclaim(void)
{
	SHIM_RELAXED;
	struct vg_ledger *ledger = shim_session_ledger();
	uint64_t before;

	if (!ledger)
		return false;
	before = vg_ledger_used_here(ledger);
	shim_settle();
	shim_pools_trim();
	shim_graphs_trim();
	shim_settle();
	return vg_ledger_used_here(ledger) < before;
}

// Synchronisation is when pools shrink.
static inline CUresult settle_after(CUresult result)
{
	if (__builtin_expect(atomic_load_explicit(&shim_dirty, memory_order_relaxed), 0) && shim_counting())
		shim_settle();
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuCtxSynchronize(void)
{
	return settle_after(REAL(cuCtxSynchronize)());
}

SHIM_EXPORT CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext context)
{
	return settle_after(REAL(cuCtxSynchronize_v2)(context));
}

SHIM_EXPORT CUresult CUDAAPI cuStreamSynchronize(CUstream stream)
{
	return settle_after(REAL(cuStreamSynchronize)(stream));
}

SHIM_EXPORT CUresult CUDAAPI cuStreamSynchronize_ptsz(CUstream stream)
{
	return settle_after(REAL(cuStreamSynchronize_ptsz)(stream));
}

SHIM_EXPORT CUresult CUDAAPI cuEventSynchronize(CUevent event)
{
	return settle_after(REAL(cuEventSynchronize)(event));
}
