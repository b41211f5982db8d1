#include "core_hold.h"

#include <pthread.h>

#define GREEN(...) (&(struct vg_context_options){.size = sizeof(struct vg_context_options), __VA_ARGS__})

TEST(set_current_and_restore)
{
	struct vg_context *context = first_context();
	struct CUctx_st *before = (void *)1, *now;
	struct vg_device *device;

	OK(vg_context_current(&now));
	CHECK(!now);
	OK(vg_context_set_current(context, &before));
	CHECK(!before);
	OK(vg_context_current(&now));
	CHECK(now == vg_context_handle(context));
	OK(vg_device_current(&device));
	CHECK(device == vg_context_device(context));
	OK(vg_context_set_current(NULL, &before));
	CHECK(before == vg_context_handle(context));
	OK(vg_context_current(&now));
	CHECK(!now);
	OK(vg_context_restore(before));
	OK(vg_context_current(&now));
	CHECK(now == before);
	OK(vg_context_restore(NULL));
	vg_context_destroy(context);
}

TEST(calls_keep_the_current_context)
{
	struct vg_context *context = first_context(), *green = green_context(8);
	struct CUctx_st *now;
	struct vg_stream *stream;
	struct vg_event *event;

	OK(vg_stream_create(context, NULL, &stream));
	OK(vg_stream_record(stream, NULL, &event));
	OK(vg_stream_sync(stream));
	OK(vg_context_current(&now));
	CHECK(!now);
	OK(vg_context_set_current(green, NULL));
	OK(vg_event_record(event, stream));
	OK(vg_event_sync(event));
	OK(vg_context_current(&now));
	CHECK(now == vg_context_handle(green));
	OK(vg_context_set_current(NULL, NULL));
	vg_event_destroy(event);
	vg_stream_destroy(stream);
	vg_context_destroy(green);
	vg_context_destroy(context);
}

TEST(a_current_context_cannot_be_closed)
{
	struct vg_context *context = green_context(8);

	OK(vg_context_set_current(context, NULL));
	REFUSED(vg_context_close(context), VG_STATE, "while it is current");
	OK(vg_context_set_current(NULL, NULL));
	OK(vg_context_close(context));
	OK(vg_context_close(context));
	CHECK(!vg_context_handle(context));
	vg_context_destroy(context);
	REFUSED(vg_context_close(NULL), VG_INVALID, "context is NULL");
}

TEST(a_destroyed_context_is_not_current)
{
	struct vg_context *context = green_context(8);
	struct CUctx_st *now;

	OK(vg_context_set_current(context, NULL));
	vg_context_destroy(context);
	OK(vg_context_current(&now));
	CHECK(!now);
}

TEST(streams_work_after_their_context_is_closed)
{
	struct vg_context *context = green_context(16);
	struct vg_sm_resource *resource;
	struct vg_stream *stream, *other = NULL;
	struct vg_event *event;

	OK(vg_stream_create(context, NULL, &stream));
	OK(vg_context_close(context));
	REFUSED(vg_stream_create(context, NULL, &other), VG_CLOSED, "the context has been closed");
	REFUSED(vg_context_sm_resource(context, &resource), VG_CLOSED, "closed");
	REFUSED(vg_context_set_current(context, NULL), VG_CLOSED, "closed");
	REFUSED(vg_event_create(context, NULL, &event), VG_CLOSED, "closed");
	OK(vg_stream_sync(stream));
	vg_context_destroy(context);
	OK(vg_stream_sync(stream));
	OK(vg_stream_sm_resource(stream, &resource));
	CHECK_INT(vg_sm_resource_count(resource), 16);
	vg_sm_resource_destroy(resource);
	vg_stream_destroy(stream);
}

TEST(green_contexts)
{
	struct vg_context *primary = first_context(), *green = green_context(16);
	struct vg_sm_resource *resource;
	struct vg_stream *stream, *of_primary;
	struct vg_event *event;
	int done;

	CHECK(vg_context_is_green(green) && !vg_context_is_green(primary));
	CHECK(!vg_context_equal(green, primary) && vg_context_device(green) == vg_context_device(primary));
	OK(vg_context_sm_resource(green, &resource));
	CHECK_INT(vg_sm_resource_count(resource), 16);
	vg_sm_resource_destroy(resource);
	OK(vg_stream_create(green, NULL, &stream));
	OK(vg_stream_create(primary, NULL, &of_primary));
	CHECK(vg_stream_context(stream) == green);
	REFUSED(vg_stream_create(green,
				 &(struct vg_stream_options){.size = sizeof(struct vg_stream_options), .blocking = 1},
				 &stream),
		VG_INVALID, "must be non-blocking");
	REFUSED(vg_stream_default(green, VG_DEFAULT_STREAM_LEGACY, &stream), VG_INVALID,
		"green context's default stream");
	// any stream of the device, green or not, can record this event again
	OK(vg_stream_record(stream, NULL, &event));
	OK(vg_event_record(event, of_primary));
	OK(vg_stream_wait_stream(of_primary, stream));
	OK(vg_context_record(green, event));
	OK(vg_context_wait_event(primary, event));
	OK(vg_context_record(primary, event));
	OK(vg_context_wait_event(green, event));
	OK(vg_event_sync(event));
	OK(vg_event_query(event, &done));
	CHECK_INT(done, 1);
	OK(vg_device_sync(vg_context_device(green)));
	vg_context_destroy(green);
	vg_context_destroy(primary);
	vg_stream_destroy(stream);
	vg_stream_destroy(of_primary);
	vg_event_destroy(event);
}

TEST(a_context_needs_resources)
{
	struct vg_device *device = first_device();
	struct vg_sm_resource *all, *group, *none = NULL;
	struct vg_sm_group of_8 = {.sm_count = 8};
	struct vg_context *context = NULL;
	size_t made;

	REFUSED(vg_context_create(device, NULL, &context), VG_INVALID, "resources must be provided");
	REFUSED(vg_context_create(device, GREEN(.sms = &none), &context), VG_INVALID, "resources must be provided");
	REFUSED(vg_context_create(device, GREEN(.sms = &none, .sm_count = 1), &context), VG_INVALID,
		"SM resource is NULL");
	REFUSED(vg_context_create(NULL, NULL, &context), VG_INVALID, "device is NULL");
	REFUSED(vg_context_create(device, GREEN(.sms = &none, .sm_count = 100000), &context), VG_INVALID, "at most");
	OK(vg_device_sm_resource(device, &all));
	OK(vg_sm_resource_split(all, &of_8, 1,
				&(struct vg_sm_split_options){.size = sizeof(struct vg_sm_split_options), .dry_run = 1},
				&group, &made, NULL));
	REFUSED(vg_context_create(device, GREEN(.sms = &group, .sm_count = 1), &context), VG_INVALID,
		"dry-run SM resource");
	vg_sm_resource_destroy(group);
	CHECK(!context);
	vg_sm_resource_destroy(all);
}

TEST(a_borrowed_context_is_not_destroyed)
{
	struct vg_context *context = first_context(), *green = green_context(8), *borrowed = NULL;
	struct vg_sm_resource *resource;
	struct vg_stream *stream;

	OK(vg_context_borrow(vg_context_handle(context), &borrowed));
	CHECK(vg_context_equal(context, borrowed) && borrowed != context && !vg_context_is_green(borrowed));
	CHECK(vg_context_device(borrowed) == vg_context_device(context));
	OK(vg_context_close(borrowed));
	vg_context_destroy(borrowed);
	OK(vg_stream_create(context, NULL, &stream)); // the context still exists
	vg_stream_destroy(stream);
	OK(vg_context_borrow(vg_context_handle(green), &borrowed));
	CHECK(vg_context_equal(green, borrowed) && vg_context_is_green(borrowed));
	OK(vg_context_sm_resource(borrowed, &resource));
	CHECK_INT(vg_sm_resource_count(resource), 8);
	vg_sm_resource_destroy(resource);
	OK(vg_stream_create(borrowed, NULL, &stream));
	OK(vg_stream_sync(stream));
	vg_stream_destroy(stream);
	vg_context_destroy(borrowed);
	OK(vg_stream_create(green, NULL, &stream));
	vg_stream_destroy(stream);
	vg_context_destroy(green);
	vg_context_destroy(context);
	borrowed = NULL;
	REFUSED(vg_context_borrow(NULL, &borrowed), VG_INVALID, "handle is NULL");
	CHECK(!borrowed && !vg_context_equal(NULL, context));
}

TEST(an_event_of_a_context_covers_all_its_streams)
{
	struct vg_context *context = first_context(), *green = green_context(8);
	struct vg_stream *first, *second, *primary;
	struct vg_event *event;
	struct hold hold;
	int done = -1, waited = -1;

	OK(vg_stream_create(green, NULL, &first));
	OK(vg_stream_create(green, NULL, &second));
	OK(vg_stream_create(context, NULL, &primary));
	OK(vg_event_create(context, NULL, &event));
	hold_stream(&hold, second);
	enum vg_status status = vg_context_record(green, event);
	if (status == VG_OK)
		status = vg_event_query(event, &done);
	if (status == VG_OK)
		status = vg_stream_wait_event(primary, event);
	if (status == VG_OK)
		status = vg_stream_query(primary, &waited);
	hold_end(&hold);
	OK(status);
	CHECK_INT(done, 0);
	CHECK_INT(waited, 0);
	OK(vg_event_sync(event));
	OK(vg_stream_sync(primary));
	vg_event_destroy(event);
	vg_stream_destroy(primary);
	vg_stream_destroy(second);
	vg_stream_destroy(first);
	vg_context_destroy(green);
	vg_context_destroy(context);
}

TEST(null_arguments_are_named)
{
	struct vg_context *context = first_context();
	struct vg_workqueue_resource *queues = NULL;
	struct vg_sm_resource *resource = NULL;
	struct vg_stream *stream = NULL;
	struct vg_event *event = NULL;

	REFUSED(vg_context_primary(vg_context_device(context), NULL), VG_INVALID, "ret_context is NULL");
	REFUSED(vg_context_create(vg_context_device(context), NULL, NULL), VG_INVALID, "ret_context is NULL");
	REFUSED(vg_context_borrow(vg_context_handle(context), NULL), VG_INVALID, "ret_context is NULL");
	REFUSED(vg_context_current(NULL), VG_INVALID, "ret_handle is NULL");
	REFUSED(vg_context_record(NULL, NULL), VG_INVALID, "context is NULL");
	REFUSED(vg_context_record(context, NULL), VG_INVALID, "event is NULL");
	REFUSED(vg_context_wait_event(NULL, NULL), VG_INVALID, "context is NULL");
	REFUSED(vg_context_wait_event(context, NULL), VG_INVALID, "event is NULL");
	REFUSED(vg_context_sm_resource(NULL, &resource), VG_INVALID, "context is NULL");
	REFUSED(vg_context_sm_resource(context, NULL), VG_INVALID, "ret_resource is NULL");
	REFUSED(vg_device_sm_resource(NULL, &resource), VG_INVALID, "device is NULL");
	REFUSED(vg_device_sm_resource(vg_context_device(context), NULL), VG_INVALID, "ret_resource is NULL");
	REFUSED(vg_stream_sm_resource(NULL, &resource), VG_INVALID, "stream is NULL");
	REFUSED(vg_device_workqueue_resource(NULL, &queues), VG_INVALID, "device is NULL");
	REFUSED(vg_context_workqueue_resource(NULL, &queues), VG_INVALID, "context is NULL");
	REFUSED(vg_stream_workqueue_resource(NULL, &queues), VG_INVALID, "stream is NULL");
	REFUSED(vg_workqueue_resource_configure(NULL, NULL), VG_INVALID, "resource is NULL");
	REFUSED(vg_stream_create(context, NULL, NULL), VG_INVALID, "ret_stream is NULL");
	REFUSED(vg_stream_default(NULL, VG_DEFAULT_STREAM_LEGACY, &stream), VG_INVALID, "context is NULL");
	REFUSED(vg_stream_borrow(NULL, NULL, NULL, NULL), VG_INVALID, "ret_stream is NULL");
	REFUSED(vg_event_create(NULL, NULL, &event), VG_INVALID, "context is NULL");
	REFUSED(vg_event_create(context, NULL, NULL), VG_INVALID, "ret_event is NULL");
	REFUSED(vg_stream_record(NULL, NULL, &event), VG_INVALID, "stream is NULL");
	REFUSED(vg_event_record(NULL, NULL), VG_INVALID, "event is NULL");
	REFUSED(vg_event_export(NULL, NULL), VG_INVALID, "event is NULL");
	REFUSED(vg_event_import(NULL, NULL, 0, &event), VG_INVALID, "context is NULL");
	CHECK(!vg_context_handle(NULL) && !vg_context_device(NULL) && !vg_context_is_green(NULL));
	CHECK(!vg_stream_handle(NULL) && !vg_stream_context(NULL) && !vg_stream_device(NULL));
	CHECK(!vg_stream_is_blocking(NULL) && !vg_stream_priority(NULL));
	CHECK(!vg_event_handle(NULL) && !vg_event_context(NULL) && !vg_event_device(NULL) && !vg_event_is_ipc(NULL));
	CHECK(!vg_sm_resource_handle(NULL) && !vg_sm_resource_device(NULL) && !vg_sm_resource_is_dry_run(NULL));
	CHECK(!vg_sm_resource_flags(NULL) && !vg_sm_resource_min_partition_size(NULL));
	CHECK(!vg_workqueue_resource_handle(NULL) && !vg_workqueue_resource_device(NULL));
	CHECK(!vg_workqueue_resource_concurrency_limit(NULL) && !vg_workqueue_resource_scope(NULL));
	vg_sm_resource_destroy(NULL);
	vg_workqueue_resource_destroy(NULL);
	vg_context_destroy(NULL);
	CHECK(!queues && !resource && !stream && !event);
	vg_context_destroy(context);
}

// Creates and releases primary contexts. Several threads do this at the same time, and each must get a valid context.
static void *create_and_release(void *status_)
{
	enum vg_status *status = status_;
	struct vg_context *context;
	struct vg_stream *stream;
	struct vg_device *device;

	*status = vg_device_get(0, &device);
	int rounds = getenv("VIRGATE_SIM") ? 2000 : 10; // creating a context takes half a second on hardware
	for (int i = 0; i < rounds && *status == VG_OK; i++) {
		*status = vg_context_primary(device, &context);
		if (*status)
			break;
		*status = vg_stream_create(context, NULL, &stream);
		vg_context_destroy(context);
		if (*status)
			break;
		*status = vg_stream_sync(stream);
		vg_stream_destroy(stream);
	}
	return NULL;
}

TEST(threads_create_and_release_the_primary_context)
{
	enum { THREADS = 2 };
	enum vg_status statuses[THREADS];
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, create_and_release, &statuses[i]), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_INT(pthread_join(threads[i], NULL), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_INT(statuses[i], VG_OK);
}
