// Tests events: recording, querying, elapsed time and its errors; events of streams, contexts and green contexts.
#include "conformance.h"

#include <stdatomic.h>

CONFORM(flags_and_handles)
{
	CUevent event;

	need_context();
	WORKS(cuEventCreate(&event, CU_EVENT_BLOCKING_SYNC));
	WORKS(cuEventDestroy(event));
	GIVES(cuEventCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuEventCreate(&event, 0x100), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE); // timing is enabled
	WORKS(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	WORKS(cuEventDestroy(event));
	GIVES(cuEventDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
	GIVES(cuEventRecord(NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
	GIVES(cuEventQuery(NULL), CUDA_ERROR_INVALID_HANDLE);
	GIVES(cuEventSynchronize(NULL), CUDA_ERROR_INVALID_HANDLE);
}

CONFORM(never_recorded)
{
	CUevent event, other;
	float elapsed = -1;

	need_context();
	NEED(cuEventCreate(&event, 0));
	NEED(cuEventCreate(&other, 0));
	WORKS(cuEventQuery(event));
	WORKS(cuEventSynchronize(event));
	GIVES(cuEventElapsedTime(&elapsed, event, other), CUDA_ERROR_INVALID_HANDLE);
	WORKS(cuEventRecord(event, NULL));
	WORKS(cuEventSynchronize(event));
	GIVES(cuEventElapsedTime(&elapsed, event, other), CUDA_ERROR_INVALID_HANDLE);
	WORKS(cuEventDestroy(event));
	WORKS(cuEventDestroy(other));
}

CONFORM(elapsed_time)
{
	CUevent start, end, untimed;
	CUstream stream;
	float elapsed = -1;
	unsigned long long nanoseconds = 100000000;
	void *arguments[] = {&nanoseconds};

	need_context();
	CUfunction spin = need_function(need_module(ptx_basic), "spin");
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(cuEventCreate(&start, 0));
	NEED(cuEventCreate(&end, 0));
	NEED(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
	NEED(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL)); // warm
	NEED(cuStreamSynchronize(stream));
	WORKS(cuEventRecord(start, stream));
	NEED(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
	WORKS(cuEventRecord(end, stream));
	GIVES(cuEventQuery(end), CUDA_ERROR_NOT_READY);
	GIVES(cuEventElapsedTime(&elapsed, start, end), CUDA_ERROR_NOT_READY);
	WORKS(cuEventSynchronize(end));
	WORKS(cuEventQuery(end));
	WORKS(cuEventElapsedTime(&elapsed, start, end));
	BETWEEN(elapsed, 99, 5000);
	WORKS(cuEventElapsedTime(&elapsed, end, start));
	BETWEEN(elapsed, -5000, -99);
	WORKS(cuEventRecord(untimed, stream));
	WORKS(cuEventSynchronize(untimed));
	GIVES(cuEventElapsedTime(&elapsed, start, untimed), CUDA_ERROR_INVALID_HANDLE);
	FAILS(cuEventElapsedTime(NULL, start, end));
	GIVES(cuEventElapsedTime(&elapsed, NULL, end), CUDA_ERROR_INVALID_HANDLE);
	WORKS(cuEventDestroy(start));
	WORKS(cuEventDestroy(end));
	WORKS(cuEventDestroy(untimed));
	WORKS(cuStreamDestroy(stream));
}

CONFORM(a_later_record_replaces)
{
	CUevent event;
	CUstream stream;
	unsigned long long nanoseconds = 100000000;
	void *arguments[] = {&nanoseconds};

	need_context();
	CUfunction spin = need_function(need_module(ptx_basic), "spin");
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	WORKS(cuEventRecord(event, stream));
	WORKS(cuEventSynchronize(event));
	NEED(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
	WORKS(cuEventQuery(event)); // the event was recorded before the kernel was launched, so it is still complete
	WORKS(cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_DEFAULT));
	GIVES(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	GIVES(cuEventRecordWithFlags(event, stream, 8), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuEventDestroy(event)); // the call does not wait
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuStreamDestroy(stream));
}

CONFORM(event_and_stream_of_two_contexts)
{
	CUevent event;
	CUcontext made;
	CUstream stream;

	need_context();
	NEED(cuEventCreate(&event, 0));
	NEED(cuCtxCreate(&made, NULL, 0, device));
	NEED(cuStreamCreate(&stream, 0));
	GIVES(cuEventRecord(event, stream), CUDA_ERROR_INVALID_HANDLE);
	WORKS(cuStreamWaitEvent(stream, event, 0)); // waiting across contexts is allowed
	WORKS(cuCtxDestroy(made));
	need_context();
	WORKS(cuEventDestroy(event));
}

// ---- events of all streams of a context -----------------------------------------------------------

static atomic_uint *words; // streams wait for these words

// Blocks the stream until open_stream().
static void hold_stream(CUstream stream, int index)
{
	if (!words) {
		NEED(cuMemHostAlloc((void **)&words, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
		memset((void *)words, 0, 4096);
	}
	NEED(cuStreamWaitValue32(stream, (CUdeviceptr)(words + index), atomic_load(words + index) + 1,
				 CU_STREAM_WAIT_VALUE_GEQ));
}

static void open_stream(int index)
{
	atomic_fetch_add(words + index, 1);
}

// Returns whether the stream becomes idle soon. It polls: synchronizing with a held stream would block for ever.
static bool becomes_idle(CUstream stream)
{
	for (double end = seconds() + 5; seconds() < end; usleep(1000))
		if (cuStreamQuery(stream) == CUDA_SUCCESS)
			return true;
	return false;
}

CONFORM(an_event_of_the_context_covers_all_its_streams)
{
	CUstream streams[3] = {NULL, NULL, CU_STREAM_PER_THREAD}, other;
	CUevent event;

	need_context();
	NEED(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING));
	NEED(cuStreamCreate(&streams[1], CU_STREAM_DEFAULT));
	NEED(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	NEED(cuCtxSynchronize());
	WORKS(cuCtxRecordEvent(context, event));
	WORKS(cuEventSynchronize(event));
	for (int i = 0; i < 3; i++) {
		hold_stream(streams[i], i);
		WORKS(cuEventQuery(event)); // the event does not cover later work
		WORKS(cuCtxRecordEvent(context, event));
		GIVES(cuEventQuery(event), CUDA_ERROR_NOT_READY);
		hold_stream(other, 3);
		open_stream(i);
		WORKS(cuEventSynchronize(event)); // returns although more work was queued since
		GIVES(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
		open_stream(3);
		WORKS(cuCtxSynchronize());
	}
	WORKS(cuStreamDestroy(streams[0]));
	WORKS(cuStreamDestroy(streams[1]));
	WORKS(cuStreamDestroy(other));
	WORKS(cuEventDestroy(event));
}

// A stream that the test blocks (`held`), other streams that must not wait for it, and memory that they write.
struct beside {
	CUstream held, streams[3]; // the test creates streams[1]; the last stream is a null stream
	CUdeviceptr memory;
	CUevent event;
};

static struct beside begin_beside(void)
{
	struct beside beside = {0};

	need_context();
	NEED(cuStreamCreate(&beside.held, CU_STREAM_NON_BLOCKING));
	NEED(cuStreamCreate(&beside.streams[0], CU_STREAM_NON_BLOCKING));
	NEED(cuEventCreate(&beside.event, CU_EVENT_DISABLE_TIMING));
	NEED(cuMemAlloc(&beside.memory, 64));
	NEED(cuCtxSynchronize());
	return beside;
}

static void end_beside(struct beside *beside)
{
	WORKS(cuCtxSynchronize());
	WORKS(cuMemFree(beside->memory));
	WORKS(cuStreamDestroy(beside->held));
	WORKS(cuStreamDestroy(beside->streams[0]));
	WORKS(cuStreamDestroy(beside->streams[1]));
	WORKS(cuEventDestroy(beside->event));
}

// Returns whether each stream executes a new operation.
static bool all_execute(struct beside *beside)
{
	bool idle = true;

	for (int i = 0; i < 3; i++) {
		WORKS(cuMemsetD32Async(beside->memory, 1, 16, beside->streams[i]));
		idle = idle && becomes_idle(beside->streams[i]);
	}
	return idle;
}

// Blocks the stream `held`. A GPU has few channels, and streams on one channel wait for each other. So `held` is
// replaced until it delays none of the other streams.
static void hold_alone(struct beside *beside)
{
	for (int attempt = 0; attempt < 8; attempt++) {
		hold_stream(beside->held, 0);
		if (all_execute(beside))
			return;
		open_stream(0);
		WORKS(cuCtxSynchronize());
		CUstream former = beside->held;
		NEED(cuStreamCreate(&beside->held, CU_STREAM_NON_BLOCKING));
		WORKS(cuStreamDestroy(former));
	}
	FAIL("each new stream holds another one");
}

CONFORM(an_event_of_the_context_holds_no_stream)
{
	struct beside beside = begin_beside();

	NEED(cuStreamCreate(&beside.streams[1], CU_STREAM_DEFAULT));
	beside.streams[2] = CU_STREAM_LEGACY;
	hold_alone(&beside);
	WORKS(cuCtxRecordEvent(context, beside.event));
	HOLDS(all_execute(&beside));
	GIVES(cuEventQuery(beside.event), CUDA_ERROR_NOT_READY);
	open_stream(0);
	WORKS(cuEventSynchronize(beside.event));
	end_beside(&beside);
}

CONFORM(a_context_waits_for_an_event)
{
	struct beside beside = begin_beside();

	WORKS(cuCtxWaitEvent(context, beside.event)); // the event was never recorded: no wait
	hold_stream(beside.held, 0);
	WORKS(cuEventRecord(beside.event, beside.held));
	WORKS(cuCtxWaitEvent(context, beside.event));			  // the call returns at once
	NEED(cuStreamCreate(&beside.streams[1], CU_STREAM_NON_BLOCKING)); // created later
	for (int i = 0; i < 3; i++)
		WORKS(cuMemsetD32Async(beside.memory, 1, 16, beside.streams[i]));
	usleep(100000);
	for (int i = 0; i < 3; i++)
		GIVES(cuStreamQuery(beside.streams[i]), CUDA_ERROR_NOT_READY);
	open_stream(0);
	end_beside(&beside);
}

CONFORM(events_of_contexts_that_are_refused)
{
	CUevent event;
	CUcontext made;

	need_context();
	NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	NEED(cuCtxCreate(&made, NULL, 0, device));
	GIVES(cuCtxRecordEvent(made, event), CUDA_ERROR_INVALID_HANDLE); // the event is of another context
	WORKS(cuCtxWaitEvent(made, event));
	WORKS(cuCtxDestroy(made));
	need_context();
	GIVES(cuCtxRecordEvent(context, NULL), CUDA_ERROR_INVALID_HANDLE);
	GIVES(cuCtxWaitEvent(context, NULL), CUDA_ERROR_INVALID_HANDLE);
	WORKS(cuEventDestroy(event));
}

// ---- events of green contexts ---------------------------------------------------------------------

// Two green contexts, a context made from the second one (`view`), and streams of these contexts and of the primary
// context.
static struct green_parts {
	CUgreenCtx greens[2];
	CUcontext view;
	CUstream plain, green[2], of_view;
} parts;

static void need_green_parts(void)
{
	CUdevResource whole = {0}, groups[2];
	CUdevResourceDesc description;
	unsigned count = 2;

	need_context();
	if (parts.plain)
		return;
	NEED(cuDeviceGetDevResource(device, &whole, CU_DEV_RESOURCE_TYPE_SM));
	NEED(cuDevSmResourceSplitByCount(groups, &count, &whole, NULL, 0, 8));
	for (int i = 0; i < 2; i++) {
		NEED(cuDevResourceGenerateDesc(&description, &groups[i], 1));
		NEED(cuGreenCtxCreate(&parts.greens[i], description, device, CU_GREEN_CTX_DEFAULT_STREAM));
		NEED(cuGreenCtxStreamCreate(&parts.green[i], parts.greens[i], CU_STREAM_NON_BLOCKING, 0));
	}
	NEED(cuCtxFromGreenCtx(&parts.view, parts.greens[1]));
	NEED(cuCtxSetCurrent(parts.view));
	NEED(cuStreamCreate(&parts.of_view, CU_STREAM_NON_BLOCKING));
	need_context();
	NEED(cuStreamCreate(&parts.plain, CU_STREAM_NON_BLOCKING));
}

// Blocks the stream `held`, and records events of the primary context, of both green contexts, and of the view of the
// second one. The event of the primary context must wait for the stream. `first` and `second` say whether the events of
// the first and of the second green context must wait; the event of the view behaves like that of the second one.
static void check_covering(CUstream held, bool first, bool second)
{
	CUevent events[4];
	bool waits[] = {true, first, second, second};

	for (int i = 0; i < 4; i++)
		NEED(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
	hold_stream(held, 0);
	WORKS(cuCtxRecordEvent(context, events[0]));
	WORKS(cuGreenCtxRecordEvent(parts.greens[0], events[1]));
	WORKS(cuGreenCtxRecordEvent(parts.greens[1], events[2]));
	WORKS(cuCtxRecordEvent(parts.view, events[3]));
	usleep(100000);
	for (int i = 0; i < 4; i++)
		GIVES(cuEventQuery(events[i]), waits[i] ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
	open_stream(0);
	for (int i = 0; i < 4; i++) {
		WORKS(cuEventSynchronize(events[i]));
		WORKS(cuEventDestroy(events[i]));
	}
	WORKS(cuCtxSynchronize());
	WORKS(cuStreamQuery(held)); // the context's event covers this stream, too
}

CONFORM(events_of_green_contexts_cover_their_streams)
{
	need_green_parts();
	check_covering(parts.plain, false, false);
	check_covering(parts.green[0], true, false);
	check_covering(parts.green[1], false, true);
	check_covering(parts.of_view, false, true);
}

CONFORM(green_contexts_wait_for_an_event)
{
	CUdeviceptr memory;
	CUevent event;

	need_green_parts();
	NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	NEED(cuMemAlloc(&memory, 64));
	for (int primary = 0; primary < 2; primary++) {
		hold_stream(parts.plain, 0);
		WORKS(cuEventRecord(event, parts.plain));
		WORKS(primary ? cuCtxWaitEvent(context, event) : cuGreenCtxWaitEvent(parts.greens[1], event));
		WORKS(cuMemsetD32Async(memory, 1, 16, parts.green[0]));
		WORKS(cuMemsetD32Async(memory, 1, 16, parts.green[1]));
		WORKS(cuMemsetD32Async(memory, 1, 16, parts.of_view));
		if (!primary)
			HOLDS(becomes_idle(parts.green[0]));
		usleep(100000);
		GIVES(cuStreamQuery(parts.green[0]), primary ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
		GIVES(cuStreamQuery(parts.green[1]), CUDA_ERROR_NOT_READY);
		GIVES(cuStreamQuery(parts.of_view), CUDA_ERROR_NOT_READY);
		open_stream(0);
		WORKS(cuCtxSynchronize());
	}
	WORKS(cuMemFree(memory));
	WORKS(cuEventDestroy(event));
}

// ---- captures -----------------------------------------------------------------------------------

static CUresult end_capture(CUstream stream)
{
	CUgraph graph = NULL;
	CUresult result = cuStreamEndCapture(stream, &graph);

	if (graph)
		WORKS(cuGraphDestroy(graph));
	return result;
}

#define SPOILS(stream, call)                                                        \
	do {                                                                        \
		NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)); \
		GIVES(call, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);                 \
		GIVES(end_capture(stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);  \
	} while (0)
#define SPARES(stream, call)                                                        \
	do {                                                                        \
		NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)); \
		WORKS(call);                                                        \
		WORKS(end_capture(stream));                                         \
	} while (0)

CONFORM(calls_on_contexts_invalidate_captures)
{
	CUevent event, inside;
	CUcontext made;

	need_green_parts();
	NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	NEED(cuEventCreate(&inside, CU_EVENT_DISABLE_TIMING));
	NEED(cuCtxCreate(&made, NULL, 0, device));
	need_context();
	SPOILS(parts.plain, cuCtxRecordEvent(context, event));
	SPOILS(parts.plain, cuCtxWaitEvent(context, event));
	SPOILS(parts.plain, cuCtxSynchronize());
	// calls on the primary context do not invalidate captures on these streams
	CUstream of_greens[] = {parts.green[0], parts.of_view};
	for (int i = 0; i < 2; i++) {
		SPARES(of_greens[i], cuCtxRecordEvent(context, event));
		SPARES(of_greens[i], cuCtxWaitEvent(context, event));
		SPARES(of_greens[i], cuCtxSynchronize());
	}
	SPOILS(parts.green[0], cuGreenCtxRecordEvent(parts.greens[0], event));
	SPOILS(parts.green[0], cuGreenCtxWaitEvent(parts.greens[0], event));
	SPOILS(parts.of_view, cuCtxRecordEvent(parts.view, event));
	// a call on one green context does not invalidate captures on streams of another one
	SPARES(parts.green[0], cuGreenCtxRecordEvent(parts.greens[1], event));
	SPARES(parts.plain, cuCtxRecordEvent(parts.view, event));
	SPARES(parts.plain, cuCtxWaitEvent(made, event));
	// An event of a capture cannot be used outside it.
	NEED(cuStreamBeginCapture(parts.plain, CU_STREAM_CAPTURE_MODE_RELAXED));
	WORKS(cuEventRecord(inside, parts.plain));
	GIVES(cuCtxWaitEvent(made, inside), CUDA_ERROR_CAPTURED_EVENT);
	GIVES(end_capture(parts.plain), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	WORKS(cuCtxRecordEvent(context, inside));
	WORKS(cuEventSynchronize(inside));
	WORKS(cuCtxDestroy(made));
	WORKS(cuEventDestroy(event));
	WORKS(cuEventDestroy(inside));
}
