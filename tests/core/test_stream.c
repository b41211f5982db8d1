#include "core_test.h"

TEST(stream_outlives_its_context_object)
{
	struct vg_context *context = first_context();
	struct vg_stream *stream;

	OK(vg_stream_create(context, NULL, &stream));
	vg_context_destroy(context);
	OK(vg_stream_sync(stream));
	CHECK(vg_stream_handle(stream) != NULL);
	vg_stream_destroy(stream);
}

TEST(stream_priority_outside_the_range_is_refused_with_the_range)
{
	struct vg_context *context = first_context();
	struct vg_stream *stream = NULL;

	REFUSED(vg_stream_create(context, &(struct vg_stream_options){.size = sizeof(struct vg_stream_options), .priority = 7},
				 &stream),
		VG_INVALID, "stream priority 7");
	CHECK(stream == NULL);
	vg_context_destroy(context);
}

TEST(null_arguments_are_refused)
{
	struct vg_context *context;
	struct vg_stream *stream;

	REFUSED(vg_context_primary(NULL, &context), VG_INVALID, "device is NULL");
	REFUSED(vg_stream_create(NULL, NULL, &stream), VG_INVALID, "context is NULL");
	REFUSED(vg_stream_sync(NULL), VG_INVALID, "stream is NULL");
	vg_stream_destroy(NULL);
	vg_context_destroy(NULL);
}
