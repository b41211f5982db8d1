// Tests stream capture: states, modes, and the results of calls that are forbidden during a capture.
#include "conformance.h"

#include <pthread.h>

static CUstream stream, other;
static CUfunction store;
static CUdeviceptr memory;

static void need_capture_parts(void)
{
	need_context();
	if (!stream) {
		NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		NEED(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
		NEED(cuMemAlloc(&memory, 4096));
		store = need_function(need_module(ptx_basic), "store");
	}
}

static CUresult launch_store(CUstream where, unsigned value)
{
	void *arguments[] = {&memory, &value};

	return cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, where, arguments, NULL);
}

CONFORM(a_captured_launch_runs_later)
{
	CUgraph graph = NULL;
	CUgraphExec exec;
	CUstreamCaptureStatus status = 9;
	unsigned word = 9;
	size_t count = 0;

	need_capture_parts();
	NEED(cuMemsetD32(memory, 0, 1));
	NEED(cuCtxSynchronize());
	WORKS(cuStreamIsCapturing(stream, &status));
	EQUALS(status, CU_STREAM_CAPTURE_STATUS_NONE);
	NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	WORKS(cuStreamIsCapturing(stream, &status));
	EQUALS(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	WORKS(launch_store(stream, 7));
	WORKS(cuMemsetD32Async(memory + 4, 8, 1, stream));
	NEED(cuStreamEndCapture(stream, &graph));
	WORKS(cuMemcpyDtoH(&word, memory, 4));
	EQUALS(word, 0);
	WORKS(cuGraphGetNodes(graph, NULL, &count));
	EQUALS(count, 2);
	NEED(cuGraphInstantiate(&exec, graph, 0));
	WORKS(cuGraphLaunch(exec, stream));
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuMemcpyDtoH(&word, memory, 4));
	EQUALS(word, 7);
	// A captured launch cannot depend on a node of another graph.
	NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	GIVES(cuGraphLaunch(exec, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	CUgraph spoilt = NULL;
	if (cuStreamEndCapture(stream, &spoilt) == CUDA_SUCCESS)
		WORKS(cuGraphDestroy(spoilt));
	WORKS(cuGraphExecDestroy(exec));
	WORKS(cuGraphDestroy(graph));
}

CONFORM(begin_and_end)
{
	CUgraph graph = NULL;

	need_capture_parts();
	GIVES(cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
	GIVES(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	GIVES(cuStreamBeginCapture(stream, 9), CUDA_ERROR_INVALID_VALUE);
	NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	GIVES(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_ILLEGAL_STATE);
	WORKS(cuStreamEndCapture(stream, &graph));
	HOLDS(graph != NULL); // the graph is empty, but exists
	WORKS(cuGraphDestroy(graph));
}

// Ends the capture, destroys its graph if there is one, and returns the result.
static CUresult end_capture(void)
{
	CUgraph graph = NULL;
	CUresult result = cuStreamEndCapture(stream, &graph);

	if (graph)
		WORKS(cuGraphDestroy(graph));
	return result;
}

CONFORM(waiting_invalidates)
{
	CUstreamCaptureStatus status = 9;

	need_capture_parts();
	NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	GIVES(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	WORKS(cuStreamIsCapturing(stream, &status));
	EQUALS(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	GIVES(launch_store(stream, 1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	GIVES(end_capture(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	WORKS(launch_store(stream, 1));
	WORKS(cuStreamSynchronize(stream));
	NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	GIVES(cuStreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	GIVES(end_capture(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	GIVES(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	GIVES(end_capture(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static void dropped(void *count)
{
	++*(int *)count;
}

// Begins a capture into an existing graph that is not empty.
static CUgraph begin_into_a_graph(int *count)
{
	CUuserObject object;
	CUgraphNode node;
	CUgraph graph;

	NEED(cuGraphCreate(&graph, 0));
	NEED(cuGraphAddEmptyNode(&node, graph, NULL, 0));
	NEED(cuUserObjectCreate(&object, count, dropped, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	NEED(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
	NEED(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	return graph;
}

static void *end_elsewhere(void *ret_result);
static CUresult in_a_thread(void *(*what)(void *));

CONFORM(a_spoilt_capture_takes_its_graph_along)
{
	int dropped_objects = 0;
	CUdeviceptr address;
	CUstream own;

	need_capture_parts();
	begin_into_a_graph(&dropped_objects);
	GIVES(cuMemAlloc(&address, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	EQUALS(dropped_objects, 0);
	GIVES(end_capture(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	EQUALS(dropped_objects, 1);
	begin_into_a_graph(&dropped_objects);
	GIVES(in_a_thread(end_elsewhere), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	EQUALS(dropped_objects, 2);
	GIVES(end_capture(), CUDA_ERROR_ILLEGAL_STATE);
	own = stream;
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	begin_into_a_graph(&dropped_objects);
	WORKS(cuStreamDestroy(stream));
	EQUALS(dropped_objects, 3);
	stream = own;
	CUgraph graph = begin_into_a_graph(&dropped_objects);
	WORKS(end_capture()); // destroys it
	HOLDS(graph != NULL);
	EQUALS(dropped_objects, 4);
}

CONFORM(allocation_in_a_global_capture)
{
	CUdeviceptr address = 0;
	size_t available, total;

	need_capture_parts();
	NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	WORKS(cuMemGetInfo(&available, &total));
	GIVES(cuMemAlloc(&address, 4096), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	GIVES(end_capture(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	GIVES(cuStreamSynchronize(other),
	      CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED); // fails although the stream `other` is not capturing
	GIVES(end_capture(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	WORKS(cuMemAlloc(&address, 4096));
	WORKS(end_capture());
	NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	WORKS(cuThreadExchangeStreamCaptureMode(&mode));
	// the captures above have not changed the thread's mode from the default
	EQUALS(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
	WORKS(cuMemFree(address));
	WORKS(cuMemAlloc(&address, 4096));
	WORKS(cuThreadExchangeStreamCaptureMode(&mode));
	EQUALS(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
	WORKS(end_capture());
	WORKS(cuMemFree(address));
}

static void *allocate_elsewhere(void *ret_result)
{
	CUdeviceptr address;

	cuCtxSetCurrent(context);
	*(CUresult *)ret_result = cuMemAlloc(&address, 4096);
	if (*(CUresult *)ret_result == CUDA_SUCCESS)
		cuMemFree(address);
	return NULL;
}

static void *end_elsewhere(void *ret_result)
{
	CUgraph graph = NULL;

	cuCtxSetCurrent(context);
	*(CUresult *)ret_result = cuStreamEndCapture(stream, &graph);
	return NULL;
}

static CUresult in_a_thread(void *(*what)(void *))
{
	CUresult result = CUDA_ERROR_UNKNOWN;
	pthread_t thread;

	pthread_create(&thread, NULL, what, &result);
	pthread_join(thread, NULL);
	return result;
}

CONFORM(modes_and_other_threads)
{
	need_capture_parts();
	NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	GIVES(in_a_thread(allocate_elsewhere), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	GIVES(end_capture(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	WORKS(in_a_thread(allocate_elsewhere));
	GIVES(in_a_thread(end_elsewhere), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	GIVES(end_capture(), CUDA_ERROR_ILLEGAL_STATE); // the failed call ended the capture
	NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	WORKS(in_a_thread(end_elsewhere));
	GIVES(end_capture(), CUDA_ERROR_ILLEGAL_STATE);
}

// Checks a call that is unsafe during a capture, although it does not use the captured stream. In a strict mode the
// call fails and invalidates the capture. In the relaxed mode the call succeeds.
#define UNSAFE(call)                                                                     \
	do {                                                                             \
		NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)); \
		GIVES(call, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);                      \
		GIVES(end_capture(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);             \
		NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)); \
		relax();                                                                 \
		WORKS(call);                                                             \
		relax();                                                                 \
		WORKS(end_capture());                                                    \
	} while (0)

// Makes the thread's capture mode relaxed. In this mode the calls that the stricter modes refuse succeed.
static void relax(void)
{
	static CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	NEED(cuThreadExchangeStreamCaptureMode(&mode));
}

CONFORM(unsafe_on_other_streams_too)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
	CUdeviceptr address;
	CUgraphExec exec;
	cuuint64_t bytes;
	CUmemoryPool pool;
	CUgraph graph;

	need_capture_parts();
	NEED(cuGraphCreate(&graph, 0));
	UNSAFE(cuMemPoolCreate(&pool, &properties));
	UNSAFE(cuMemAllocFromPoolAsync(&address, 64, pool, other));
	UNSAFE(cuMemFreeAsync(address, other));
	UNSAFE(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &bytes));
	UNSAFE(cuMemPoolTrimTo(pool, 0));
	UNSAFE(cuMemPoolDestroy(pool));
	UNSAFE(cuGraphInstantiate(&exec, graph, 0));
	UNSAFE(cuGraphExecDestroy(exec));
	NEED(cuCtxSynchronize());
	UNSAFE(cuStreamQuery(other));
	UNSAFE(cuMemFree(0));
	UNSAFE(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_NONE));
	WORKS(cuGraphDestroy(graph));
	NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	need_module(ptx_basic); // all its calls are allowed during a capture
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
	CUmemGenericAllocationHandle memory;
	WORKS(cuMemCreate(&memory, 2 * MiB, &prop, 0));
	WORKS(cuMemRelease(memory));
	WORKS(end_capture());
}

CONFORM(forks_whose_streams_go)
{
	CUevent event;
	CUstream fork;

	need_capture_parts();
	NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (int joined = 0; joined < 2; joined++) {
		NEED(cuStreamCreate(&fork, CU_STREAM_NON_BLOCKING));
		NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
		WORKS(cuEventRecord(event, stream));
		WORKS(cuStreamWaitEvent(fork, event, 0));
		WORKS(launch_store(fork, 1));
		WORKS(cuEventRecord(event, fork));
		if (joined)
			WORKS(cuStreamWaitEvent(stream, event, 0));
		WORKS(cuStreamDestroy(fork));
		WORKS(launch_store(stream, 1));
		GIVES(end_capture(), joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	}
	WORKS(cuEventDestroy(event));
}

CONFORM(forks_and_joins)
{
	CUevent fork_event, join_event;
	CUgraph graph = NULL;
	size_t edges = 0;

	need_capture_parts();
	NEED(cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
	NEED(cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING));
	NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	WORKS(launch_store(stream, 1));
	WORKS(cuEventRecord(fork_event, stream));
	GIVES(cuEventQuery(fork_event), CUDA_ERROR_CAPTURED_EVENT);
	GIVES(end_capture(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	WORKS(cuEventRecord(fork_event, stream));
	WORKS(cuStreamWaitEvent(other, fork_event, 0)); // the other stream captures too now
	WORKS(launch_store(other, 2));
	GIVES(end_capture(), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	WORKS(launch_store(stream, 1));
	WORKS(cuEventRecord(fork_event, stream));
	WORKS(cuStreamWaitEvent(other, fork_event, 0));
	WORKS(launch_store(other, 2));
	CUgraph none = NULL;
	GIVES(cuStreamEndCapture(other, &none), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	FAILS(end_capture());
	NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	WORKS(launch_store(stream, 1));
	WORKS(cuEventRecord(fork_event, stream));
	WORKS(cuStreamWaitEvent(other, fork_event, 0));
	WORKS(launch_store(other, 2));
	WORKS(cuEventRecord(join_event, other));
	WORKS(cuStreamWaitEvent(stream, join_event, 0));
	WORKS(launch_store(stream, 3));
	NEED(cuStreamEndCapture(stream, &graph));
	WORKS(cuGraphGetEdges(graph, NULL, NULL, NULL, &edges));
	EQUALS(edges, 3);
	WORKS(cuGraphDestroy(graph));
	// Work that was captured in a forked stream must be joined. A node that was only set as the stream's dependency
	// need not be joined.
	CUgraph to = NULL;
	CUgraphNode placed;
	NEED(cuGraphCreate(&to, 0));
	NEED(cuStreamBeginCaptureToGraph(stream, to, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
	WORKS(cuEventRecord(fork_event, stream));
	WORKS(cuStreamWaitEvent(other, fork_event, 0));
	NEED(cuGraphAddEmptyNode(&placed, to, NULL, 0));
	WORKS(cuStreamUpdateCaptureDependencies(other, &placed, NULL, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
	WORKS(cuStreamEndCapture(stream, &graph));
	WORKS(cuGraphDestroy(to));
	WORKS(cuEventDestroy(fork_event));
	WORKS(cuEventDestroy(join_event));
}

CONFORM(null_stream_is_refused_during_a_capture)
{
	CUstream blocking;
	CUgraph graph = NULL;

	need_capture_parts();
	NEED(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	NEED(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
	GIVES(launch_store(NULL, 1), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	GIVES(cuStreamEndCapture(blocking, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	WORKS(cuStreamDestroy(blocking));
}

CONFORM(stream_ordered_memory_becomes_nodes)
{
	CUdeviceptr address = 0;
	CUgraph graph = NULL;
	CUgraphExec exec;
	CUgraphNode nodes[3];
	CUgraphNodeType type;
	size_t count = 3, before, allocations = 0;

	need_capture_parts();
	WORKS(cuDeviceGraphMemTrim(device));
	before = memory_used();
	NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	WORKS(cuMemAllocAsync(&address, 8 * MiB, stream));
	WORKS(cuMemsetD8Async(address, 1, 8 * MiB, stream));
	WORKS(cuMemFreeAsync(address, stream));
	NEED(cuStreamEndCapture(stream, &graph));
	WORKS(cuGraphGetNodes(graph, nodes, &count));
	EQUALS(count, 3);
	for (size_t i = 0; i < count; i++) {
		WORKS(cuGraphNodeGetType(nodes[i], &type));
		allocations += type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
	}
	EQUALS(allocations, 1);
	EQUALS(memory_used(), before);
	NEED(cuGraphInstantiate(&exec, graph, 0));
	COSTS(memory_used() - before, 0, 32 * MiB);
	WORKS(cuGraphLaunch(exec, stream));
	WORKS(cuStreamSynchronize(stream));
	EQUALS(memory_used() - before, 32 * MiB);
	WORKS(cuGraphExecDestroy(exec));
	WORKS(cuGraphDestroy(graph));
	WORKS(cuDeviceGraphMemTrim(device));
	EQUALS(memory_used(), before);
}

CONFORM(capture_information)
{
	CUstreamCaptureStatus status = 9;
	cuuint64_t identity = 0;
	CUgraph graph = NULL;
	const CUgraphNode *dependencies = NULL;
	size_t count = 9;

	need_capture_parts();
	WORKS(cuStreamGetCaptureInfo(stream, &status, &identity, &graph, &dependencies, NULL, &count));
	EQUALS(status, CU_STREAM_CAPTURE_STATUS_NONE);
	NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	WORKS(launch_store(stream, 1));
	WORKS(cuStreamGetCaptureInfo(stream, &status, &identity, &graph, &dependencies, NULL, &count));
	EQUALS(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	EQUALS(count, 1);
	HOLDS(graph != NULL && identity != 0);
	WORKS(cuStreamUpdateCaptureDependencies(stream, NULL, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
	WORKS(launch_store(stream, 2));
	CUgraph ended = NULL;
	NEED(cuStreamEndCapture(stream, &ended));
	HOLDS(ended == graph);
	WORKS(cuGraphGetEdges(ended, NULL, NULL, NULL, &count));
	EQUALS(count, 0);
	WORKS(cuGraphDestroy(ended));
}
