#include "core_hold.h"

#include <math.h>

#define OPTIONS(...) (&(struct vg_event_options){.size = sizeof(struct vg_event_options), __VA_ARGS__})

static struct vg_stream *new_stream(struct vg_context *context)
{
	struct vg_stream *stream;

	OK(vg_stream_create(context, NULL, &stream));
	return stream;
}

TEST(an_event_completes_with_its_stream)
{
	struct vg_context *context = first_context();
	struct vg_stream *stream = new_stream(context);
	struct vg_event *event;
	int done = -1;

	OK(vg_event_create(context, NULL, &event));
	OK(vg_event_query(event, &done));
	CHECK_INT(done, 1); // never recorded
	OK(vg_event_record(event, stream));
	OK(vg_event_sync(event));
	OK(vg_event_query(event, &done));
	CHECK_INT(done, 1);
	vg_context_destroy(context); // objects can be destroyed in any order
	vg_stream_destroy(stream);
	OK(vg_event_query(event, &done));
	vg_event_destroy(event);
}

TEST(an_event_has_the_options_it_was_created_with)
{
	struct vg_context *context = first_context();
	struct vg_event *plain, *timed;

	OK(vg_event_create(context, NULL, &plain));
	OK(vg_event_create(context, OPTIONS(.timing = 1, .blocking_sync = 1), &timed));
	CHECK(!vg_event_has_timing(plain) && !vg_event_is_blocking_sync(plain) && !vg_event_is_ipc(plain));
	CHECK(vg_event_has_timing(timed) && vg_event_is_blocking_sync(timed) && !vg_event_is_ipc(timed));
	CHECK(vg_event_context(timed) == context && vg_event_device(timed) == vg_context_device(context));
	CHECK(vg_event_handle(timed) && vg_event_handle(timed) != vg_event_handle(plain));
	vg_event_destroy(plain);
	vg_event_destroy(timed);
	vg_context_destroy(context);
}

TEST(elapsed_time)
{
	struct vg_context *context = first_context();
	struct vg_stream *stream = new_stream(context);
	struct vg_event *start, *end;
	float forth = -1, back = -1;

	OK(vg_stream_record(stream, OPTIONS(.timing = 1), &start));
	OK(vg_stream_record(stream, OPTIONS(.timing = 1), &end));
	OK(vg_event_sync(end));
	OK(vg_event_elapsed(start, end, &forth));
	OK(vg_event_elapsed(end, start, &back));
	CHECK(forth >= 0 && forth < 10000 && fabsf(forth + back) < 1e-3f);
	vg_event_destroy(start);
	vg_event_destroy(end);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}

TEST(elapsed_time_errors_name_the_event)
{
	struct vg_context *context = first_context();
	struct vg_stream *stream = new_stream(context);
	struct vg_event *untimed, *unrecorded, *good;
	float time = 42;

	OK(vg_stream_record(stream, NULL, &untimed));
	OK(vg_event_create(context, OPTIONS(.timing = 1), &unrecorded));
	OK(vg_stream_record(stream, OPTIONS(.timing = 1), &good));
	OK(vg_event_sync(good));
	REFUSED(vg_event_elapsed(untimed, good, &time), VG_INVALID, "the start event has no timing");
	REFUSED(vg_event_elapsed(good, untimed, &time), VG_INVALID, "the end event has no timing");
	REFUSED(vg_event_elapsed(unrecorded, good, &time), VG_STATE, "the start event was never recorded");
	REFUSED(vg_event_elapsed(good, unrecorded, &time), VG_STATE, "the end event was never recorded");
	REFUSED(vg_event_elapsed(NULL, good, &time), VG_INVALID, "start is NULL");
	REFUSED(vg_event_elapsed(good, good, NULL), VG_INVALID, "ret_milliseconds is NULL");
	CHECK(time == 42);
	vg_event_destroy(untimed);
	vg_event_destroy(unrecorded);
	vg_event_destroy(good);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}

TEST(a_closed_event_is_refused)
{
	struct vg_context *context = first_context();
	struct vg_stream *stream = new_stream(context);
	struct vg_event_descriptor descriptor;
	struct vg_event *event;
	float time;
	int done;

	OK(vg_stream_record(stream, NULL, &event));
	OK(vg_event_close(event));
	OK(vg_event_close(event));
	CHECK(!vg_event_handle(event));
	REFUSED(vg_event_query(event, &done), VG_CLOSED, "the event has been closed");
	REFUSED(vg_event_sync(event), VG_CLOSED, "closed");
	REFUSED(vg_event_record(event, stream), VG_CLOSED, "closed");
	REFUSED(vg_event_elapsed(event, event, &time), VG_CLOSED, "closed");
	REFUSED(vg_event_export(event, &descriptor), VG_CLOSED, "closed");
	REFUSED(vg_event_close(NULL), VG_INVALID, "event is NULL");
	vg_event_destroy(event);
	vg_event_destroy(NULL);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}

TEST(events_for_other_processes)
{
	struct vg_context *context = first_context();
	struct vg_stream *stream = new_stream(context);
	struct vg_event_descriptor descriptor = {.blocking_sync = 7};
	struct vg_event *event = NULL, *plain;

	REFUSED(vg_event_create(context, OPTIONS(.ipc = 1), &event), VG_INVALID, "must be bound to a stream");
	REFUSED(vg_stream_record(stream, OPTIONS(.ipc = 1, .timing = 1), &event), VG_INVALID, "no timing");
	CHECK(!event);
	OK(vg_stream_record(stream, NULL, &plain));
	REFUSED(vg_event_export(plain, &descriptor), VG_INVALID, "make it with .ipc = 1");
	OK(vg_stream_record(stream, OPTIONS(.ipc = 1, .blocking_sync = 1), &event));
	CHECK(vg_event_is_ipc(event));
	REFUSED(vg_event_record(event, stream), VG_INVALID, "not recorded again");
	OK(vg_event_export(event, &descriptor));
	CHECK_INT(descriptor.blocking_sync, 1);
	REFUSED(vg_event_import(context, &descriptor, 8, &plain), VG_INVALID, "is 8 bytes: expected at least 68");
	REFUSED(vg_event_import(context, NULL, sizeof descriptor, &plain), VG_INVALID, "descriptor is NULL");
	vg_event_destroy(plain);
	vg_event_destroy(event);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}

TEST(options_without_a_size_are_refused)
{
	struct vg_context *context = first_context();
	struct vg_event *event = NULL;

	REFUSED(vg_event_create(context, &(struct vg_event_options){.size = 0}, &event), VG_INVALID, "size is 0");
	CHECK(!event);
	vg_context_destroy(context);
}

TEST(an_event_does_not_complete_before_its_stream)
{
	struct vg_context *context = first_context();
	struct vg_stream *stream = new_stream(context), *later = new_stream(context);
	struct vg_event *start, *end;
	struct hold hold;
	float time = 42;
	int done = -1;

	OK(vg_stream_record(stream, OPTIONS(.timing = 1), &start));
	hold_stream(&hold, stream);
	OK(vg_stream_record(stream, OPTIONS(.timing = 1), &end));
	OK(vg_stream_wait_event(later, end));
	enum vg_status queried = vg_event_query(end, &done);
	enum vg_status elapsed = vg_event_elapsed(start, end, &time);
	char text[256];
	snprintf(text, sizeof text, "%s", vg_last_error()->text);
	enum vg_status backwards = vg_event_elapsed(end, start, &time);
	hold_end(&hold); // releases the stream before a failed check ends the test
	CHECK_INT(queried, VG_OK);
	CHECK_INT(done, 0);
	CHECK_INT(elapsed, VG_NOT_READY);
	CHECK_CONTAINS(text, "the end event has not completed");
	CHECK_INT(backwards, VG_NOT_READY);
	CHECK(time == 42);
	OK(vg_stream_sync(later));
	OK(vg_event_query(end, &done));
	CHECK_INT(done, 1);
	OK(vg_event_elapsed(start, end, &time));
	vg_event_destroy(start);
	vg_event_destroy(end);
	vg_stream_destroy(later);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}

TEST(an_event_can_be_destroyed_before_its_work)
{
	struct vg_context *context = first_context();
	struct vg_stream *stream = new_stream(context), *later = new_stream(context);
	struct vg_event *event;
	struct hold hold;
	int done = -1;

	hold_stream(&hold, stream);
	enum vg_status status = vg_stream_record(stream, NULL, &event);
	if (status == VG_OK)
		status = vg_stream_wait_event(later, event);
	if (status == VG_OK) {
		vg_event_destroy(event);
		status = vg_stream_query(later, &done);
	}
	hold_end(&hold);
	OK(status);
	CHECK_INT(done, 0);
	OK(vg_stream_sync(later));
	vg_stream_destroy(stream);
	vg_stream_destroy(later);
	vg_context_destroy(context);
}
