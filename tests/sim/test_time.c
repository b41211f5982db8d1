// Tests a simulated device that shares its time (`slice`), where the conformance suite cannot: MPS, a single copy
// engine, exact times of graphs, limits, and invalid values.
#include "sim_test.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>

#define NODE "slice=2150us,sms=4,memory=256M,ctx=2M"
#define COST "kernel=200us,host=1G,device=1G,kernel:long=50ms,kernel:traps=1us+"
struct shared {
	_Atomic int loaded, stop;
};
static struct shared *shared;
static _Atomic unsigned *gate; // streams wait for this word between hold_stream() and open_streams()
static CUstream stream;
static CUfunction full, longer, traps;
static const char ptx[] = ".version 7.5\n.target sm_75\n.address_size 64\n"
			  ".visible .entry full() { ret; }\n.visible .entry long() { ret; }\n"
			  ".visible .entry traps() { trap; ret; }\n";

static void use_node(const char *node, const char *cost)
{
	node_start("1");
	setenv("VIRGATE_SIM", node, 1);
	cost ? setenv("VIRGATE_SIM_COST", cost, 1) : unsetenv("VIRGATE_SIM_COST");
	if (!shared)
		shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset(shared, 0, sizeof *shared);
}

static void open_device(void)
{
	CUmodule module;

	primary(0);
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CU(cuMemHostAlloc((void **)&gate, 4096, 0));
	CU(cuModuleLoadData(&module, ptx));
	CU(cuModuleGetFunction(&full, module, "full"));
	CU(cuModuleGetFunction(&longer, module, "long"));
	CU(cuModuleGetFunction(&traps, module, "traps"));
}

static void launch(CUstream on, unsigned blocks)
{
	CU(cuLaunchKernel(full, blocks, 1, 1, 32, 1, 1, 0, on, NULL, NULL));
}

// Blocks the stream until open_streams(). Work that is queued meanwhile then runs without gaps, even if the host is
// slow.
static void hold_stream(CUstream on)
{
	CU(cuStreamWaitValue32_v2(on, (CUdeviceptr)gate, atomic_load(gate) + 1, CU_STREAM_WAIT_VALUE_GEQ));
}

static void open_streams(void)
{
	atomic_fetch_add(gate, 1);
}

static CUevent record(CUstream on)
{
	CUevent event;

	CU(cuEventCreate(&event, 0));
	CU(cuEventRecord(event, on));
	return event;
}

static double elapsed(CUevent from, CUevent to)
{
	float ms;

	CU(cuEventSynchronize(to));
	CU(cuEventElapsedTime_v2(&ms, from, to));
	return ms;
}

static double elapsed_and_destroy(CUevent from, CUevent to)
{
	double ms = elapsed(from, to);

	CU(cuEventDestroy_v2(from));
	CU(cuEventDestroy_v2(to));
	return ms;
}

static double measure(unsigned blocks, unsigned times)
{
	hold_stream(stream);
	launch(stream, blocks);
	CUevent from = record(stream);
	for (unsigned i = 0; i < times; i++)
		launch(stream, blocks);
	CUevent to = record(stream);
	open_streams();
	return elapsed_and_destroy(from, to);
}

static bool is_near(double got, double want)
{
	if (got > want * 0.97 && got < want * 1.03)
		return true;
	fprintf(stderr, "%.3f ms, not about %.3f ms\n", got, want);
	return false;
}

// Runs a part of a test in a child, because each part uses another simulated node or another environment.
static pid_t start(void (*part)(void))
{
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		part();
		_exit(0);
	}
	return child;
}

static void check_end(pid_t child)
{
	CHECK_CHILD(child);
}

static void wait_until_loaded(int least)
{
	for (int i = 0; atomic_load(&shared->loaded) < least; i++) {
		CHECK(i < 30000);
		pause_ms(1);
	}
}

static unsigned load_blocks;
static void keep_loaded(void)
{
	open_device();
	for (int i = 0; !atomic_load(&shared->stop); i++) {
		launch(stream, load_blocks);
		atomic_store(&shared->loaded, i);
	}
	CU(cuStreamSynchronize(stream));
}

// Checks that 500 kernels of `blocks` blocks take about `want_ms` beside a process with kernels of `others` blocks.
static void measure_beside(unsigned blocks, unsigned others, double want_ms)
{
	load_blocks = others;
	pid_t child = start(keep_loaded);
	wait_until_loaded(100);
	open_device();
	bool near = is_near(measure(blocks, 500), want_ms);
	atomic_store(&shared->stop, 1);
	check_end(child);
	CHECK(near);
}

static void beside_a_context(void)
{
	measure_beside(4, 4, 200 / 0.9492);
}
static void beside_a_client(void)
{
	measure_beside(4, 4, 200);
}
static void small_beside_small(void)
{
	measure_beside(1, 3, 100);
}

TEST(context_switches_take_time)
{
	use_node(NODE, COST);
	check_end(start(beside_a_context));
}

TEST(clients_of_mps_share_one_context)
{
	use_node(NODE ",mps=1", COST);
	check_end(start(beside_a_client));
	use_node(NODE ",mps=1", COST);
	check_end(start(small_beside_small));
}

static void use_half(void)
{
	int sms = 0;

	open_device();
	CU(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	CHECK_INT(sms, 2);
	CHECK(is_near(measure(4, 100), 2 * 20));
	CHECK(is_near(measure(3, 100), 1.5 * 20));
	CHECK(is_near(measure(2, 100), 20));
}

static int init(void)
{
	return cuInit(0);
}

static void check_init_fails(void)
{
	CHECK_INT(init(), CUDA_ERROR_INVALID_VALUE);
}

TEST(the_active_thread_percentage_limits_multiprocessors)
{
	use_node(NODE ",mps=1", COST);
	setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50", 1);
	check_end(start(use_half));
	for (int i = 0; i < 4; i++) {
		setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", (const char *[]){"0", "101", "half", "-5"}[i], 1);
		check_end(start(check_init_fails));
	}
	unsetenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
}

static void fail_with_others(void)
{
	open_device();
	launch(stream, 4);
	CU(cuStreamSynchronize(stream));
	atomic_fetch_add(&shared->loaded, 1);
	while (!atomic_load(&shared->stop))
		pause_ms(1);
	CU(cuLaunchKernel(traps, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	GIVES(cuStreamSynchronize(stream), CUDA_ERROR_LAUNCH_FAILED);
}

static void wait_on_device(void)
{
	open_device();
	CU(cuLaunchKernel(longer, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	for (int i = 0; i < 1000; i++)
		CU(cuLaunchKernel(longer, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	atomic_fetch_add(&shared->loaded, 1);
	GIVES(cuStreamSynchronize(stream), CUDA_ERROR_LAUNCH_FAILED); // another client's fault ends this 50 s wait
}

static void poll_for_failure(void)
{
	int version;

	open_device();
	atomic_fetch_add(&shared->loaded, 1);
	for (int i = 0; cuStreamQuery(stream) == CUDA_SUCCESS; i++) {
		CHECK(i < 30000);
		pause_ms(1);
	}
	GIVES(cuStreamQuery(stream), CUDA_ERROR_LAUNCH_FAILED);
	CU(cuDriverGetVersion(&version));
}

static void use_device(void)
{
	open_device();
	CHECK(is_near(measure(4, 100), 20));
}

TEST(a_fault_of_one_client_fails_all)
{
	pid_t children[3];

	use_node(NODE ",mps=1", COST);
	children[0] = start(fail_with_others);
	children[1] = start(wait_on_device);
	children[2] = start(poll_for_failure);
	wait_until_loaded(3);
	atomic_store(&shared->stop, 1);
	for (int i = 0; i < 3; i++)
		check_end(children[i]);
	check_end(start(use_device)); // later clients work
}

// Copies 20 times 1 MiB in each direction, in two streams that may begin at different times. Stores the time of the
// slower direction in *ret_longest_ms, and the time from the first begin to the last end in *ret_all_ms.
static void copy_both_ways(double *ret_longest_ms, double *ret_all_ms)
{
	CUdeviceptr memory;
	CUstream streams[2];
	CUevent from[2], to[2];
	void *host;

	open_device();
	CU(cuMemHostAlloc(&host, 2 * MIB, 0));
	CU(cuMemAlloc_v2(&memory, 2 * MIB));
	for (int i = 0; i < 2; i++) {
		CU(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
		hold_stream(streams[i]);
	}
	for (int k = 0; k <= 20; k++) {
		CU(cuMemcpyHtoDAsync_v2(memory, host, MIB, streams[0]));
		CU(cuMemcpyDtoHAsync_v2((char *)host + MIB, memory + MIB, MIB, streams[1]));
		for (int i = 0; i < 2 && k == 0; i++)
			from[i] = record(streams[i]); // recorded after the first copies, so on a busy device
	}
	for (int i = 0; i < 2; i++)
		to[i] = record(streams[i]);
	open_streams();
	*ret_longest_ms = *ret_all_ms = 0;
	for (int i = 0; i < 4; i++) {
		double ms = elapsed(from[i / 2], to[i % 2]);
		*ret_all_ms = ms > *ret_all_ms ? ms : *ret_all_ms;
		if (i / 2 == i % 2)
			*ret_longest_ms = ms > *ret_longest_ms ? ms : *ret_longest_ms;
	}
}

#define COPY_MS (20 * 1000.0 / 1024) // 20 copies of 1 MiB at 1 GiB per second

static void copy_on_two_engines(void)
{
	double longest, all;

	copy_both_ways(&longest, &all);
	CHECK(is_near(longest, COPY_MS));
}

static void copy_on_one_engine(void)
{
	double longest, all;

	copy_both_ways(&longest, &all);
	CHECK(all > 1.97 * COPY_MS);
}

TEST(copies_use_one_or_two_engines)
{
	use_node(NODE, COST);
	check_end(start(copy_on_two_engines));
	use_node(NODE ",copyengines=1", COST);
	check_end(start(copy_on_one_engine));
}

// Measures 20 copies of 1 MiB in one direction.
static double copy_one_way(bool to_host)
{
	CUdeviceptr memory;
	CUevent from;
	void *host;

	CU(cuMemHostAlloc(&host, MIB, 0));
	CU(cuMemAlloc_v2(&memory, MIB));
	hold_stream(stream);
	for (int i = 0; i <= 20; i++) {
		CU(to_host ? cuMemcpyDtoHAsync_v2(host, memory, MIB, stream)
			   : cuMemcpyHtoDAsync_v2(memory, host, MIB, stream));
		if (i == 0)
			from = record(stream);
	}
	CUevent to = record(stream);
	open_streams();
	return elapsed_and_destroy(from, to);
}

static void copy_at_two_rates(void)
{
	open_device();
	CHECK(is_near(copy_one_way(true), COPY_MS / 4));
	CHECK(is_near(copy_one_way(false), COPY_MS / 2));
}

TEST(each_direction_has_its_rate)
{
	use_node(NODE, COST ",dtoh=4G,htod=2G");
	check_end(start(copy_at_two_rates));
}

// ---- calls ----------------------------------------------------------------------------------

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

// Copies memory to the host in chunks, and unmaps each chunk after its copy. The device must continue to copy
// meanwhile.
static void unmap_beside_copies(void)
{
	enum { CHUNKS = 4 };
	const size_t chunk = 8 * MIB;
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE, .location = wanted.location};
	CUmemGenericAllocationHandle handles[CHUNKS];
	CUevent copied[CHUNKS];
	CUdeviceptr base;
	char *host;

	open_device();
	CU(cuMemHostAlloc((void **)&host, CHUNKS * chunk, 0));
	CU(cuMemAddressReserve(&base, CHUNKS * chunk, 0, 0, 0));
	double begin = now_ms();
	for (int i = 0; i < CHUNKS; i++) {
		CU(cuMemCreate(&handles[i], chunk, &wanted, 0));
		CU(cuMemMap(base + i * chunk, chunk, 0, handles[i], 0));
	}
	CHECK(now_ms() - begin >= CHUNKS * (4 + 3));
	CU(cuMemSetAccess(base, CHUNKS * chunk, &access, 1));
	hold_stream(stream);
	for (int i = 0; i < CHUNKS; i++) {
		CU(cuMemcpyDtoHAsync_v2(host + i * chunk, base + i * chunk, chunk, stream));
		copied[i] = record(stream);
	}
	open_streams();
	begin = now_ms();
	for (int i = 0; i < CHUNKS; i++) {
		CU(cuEventSynchronize(copied[i]));
		CU(cuMemUnmap(base + i * chunk, chunk));
		CU(cuMemRelease(handles[i]));
	}
	CHECK(now_ms() - begin >= CHUNKS * (30 + 20));
	CHECK(is_near(elapsed(copied[0], copied[CHUNKS - 1]), (CHUNKS - 1) * 8 * 1000.0 / 1024));
}

TEST(calls_take_the_configured_time)
{
	use_node(NODE, COST ",call:cuMemCreate=4ms,call:cuMemMap=3ms,call:cuMemUnmap=30ms,call:cuMemRelease=20ms");
	check_end(start(unmap_beside_copies));
}

// ---- graphs ---------------------------------------------------------------------------------

// Creates a graph of consecutive kernels. Two events are recorded around the kernels in the middle.
static CUgraphExec make_graph(unsigned kernels, CUevent events[2])
{
	CUDA_KERNEL_NODE_PARAMS params = {full, 4, 1, 1, 32, 1, 1};
	CUgraph graph;
	CUgraphExec exec;
	CUgraphNode last = NULL, node;

	CU(cuGraphCreate(&graph, 0));
	for (unsigned i = 0; i < kernels; i++) {
		if (events && (i == kernels / 4 || i == kernels * 3 / 4)) {
			CU(cuGraphAddEventRecordNode(&node, graph, &last, 1, events[i > kernels / 2]));
			last = node;
		}
		CU(cuGraphAddKernelNode_v2(
			&node, graph, &last, last != NULL,
			&(CUDA_KERNEL_NODE_PARAMS_v2){params.func, params.gridDimX, 1, 1, params.blockDimX, 1, 1}));
		last = node;
	}
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphDestroy(graph));
	return exec;
}

static void measure_graph(unsigned kernels, bool has_events)
{
	CUevent events[2];

	open_device();
	for (int i = 0; i < 2; i++)
		CU(cuEventCreate(&events[i], 0));
	CUgraphExec exec = make_graph(kernels, has_events ? events : NULL);
	hold_stream(stream);
	launch(stream, 4);
	CUevent from = record(stream);
	for (int i = 0; i < 3; i++)
		CU(cuGraphLaunch(exec, stream));
	CUevent to = record(stream);
	open_streams();
	CHECK(is_near(elapsed_and_destroy(from, to), 3 * kernels * 0.2));
	if (has_events)
		CHECK(is_near(elapsed_and_destroy(events[0], events[1]), kernels * 0.1));
	CU(cuGraphExecDestroy(exec));
}

static void measure_small_graph(void)
{
	measure_graph(100, true);
}
static void measure_large_graph(void)
{
	measure_graph(700, false); // a graph of so many kernels is a single piece of work for the device
}

TEST(graphs_take_the_time_of_their_kernels)
{
	use_node(NODE, COST);
	check_end(start(measure_small_graph));
	check_end(start(measure_large_graph));
}

static void measure_conditional_graph(void)
{
	CUgraph graph;
	CUgraphExec exec;
	CUgraphNode node, inside;
	CUgraphConditionalHandle handle;
	CUcontext context;

	open_device();
	CU(cuCtxGetCurrent(&context));
	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphConditionalHandleCreate(&handle, graph, context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
	CUgraphNodeParams params = {
		.type = CU_GRAPH_NODE_TYPE_CONDITIONAL,
		.conditional = {.handle = handle, .type = CU_GRAPH_COND_TYPE_IF, .size = 1, .ctx = context}};
	CU(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &params));
	for (int i = 0; i < 50; i++)
		CU(cuGraphAddKernelNode_v2(&inside, params.conditional.phGraph_out[0], NULL, 0,
					   &(CUDA_KERNEL_NODE_PARAMS_v2){full, 4, 1, 1, 32, 1, 1}));
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	// The conditional node's body may have to wait for the host, so only the shortest of several runs counts.
	double least = 1e9;
	for (int run = 0; run < 10 && least > 50 * 0.2 * 1.03; run++) {
		hold_stream(stream);
		launch(stream, 4);
		CUevent from = record(stream);
		CU(cuGraphLaunch(exec, stream));
		CUevent to = record(stream);
		open_streams();
		double took = elapsed_and_destroy(from, to);
		least = took < least ? took : least;
	}
	CHECK(is_near(least, 50 * 0.2));
}

TEST(a_conditional_node_takes_the_time_of_its_body)
{
	use_node(NODE, COST);
	check_end(start(measure_conditional_graph));
}

// ---- limits and refusals --------------------------------------------------------------------

static _Atomic int opened;
static void wait_at_gate(void *data)
{
	while (!atomic_load(&opened))
		pause_ms(1);
}

static void use_many_streams(void)
{
	enum { STREAMS = 256 };
	CUstream streams[STREAMS + 1];

	open_device();
	for (int i = 0; i <= STREAMS; i++)
		CU(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < STREAMS; i++)
		CU(cuLaunchHostFunc(streams[i], wait_at_gate, NULL));
	GIVES(cuLaunchKernel(full, 1, 1, 1, 1, 1, 1, 0, streams[STREAMS], NULL, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	atomic_store(&opened, 1);
	CU(cuCtxSynchronize());
	launch(streams[STREAMS], 1); // the other streams have no work any more, so their channels (queues) are free
	CU(cuCtxSynchronize());
}

TEST(too_many_busy_streams_are_refused)
{
	use_node(NODE, COST);
	check_end(start(use_many_streams));
}

TEST(invalid_costs_are_refused)
{
	static const char *const invalid[] = {"kernel",	  "kernel=",	"kernel=fast",		"kernel:=5us",
					      "host=0",	  "host=quick", "colour=red",		"kernel=5us,,",
					      "dtoh=0",	  "htod=",	"call:cuMemUnmap=soon", "call:cuUnmap=5us",
					      "call:=5us"};

	for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++) {
		use_node(NODE, invalid[i]);
		check_end(start(check_init_fails));
	}
	use_node("memory=256M", COST); // VIRGATE_SIM_COST is invalid unless VIRGATE_SIM has a slice
	check_end(start(check_init_fails));
}

// Exits while work is queued. The device must drop that work, and free its channel.
static void leave_work(void)
{
	open_device();
	for (int i = 0; i < 100; i++)
		CU(cuLaunchKernel(longer, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL)); // 5 s
}

static void use_after_others(void)
{
	open_device();
	for (int i = 0; !is_near(measure(4, 100), 20); i++)
		CHECK(i < 20);
}

TEST(work_of_an_ended_process_is_removed)
{
	use_node(NODE, COST);
	check_end(start(leave_work));
	check_end(start(use_after_others));
}
