// Checks that contexts, streams and events that are created and destroyed many times, in any order and by several
// threads, do not leak.
#include "core_heap.h"

#include <pthread.h>

static struct vg_context *context;

TEST(events)
{
	struct vg_event_options ipc = {.size = sizeof ipc, .ipc = 1};
	struct vg_event *event;
	struct vg_stream *stream;

	heap_open();
	context = first_context();
	OK(vg_stream_create(context, NULL, &stream));
	HEAP_STEADY(OK(vg_event_create(context, NULL, &event)); vg_event_destroy(event););
	HEAP_STEADY(OK(vg_stream_record(stream, &ipc, &event)); vg_event_destroy(event););
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}

TEST(streams)
{
	struct vg_stream *stream, *borrowed;

	heap_open();
	context = first_context();
	HEAP_STEADY(OK(vg_stream_create(context, NULL, &stream));
		    OK(vg_stream_borrow(vg_stream_handle(stream), NULL, NULL, &borrowed)); vg_stream_destroy(borrowed);
		    vg_stream_destroy(stream););
	HEAP_STEADY(OK(vg_stream_default(context, VG_DEFAULT_STREAM_LEGACY, &stream)); vg_stream_destroy(stream););
	vg_context_destroy(context);
}

TEST(contexts)
{
	struct vg_context *again, *green;

	heap_open();
	context = first_context();
	HEAP_STEADY(OK(vg_context_primary(vg_context_device(context), &again)); vg_context_destroy(again););
	// The driver (580.159) keeps 4 MiB of each green context until the device's primary context is destroyed. So
	// each round destroys the primary context. On a GPU that takes too long for a thousand rounds.
	vg_context_destroy(context);
	if (getenv("VIRGATE_SIM"))
		HEAP_STEADY(green = green_context(8); vg_context_destroy(green););
}

enum { THREADS = 4 };

// Each thread has its own streams and events; all use the same contexts.
static void *use_contexts(void *green)
{
	for (int i = 0; i < 200; i++) {
		struct vg_context *of = i & 1 ? green : context;
		struct vg_stream *stream;
		struct vg_event *event;
		int done, warp;

		if (vg_stream_create(of, NULL, &stream) || vg_stream_record(stream, NULL, &event) ||
		    vg_event_record(event, stream) || vg_event_sync(event) || vg_event_query(event, &done) || !done ||
		    vg_device_property(vg_context_device(of), (enum vg_device_property)(1 + i % 140), &warp) >
			    VG_INVALID)
			return (void *)vg_last_error()->text;
		if (i % 3)
			vg_stream_destroy(stream);
		vg_event_destroy(event);
		if (i % 3 == 0)
			vg_stream_destroy(stream);
	}
	return NULL;
}

TEST(threads_use_one_context)
{
	pthread_t threads[THREADS];
	struct vg_context *green;
	void *problem;

	context = first_context();
	green = green_context(8);
	for (int i = 0; i < THREADS; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, use_contexts, green), 0);
	for (int i = 0; i < THREADS; i++) {
		CHECK_INT(pthread_join(threads[i], &problem), 0);
		if (problem)
			FAIL("%s", (char *)problem);
	}
	vg_context_destroy(context);
	vg_context_destroy(green);
}

static void *destroy(void *event)
{
	vg_event_destroy(event);
	return NULL;
}

TEST(threads_destroy_dependent_objects)
{
	for (int round = 0; round < 100; round++) {
		pthread_t thread;
		struct vg_stream *stream;
		struct vg_event *event;

		context = first_context();
		OK(vg_stream_create(context, NULL, &stream));
		OK(vg_stream_record(stream, NULL, &event));
		CHECK_INT(pthread_create(&thread, NULL, destroy, event), 0);
		vg_context_destroy(context);
		vg_stream_destroy(stream);
		CHECK_INT(pthread_join(thread, NULL), 0);
	}
}
