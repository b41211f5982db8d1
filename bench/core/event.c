#include "cases.h"

static struct vg_context *context;
static struct vg_stream *stream;
static struct vg_event *event, *made;
static CUcontext context_handle;
static CUstream stream_handle;
static CUevent event_handle, made_handle;
static int done;

static void open_family(void)
{
	bench_begin(&context, &stream);
	LIBRARY(vg_stream_record(stream, NULL, &event));
	LIBRARY(vg_event_sync(event));
	context_handle = vg_context_handle(context);
	stream_handle = vg_stream_handle(stream);
	event_handle = vg_event_handle(event);
}

static void close_family(void)
{
	vg_event_destroy(event);
	bench_end(context, stream);
}

static void finish_turn(void)
{
	RAW(cuStreamSynchronize(stream_handle));
}

SIDES(
	create,
	{
		LIBRARY(vg_event_create(context, NULL, &made));
		vg_event_destroy(made);
	},
	{
		RAW(cuEventCreate(&made_handle, CU_EVENT_DISABLE_TIMING));
		RAW(cuEventDestroy(made_handle));
	})
SIDES(record, LIBRARY(vg_event_record(event, stream)), RAW(cuEventRecord(event_handle, stream_handle)))
SIDES(query, LIBRARY(vg_event_query(event, &done)), RAW(cuEventQuery(event_handle)))
SIDES(synchronize, LIBRARY(vg_event_sync(event)), RAW(cuEventSynchronize(event_handle)))

// The thread has no current context, as in a program that uses only the library. The library enters the event's
// context.
static void elsewhere_library(unsigned calls)
{
	LIBRARY(vg_context_restore(NULL));
	record_library(calls);
	LIBRARY(vg_context_set_current(context, NULL));
}

static void elsewhere_raw(unsigned calls)
{
	RAW(cuCtxSetCurrent(NULL));
	while (calls--) {
		RAW(cuCtxPushCurrent(context_handle));
		RAW(cuEventRecord(event_handle, stream_handle));
		RAW(cuCtxPopCurrent(&context_handle));
	}
	RAW(cuCtxSetCurrent(context_handle));
}

static const struct bench_case cases[] = {
	{"event_create_destroy", 0, 200, create_library, create_raw, NULL},
	{"event_record", 50, 200, record_library, record_raw, finish_turn},
	{"event_record, context not current", 50, 200, elsewhere_library, elsewhere_raw, finish_turn},
	{"event_query", 50, 500, query_library, query_raw, NULL},
	{"event_synchronize", 50, 500, synchronize_library, synchronize_raw, NULL},
};
const struct bench_family bench_event = {open_family, cases, sizeof cases / sizeof *cases, close_family};
