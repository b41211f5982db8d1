// Tests that a process waits for an event of another process. The other process is forked before this one uses the
// driver, since a forked child cannot use the driver afterwards.
#include "core_test.h"

static void import_and_wait(int from)
{
	struct vg_event_descriptor descriptor;
	struct vg_context *context;
	struct vg_stream *stream;
	struct vg_event *event;
	int done = -1;

	CHECK_INT(read(from, &descriptor, sizeof descriptor), sizeof descriptor);
	context = first_context();
	OK(vg_event_import(context, &descriptor, sizeof descriptor, &event));
	CHECK(vg_event_is_ipc(event) && !vg_event_has_timing(event) && vg_event_is_blocking_sync(event));
	OK(vg_stream_create(context, NULL, &stream));
	OK(vg_stream_wait_event(stream, event));
	OK(vg_stream_sync(stream));
	OK(vg_event_sync(event));
	OK(vg_event_query(event, &done));
	CHECK_INT(done, 1);
	REFUSED(vg_event_record(event, stream), VG_INVALID, "not recorded again");
	vg_context_destroy(context);
	vg_event_destroy(event);
	vg_stream_destroy(stream);
}

TEST(another_process_waits_for_an_event)
{
	struct vg_event_options options = {.size = sizeof options, .ipc = 1, .blocking_sync = 1};
	struct vg_event_descriptor descriptor;
	int ends[2], supported;

	CHECK_INT(pipe(ends), 0);
	pid_t child = fork();
	if (child == 0) {
		close(ends[1]);
		import_and_wait(ends[0]);
		exit(0);
	}
	close(ends[0]);
	struct vg_context *context = first_context();
	struct vg_stream *stream;
	struct vg_event *event;
	OK(vg_device_property(vg_context_device(context), VG_DEVICE_IPC_EVENT_SUPPORTED, &supported));
	CHECK(supported);
	OK(vg_stream_create(context, NULL, &stream));
	OK(vg_stream_record(stream, &options, &event));
	OK(vg_event_export(event, &descriptor));
	CHECK_INT(write(ends[1], &descriptor, sizeof descriptor), sizeof descriptor);
	close(ends[1]);
	CHECK_CHILD(child);
	vg_event_destroy(event);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}

TEST(invalid_descriptors_are_refused)
{
	struct vg_event_descriptor descriptor = {.handle = {1, 2, 3}};
	struct vg_context *context = first_context();
	struct vg_event *event = NULL;

	REFUSED(vg_event_import(context, &descriptor, sizeof descriptor, &event), VG_DRIVER, "cuIpcOpenEventHandle");
	CHECK(!event);
	vg_context_destroy(context);
}
