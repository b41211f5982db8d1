// Measures the work of a stream by two events. A second stream starts when the first one has finished.
#include "check.h"

int main(void)
{
	struct vg_event_options timed = {.size = sizeof timed, .timing = 1};
	struct vg_stream_options urgent = {.size = sizeof urgent, .priority = -1};
	struct vg_stream *first, *second;
	struct vg_event *start, *end;
	struct vg_context *context;
	struct vg_device *device;
	float milliseconds;
	int done;

	check(vg_device_get(0, &device));
	check(vg_context_primary(device, &context));
	check(vg_stream_create(context, NULL, &first));
	check(vg_stream_create(context, &urgent, &second));

	check(vg_stream_record(first, &timed, &start));
	// … work on `first` …
	check(vg_stream_record(first, &timed, &end));
	check(vg_stream_wait_event(second, end));
	// … work on `second`, after that …
	check(vg_stream_sync(second));

	check(vg_event_query(end, &done));
	check(vg_event_elapsed(start, end, &milliseconds));
	printf("between the events: %.3f ms; the later one is %s\n", milliseconds, done ? "done" : "not done");

	vg_event_destroy(start);
	vg_event_destroy(end);
	vg_stream_destroy(first);
	vg_stream_destroy(second);
	vg_context_destroy(context);
	printf("timing: two streams in order\n");
	return done ? 0 : 1;
}
