#include "shim/stream_refund.h"

#include <pthread.h>
#include <stdlib.h>

#include "shim/charge.h"
#include "shim/reclaim.h"

struct pending {
	CUevent event;
	uint64_t bytes;
	enum vg_ledger_kind kind;
	unsigned int device;
	struct pending *next;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pending *pending;

static bool mark_stream(CUevent *ret_event, bool is_per_thread, CUstream stream)
{
	SHIM_RELAXED;
	CUresult result = REAL(cuEventCreate)(ret_event, CU_EVENT_DISABLE_TIMING);

	if (result != CUDA_SUCCESS)
		return false;
	result = is_per_thread ? REAL(cuEventRecord_ptsz)(*ret_event, stream) : REAL(cuEventRecord)(*ret_event, stream);
	if (result != CUDA_SUCCESS)
		REAL(cuEventDestroy_v2)(*ret_event);
	return result == CUDA_SUCCESS;
}

void shim_stream_refund(const struct shim_record *record, bool is_per_thread, CUstream stream)
{
	struct pending *one = record->bytes ? malloc(sizeof *one) : NULL;

	if (!one || !mark_stream(&one->event, is_per_thread, stream)) {
		free(one);
		shim_refund_record(record);
		return;
	}
	one->bytes = record->bytes;
	one->kind = record->kind;
	one->device = record->device - 1u;
	pthread_mutex_lock(&lock);
	one->next = pending;
	pending = one;
	pthread_mutex_unlock(&lock);
	shim_needs_reconcile = true;
}

void shim_stream_refunds_reconcile(void)
{
	pthread_mutex_lock(&lock);
	for (struct pending **link = &pending; *link;) {
		struct pending *one = *link;
		if (REAL(cuEventQuery)(one->event) == CUDA_ERROR_NOT_READY) {
			link = &one->next;
			shim_needs_reconcile = true;
			continue;
		}
		REAL(cuEventDestroy_v2)(one->event);
		SHIM_ON_DEVICE(one->device);
		shim_refund(one->kind, one->bytes);
		*link = one->next;
		free(one);
	}
	pthread_mutex_unlock(&lock);
}
