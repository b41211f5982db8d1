#include "cases.h"

static struct vg_context *context;
static struct vg_stream *stream, *made;
static CUstream handle, made_handle;
static int done;

static void open_family(void)
{
	bench_begin(&context, &stream);
	handle = vg_stream_handle(stream);
}

static void close_family(void)
{
	bench_end(context, stream);
}

SIDES(
	create,
	{
		LIBRARY(vg_stream_create(context, NULL, &made));
		vg_stream_destroy(made);
	},
	{
		RAW(cuStreamCreateWithPriority(&made_handle, CU_STREAM_NON_BLOCKING, 0));
		RAW(cuStreamDestroy(made_handle));
	})
SIDES(query, LIBRARY(vg_stream_query(stream, &done)), RAW(cuStreamQuery(handle)))
SIDES(synchronize, LIBRARY(vg_stream_sync(stream)), RAW(cuStreamSynchronize(handle)))

static const struct bench_case cases[] = {
	{"stream_create_destroy", 0, 20, create_library, create_raw, NULL},
	{"stream_query", 50, 500, query_library, query_raw, NULL},
	{"stream_synchronize", 50, 500, synchronize_library, synchronize_raw, NULL},
};
const struct bench_family bench_stream = {open_family, cases, sizeof cases / sizeof *cases, close_family};
