// Checks that functions which programs call frequently allocate nothing.
#include "core_heap.h"

TEST(allocations_of_the_library_are_counted)
{
	struct vg_context *context;
	struct vg_event *event;

	if (HEAP_IS_TAKEN)
		SKIP("the sanitizer has taken malloc's place");
	context = first_context();
	heap_open();
	OK(vg_event_create(context, NULL, &event));
	CHECK_INT(heap_calls, 1);
	CHECK_INT(heap_live, 1);
	vg_event_destroy(event);
	CHECK_INT(heap_live, 0);
	vg_context_destroy(context);
}

TEST(frequent_calls_allocate_nothing)
{
	struct vg_context *context = first_context();
	struct vg_event_options timing = {.size = sizeof timing, .timing = 1};
	struct vg_stream *stream, *other;
	struct vg_event *event, *later;
	struct CUctx_st *current;
	int done, warp;
	float time;

	OK(vg_stream_create(context, NULL, &stream));
	OK(vg_stream_create(context, NULL, &other));
	OK(vg_stream_record(stream, &timing, &event));
	OK(vg_stream_record(stream, &timing, &later));
	heap_open();
	for (int round = 0; round < 2; round++) { // first with another context current, then with the stream's own
		HEAP_FREE(vg_event_record(event, stream));
		HEAP_FREE(vg_event_record(later, stream));
		HEAP_FREE(vg_event_query(event, &done));
		HEAP_FREE(vg_event_sync(later));
		HEAP_FREE(vg_event_elapsed(event, later, &time));
		HEAP_FREE(vg_stream_wait_event(other, event));
		HEAP_FREE(vg_stream_wait_stream(other, stream));
		HEAP_FREE(vg_stream_query(stream, &done));
		HEAP_FREE(vg_stream_sync(stream));
		HEAP_FREE(vg_context_current(&current));
		HEAP_FREE(vg_device_property(vg_context_device(context), VG_DEVICE_WARP_SIZE, &warp));
		HEAP_FREE(vg_device_property(vg_context_device(context), VG_DEVICE_COMPUTE_MODE, &warp));
		HEAP_FREE(vg_context_set_current(context, &current));
	}
	OK(vg_context_restore(NULL));
	vg_event_destroy(event);
	vg_event_destroy(later);
	vg_stream_destroy(stream);
	vg_stream_destroy(other);
	vg_context_destroy(context);
}
