// Creates streams, finds default streams, and waits for streams.
#include <stdlib.h>
#include <time.h>

#include "entry.h"
#include "process.h"
#include "stream.h"

static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER;
// List of freed structs, which are reused only for streams. So a stale handle never points to other data. The magic
// number of a freed struct is 0, so its handle is recognised as invalid.
static struct sim_stream *free_list;
static atomic_ullong stream_ids = 1;

static struct sim_stream *get_free_stream(void)
{
	pthread_condattr_t attributes;

	pthread_mutex_lock(&free_lock);
	struct sim_stream *stream = free_list;
	if (stream)
		free_list = stream->next;
	pthread_mutex_unlock(&free_lock);
	if (!stream) {
		stream = calloc(1, sizeof *stream);
		if (!stream)
			abort();
		pthread_condattr_init(&attributes);
		pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
		pthread_cond_init(&stream->wake, &attributes);
		pthread_cond_init(&stream->room, &attributes);
		pthread_condattr_destroy(&attributes);
	}
	return stream;
}

struct sim_stream *sim_stream_new(struct sim_context *context, unsigned flags, int priority)
{
	struct sim_stream *stream = get_free_stream();

	atomic_store(&stream->references, 1);
	stream->context = context;
	stream->flags = flags;
	stream->priority = priority < -5 ? -5 : priority > 0 ? 0 : priority;
	stream->id = atomic_fetch_add(&stream_ids, 1);
	stream->legacy = stream->per_thread = stream->closing = false;
	stream->green = NULL;
	stream->head = stream->tail = stream->running = stream->last = NULL;
	stream->worker = stream->sleeping = stream->has_channel = false;
	stream->pieces = 0;
	stream->ended_ns = 0;
	atomic_store(&stream->pending, 0);
	atomic_store(&stream->capture, NULL);
	memset(stream->attributes, 0, sizeof stream->attributes);
	stream->attributes[CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY].syncPolicy = CU_SYNC_POLICY_AUTO;
	stream->attributes[CU_STREAM_ATTRIBUTE_PRIORITY].priority = stream->priority;
	pthread_mutex_lock(&context->lock);
	stream->next = context->streams;
	context->streams = stream;
	pthread_mutex_unlock(&context->lock);
	atomic_store(&stream->magic, SIM_STREAM_MAGIC);
	return stream;
}

void sim_stream_ref(struct sim_stream *stream)
{
	atomic_fetch_add(&stream->references, 1);
}

void sim_stream_unref(struct sim_stream *stream)
{
	if (atomic_fetch_sub(&stream->references, 1) != 1)
		return;
	pthread_mutex_lock(&free_lock);
	stream->next = free_list;
	free_list = stream;
	pthread_mutex_unlock(&free_lock);
}

void sim_stream_retire(struct sim_stream *stream)
{
	struct sim_stream **at = &stream->context->streams;

	if (!stream->closing || stream->head || stream->running)
		return;
	while (*at && *at != stream)
		at = &(*at)->next;
	if (*at) {
		*at = stream->next;
		sim_stream_unref(stream); // the handle's
	}
}

void sim_stream_close(struct sim_stream *stream)
{
	struct sim_context *context = stream->context;
	uint32_t magic = SIM_STREAM_MAGIC;

	if (!atomic_compare_exchange_strong(&stream->magic, &magic, 0))
		return; // already closed
	pthread_mutex_lock(&context->lock);
	// Keep a stream with work in the list, because calls on the default stream must still wait for it.
	stream->closing = true;
	pthread_cond_signal(&stream->wake);
	sim_stream_retire(stream);
	pthread_mutex_unlock(&context->lock);
}

// ---- per-thread default streams ----------------------------------------------------------

struct find_thread_stream {
	struct sim_stream *stream;
	struct sim_context *context;
	struct find_thread_stream *next;
};

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;

static void close_thread_streams(void *list)
{
	struct find_thread_stream *one = list;

	while (one) {
		struct find_thread_stream *next = one->next;
		if (!(atomic_load(&sim_gate) & SIM_GATE_UNINITIALIZED))
			sim_stream_close(one->stream);
		sim_stream_unref(one->stream);
		free(one);
		one = next;
	}
}

static void create_thread_key(void)
{
	pthread_key_create(&thread_key, close_thread_streams);
}

static struct sim_stream *find_thread_stream(struct sim_context *context)
{
	struct find_thread_stream *one;

	pthread_once(&thread_once, create_thread_key);
	for (one = pthread_getspecific(thread_key); one; one = one->next)
		if (one->context == context)
			return one->stream;
	one = calloc(1, sizeof *one);
	if (!one)
		abort();
	one->context = context;
	one->stream = sim_stream_new(context, 0, 0);
	one->stream->per_thread = true;
	sim_context_order_stream(one->stream);
	sim_stream_ref(one->stream); // the context closes the stream when it ends
	one->next = pthread_getspecific(thread_key);
	pthread_setspecific(thread_key, one);
	return one->stream;
}

CUresult sim_stream_get_any(CUstream handle, struct sim_stream **ret_stream)
{
	struct sim_context *context;
	struct sim_stream *stream = (struct sim_stream *)handle;

	if ((uintptr_t)handle <= (uintptr_t)CU_STREAM_PER_THREAD) {
		SIM_TRY(sim_context_current_any(&context));
		*ret_stream = handle == CU_STREAM_PER_THREAD ? find_thread_stream(context) : context->legacy;
		return CUDA_SUCCESS;
	}
	if ((uintptr_t)handle < 4096 || (uintptr_t)handle % sizeof(void *) ||
	    atomic_load(&stream->magic) != SIM_STREAM_MAGIC)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret_stream = stream;
	return CUDA_SUCCESS;
}

CUresult sim_stream_get(CUstream handle, struct sim_stream **ret_stream)
{
	struct sim_stream *stream;

	SIM_TRY(sim_stream_get_any(handle, &stream));
	CUresult error = sim_failure();
	if (error == CUDA_SUCCESS)
		*ret_stream = stream;
	return error;
}
