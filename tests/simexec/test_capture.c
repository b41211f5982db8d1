// Tests capture across streams, and its errors. The conformance tests check the modes of threads.
#include "program.h"

static CUstream stream, other;
static CUevent fork_event, join_event;

static void start(void)
{
	load_kernels();
	if (stream)
		return;
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	CU(cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
	CU(cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING));
}

static CUresult launch_add(CUstream where, CUdeviceptr data, int by)
{
	int n = 32;
	return LAUNCH(kernel("add"), 1, 32, 0, where, &data, &n, &by);
}

static void run_graph(CUgraph graph)
{
	CUgraphExec exec;
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphLaunch(exec, stream));
	CU(cuStreamSynchronize(stream));
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
}

TEST(a_forked_stream_joins_again)
{
	start();
	CUdeviceptr a = words(32), b = words(32);
	CUstreamCaptureStatus status;
	CUgraph graph;
	size_t count = 0;
	int host[2] = {0};

	CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CU(launch_add(stream, a, 1));
	CU(cuEventRecord(fork_event, stream));
	CU(cuStreamWaitEvent(other, fork_event, 0));
	CU(cuStreamIsCapturing(other, &status));
	CHECK_INT(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	CU(launch_add(other, b, 2));
	CU(cuMemsetD32Async(a + 4, 9, 1, stream));
	CU(cuEventRecord(join_event, other));
	CU(cuStreamWaitEvent(stream, join_event, 0));
	CU(cuMemcpyDtoHAsync_v2(&host[0], a + 4, 4, stream));
	CU(cuMemcpyDtoHAsync_v2(&host[1], b, 4, stream));
	CU(cuStreamEndCapture(stream, &graph));
	CU(cuStreamIsCapturing(other, &status));
	CHECK_INT(status, CU_STREAM_CAPTURE_STATUS_NONE);
	CU(cuGraphGetNodes(graph, NULL, &count));
	CHECK_INT(count, 5);
	CU(cuGraphGetEdges(graph, NULL, NULL, &count));
	CHECK_INT(count, 5);
	CHECK_INT(word(a), 0); // the captured kernels must not have run yet
	run_graph(graph);
	CHECK_INT(host[0], 9);
	CHECK_INT(host[1], 2);
	CHECK_INT(word(a), 1);
}

TEST(unjoined_work_fails_the_capture)
{
	start();
	CUdeviceptr data = words(32);
	CUgraph graph = NULL;

	CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CU(cuEventRecord(fork_event, stream));
	CU(cuStreamWaitEvent(other, fork_event, 0));
	CU(launch_add(other, data, 1));
	CHECK_INT(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	CHECK(graph == NULL);
	CU(launch_add(other, data, 1)); // the end of the capture lets both streams run work again
	CU(cuStreamSynchronize(other));
	CHECK_INT(word(data), 1);
}

TEST(two_captures_do_not_merge)
{
	start();
	CUgraph graph = NULL;

	CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CU(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CU(cuEventRecord(fork_event, stream));
	CHECK_INT(cuStreamWaitEvent(other, fork_event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
	CHECK_INT(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	CHECK_INT(cuStreamEndCapture(other, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST(events_from_outside_are_isolated)
{
	start();
	CUgraph graph = NULL;

	CU(cuEventRecord(join_event, other));
	CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CHECK_INT(cuStreamWaitEvent(stream, join_event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	CHECK_INT(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST(a_capture_can_extend_a_graph)
{
	start();
	CUdeviceptr data = words(32);
	const CUgraphNode *dependencies;
	CUstreamCaptureStatus status;
	CUgraph graph, seen;
	CUgraphNode root;
	cuuint64_t id;
	size_t count;

	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphAddEmptyNode(&root, graph, NULL, 0));
	CU(cuStreamBeginCaptureToGraph(stream, graph, &root, NULL, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CU(launch_add(stream, data, 4));
	CU(cuStreamGetCaptureInfo_v2(stream, &status, &id, &seen, &dependencies, &count));
	CHECK(seen == graph);
	CHECK_INT(count, 1);
	CU(cuStreamUpdateCaptureDependencies(stream, &root, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
	CU(launch_add(stream, data + 64, 5));
	CU(cuStreamEndCapture(stream, &seen));
	CHECK(seen == graph);
	count = 0;
	CU(cuGraphNodeGetDependentNodes(root, NULL, &count));
	CHECK_INT(count, 2);
	run_graph(graph);
	CHECK_INT(word(data), 4);
}

TEST(stream_ordered_memory_becomes_nodes)
{
	start();
	CUdeviceptr data = words(32), scratch;
	CUgraph graph;
	CUgraphExec exec;

	CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CU(cuMemAllocAsync(&scratch, 4096, stream));
	CU(cuMemsetD32Async(scratch, 40, 32, stream));
	CU(launch_add(stream, scratch, 2));
	CU(cuMemcpyDtoDAsync_v2(data, scratch, 128, stream));
	CU(cuMemFreeAsync(scratch, stream));
	CU(cuStreamEndCapture(stream, &graph));
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < 3; i++) {
		CU(cuMemsetD32_v2(data, 0, 32));
		CU(cuGraphLaunch(exec, stream));
		CU(cuStreamSynchronize(stream));
		CHECK_INT(word(data + 124), 42);
	}
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
	CU(cuDeviceGraphMemTrim(0));
}
