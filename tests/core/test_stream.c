#include "core_hold.h"

TEST(stream_keeps_its_context)
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

	REFUSED(vg_stream_create(context,
				 &(struct vg_stream_options){.size = sizeof(struct vg_stream_options), .priority = 7},
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

#define OPTIONS(...) (&(struct vg_stream_options){.size = sizeof(struct vg_stream_options), __VA_ARGS__})

TEST(a_stream_has_the_options_it_was_created_with)
{
	struct vg_context *context = first_context();
	struct vg_stream *plain, *blocking;
	int done = -1;

	OK(vg_stream_create(context, NULL, &plain));
	OK(vg_stream_create(context, OPTIONS(.blocking = 1, .priority = -1), &blocking));
	CHECK(!vg_stream_is_blocking(plain) && vg_stream_is_blocking(blocking));
	CHECK_INT(vg_stream_priority(plain), 0);
	CHECK_INT(vg_stream_priority(blocking), -1);
	CHECK(vg_stream_context(plain) == context && vg_stream_device(plain) == vg_context_device(context));
	OK(vg_stream_query(plain, &done));
	CHECK_INT(done, 1);
	REFUSED(vg_stream_query(plain, NULL), VG_INVALID, "ret_done is NULL");
	OK(vg_stream_close(plain));
	OK(vg_stream_close(plain));
	REFUSED(vg_stream_query(plain, &done), VG_CLOSED, "the stream has been closed");
	REFUSED(vg_stream_wait_stream(blocking, plain), VG_CLOSED, "closed");
	REFUSED(vg_stream_wait_stream(plain, blocking), VG_CLOSED, "closed");
	REFUSED(vg_stream_close(NULL), VG_INVALID, "stream is NULL");
	CHECK(!vg_stream_handle(plain));
	vg_stream_destroy(plain);
	vg_stream_destroy(blocking);
	vg_context_destroy(context);
}

TEST(streams_wait_for_events_and_for_each_other)
{
	struct vg_context *context = first_context();
	struct vg_stream *one, *two;
	struct vg_event *event;

	OK(vg_stream_create(context, NULL, &one));
	OK(vg_stream_create(context, NULL, &two));
	OK(vg_stream_record(one, NULL, &event));
	OK(vg_stream_wait_event(two, event));
	OK(vg_stream_wait_stream(two, one));
	OK(vg_stream_wait_stream(one, one));
	vg_event_destroy(event); // streams that already wait for the event still do so
	OK(vg_stream_sync(two));
	REFUSED(vg_stream_wait_event(two, NULL), VG_INVALID, "event is NULL");
	REFUSED(vg_stream_wait_stream(two, NULL), VG_INVALID, "other is NULL");
	vg_stream_destroy(one);
	vg_stream_destroy(two);
	vg_context_destroy(context);
}

TEST(default_streams_are_not_destroyed)
{
	struct vg_context *context = first_context();
	struct vg_stream *legacy, *per_thread, *chosen, *again = NULL;

	unsetenv("VIRGATE_PER_THREAD_DEFAULT_STREAM");
	OK(vg_stream_default(context, VG_DEFAULT_STREAM_LEGACY, &legacy));
	OK(vg_stream_default(context, VG_DEFAULT_STREAM_PER_THREAD, &per_thread));
	OK(vg_stream_default(context, VG_DEFAULT_STREAM_CHOSEN, &chosen));
	CHECK(vg_stream_handle(legacy) != vg_stream_handle(per_thread));
	CHECK(vg_stream_handle(chosen) == vg_stream_handle(legacy));
	CHECK(vg_stream_is_blocking(legacy));
	vg_stream_destroy(chosen);
	setenv("VIRGATE_PER_THREAD_DEFAULT_STREAM", "1", 1);
	OK(vg_stream_default(context, VG_DEFAULT_STREAM_CHOSEN, &chosen));
	CHECK(vg_stream_handle(chosen) == vg_stream_handle(per_thread));
	unsetenv("VIRGATE_PER_THREAD_DEFAULT_STREAM");
	OK(vg_stream_wait_stream(legacy, per_thread));
	OK(vg_stream_sync(legacy));
	OK(vg_stream_close(legacy));
	// closing a default stream has not destroyed anything
	OK(vg_stream_default(context, VG_DEFAULT_STREAM_LEGACY, &again));
	OK(vg_stream_sync(again));
	REFUSED(vg_stream_default(context, (enum vg_default_stream)7, &again), VG_INVALID, "default stream 7");
	vg_stream_destroy(legacy);
	vg_stream_destroy(again);
	vg_stream_destroy(per_thread);
	vg_stream_destroy(chosen);
	vg_context_destroy(context);
}

static void count_release(void *count)
{
	++*(int *)count;
}

TEST(a_borrowed_stream_has_its_context_and_is_not_destroyed)
{
	struct vg_context *context = first_context();
	struct vg_stream *stream, *borrowed, *other = NULL;
	int released = 0;

	OK(vg_stream_create(context, OPTIONS(.blocking = 1, .priority = -2), &stream));
	OK(vg_stream_borrow(vg_stream_handle(stream), &released, count_release, &borrowed));
	CHECK(vg_stream_handle(borrowed) == vg_stream_handle(stream));
	CHECK(vg_context_equal(vg_stream_context(borrowed), context));
	CHECK(vg_stream_is_blocking(borrowed));
	CHECK_INT(vg_stream_priority(borrowed), -2);
	OK(vg_stream_sync(borrowed));
	OK(vg_stream_close(borrowed));
	CHECK_INT(released, 0);
	vg_stream_destroy(borrowed);
	CHECK_INT(released, 1);
	OK(vg_stream_sync(stream));
	OK(vg_stream_borrow(vg_stream_handle(stream), NULL, NULL, &borrowed));
	vg_stream_destroy(borrowed);
	REFUSED(vg_stream_borrow(NULL, &released, count_release, &other), VG_INVALID, "is a default stream");
	REFUSED(vg_stream_borrow((struct CUstream_st *)2, &released, count_release, &other), VG_INVALID,
		"vg_stream_default()");
	CHECK_INT(released, 1);
	CHECK(!other);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}

TEST(a_borrowed_stream_of_a_green_context_is_green)
{
	struct vg_context *context = first_context(), *green = green_context(8);
	struct vg_sm_resource *seen;
	struct vg_stream *stream, *borrowed;

	OK(vg_stream_create(green, NULL, &stream));
	OK(vg_stream_borrow(vg_stream_handle(stream), NULL, NULL, &borrowed));
	CHECK(vg_context_equal(vg_stream_context(borrowed), green) && vg_context_is_green(vg_stream_context(borrowed)));
	OK(vg_stream_sm_resource(borrowed, &seen));
	CHECK_INT(vg_sm_resource_count(seen), 8);
	vg_sm_resource_destroy(seen);
	vg_stream_destroy(borrowed);
	vg_stream_destroy(stream);
	vg_context_destroy(green);
	vg_context_destroy(context);
}

TEST(a_stream_waits_for_another_one_and_the_device_for_both)
{
	struct vg_context *context = first_context();
	struct vg_stream *one, *two;
	struct hold hold;
	int first = -1, second = -1;

	OK(vg_stream_create(context, NULL, &one));
	OK(vg_stream_create(context, NULL, &two));
	hold_stream(&hold, one);
	enum vg_status status = vg_stream_wait_stream(two, one);
	if (status == VG_OK)
		status = vg_stream_query(one, &first);
	if (status == VG_OK)
		status = vg_stream_query(two, &second);
	hold_end(&hold);
	OK(status);
	CHECK_INT(first, 0);
	CHECK_INT(second, 0);
	OK(vg_device_sync(vg_context_device(context)));
	OK(vg_stream_query(one, &first));
	OK(vg_stream_query(two, &second));
	CHECK_INT(first, 1);
	CHECK_INT(second, 1);
	vg_stream_destroy(one);
	vg_stream_destroy(two);
	vg_context_destroy(context);
}
