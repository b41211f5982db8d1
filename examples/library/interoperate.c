// Interoperates with another library that uses the thread's current context: makes ours current for it, restores the
// old one, and uses the library's stream without owning it.
#include "check.h"

// The stream of a stand-in for the other library. The stand-in uses the current context, and returns this stream.
static struct vg_stream *its_stream;

static struct CUstream_st *other_library_begin(struct vg_context *context)
{
	check(vg_stream_create(context, NULL, &its_stream));
	return vg_stream_handle(its_stream);
}

static void other_library_end(void *nothing)
{
	(void)nothing;
	vg_stream_destroy(its_stream);
	printf("the other library got its stream back\n");
}

int main(void)
{
	struct vg_context *context, *seen;
	struct CUctx_st *before, *current;
	struct vg_device *device;
	struct vg_stream *stream;
	struct vg_event *event;

	check(vg_device_get(0, &device));
	check(vg_context_primary(device, &context));
	check(vg_context_set_current(context, &before));
	struct CUstream_st *handle = other_library_begin(context);
	check(vg_context_restore(before));
	check(vg_context_current(&current));

	check(vg_stream_borrow(handle, NULL, other_library_end, &stream));
	seen = vg_stream_context(stream);
	printf("its stream is of %s context\n", vg_context_equal(seen, context) ? "our" : "another");
	check(vg_stream_record(stream, NULL, &event)); // the event can be recorded without a current context
	check(vg_event_sync(event));
	vg_event_destroy(event);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
	if (current != before)
		return 1;
	printf("interoperate: the thread's context is what it was\n");
	return 0;
}
