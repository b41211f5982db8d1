// Tests how processes share the device's time. Contexts take turns on the multiprocessors in slices of about 2 ms.
// Copies between host and device run beside kernels. Queued work continues after its process stops.
#include "burn.h"

// ---- the child processes ----------------------------------------------------------------------

// Keeps the device's queue full until the parent ends it.
CHILD(keep_loaded)
{
	join_page(argument);
	struct burn burn = {need_function(burns, "burn200"), atomic_load(&page->words[0])};
	for (unsigned i = 0; !atomic_load(&page->stop); i++) {
		launch(&burn);
		atomic_store(&page->loaded, i);
	}
	WORKS(cuStreamSynchronize(stream));
}

CHILD(keep_loaded_with_long_kernels)
{
	join_page(argument);
	struct burn burn = {need_function(burns, "burn50000"), atomic_load(&page->words[0])};
	launch(&burn);
	for (unsigned i = 1; !atomic_load(&page->stop); i++) {
		CUevent event = record();
		launch(&burn); // one kernel is always queued
		atomic_store(&page->loaded, i);
		WORKS(cuEventSynchronize(event));
		WORKS(cuEventDestroy(event));
	}
	WORKS(cuStreamSynchronize(stream));
}

// Kinds of copies. The parent writes one into words[1], and the child makes such copies.
enum { FROM_HOST, TO_HOST, ON_DEVICE, SET };
CHILD(keep_copying)
{
	void *host;
	CUdeviceptr memory;

	join_page(argument);
	unsigned what = atomic_load(&page->words[1]);
	NEED(cuMemHostAlloc(&host, MiB, 0));
	NEED(cuMemAlloc(&memory, 2 * MiB));
	for (unsigned i = 0; !atomic_load(&page->stop); i++) {
		WORKS(what == FROM_HOST	  ? cuMemcpyHtoDAsync(memory, host, MiB, stream)
		      : what == TO_HOST	  ? cuMemcpyDtoHAsync(host, memory, MiB, stream)
		      : what == ON_DEVICE ? cuMemcpyDtoDAsync(memory + MiB, memory, MiB, stream)
					  : cuMemsetD32Async(memory, i, MiB / 4, stream));
		atomic_store(&page->loaded, i);
	}
	WORKS(cuStreamSynchronize(stream));
}

static void stop_tenant(pid_t child)
{
	atomic_store(&page->stop, 1);
	EQUALS(wait_child(child), 0);
}

// ---- time slices ------------------------------------------------------------------------------

CONFORM(an_idle_device_takes_what_a_kernel_takes)
{
	struct burn burn;

	need_sharing();
	burn = need_burn("burn200");
	double took = measure(&burn, 500);
	BETWEEN(took, 500 * 190, 500 * 220); // includes the pauses between the kernels
}

CONFORM(two_processes_take_turns)
{
	struct burn burn;

	need_sharing();
	burn = need_burn("burn200");
	double alone = measure(&burn, 500);
	atomic_store(&page->words[0], burn.rounds);
	pid_t child = start_tenant("keep_loaded");
	wait_until(&page->loaded, 100);
	double beside = measure(&burn, 900);
	stop_tenant(child);
	double part = 900.0 / 500 * alone / beside * 1000; // in thousandths
	// half of the time, minus the time for switching between the contexts
	BETWEEN(part, 440, 510);
}

// Both processes get slices of equal length, whatever the length of their kernels.
CONFORM(long_kernels_are_interrupted)
{
	struct burn burn, warm, other;

	need_sharing();
	burn = need_burn("burn3000");
	warm = need_burn("burn50");
	other = need_burn("burn50000");
	atomic_store(&page->words[0], other.rounds);
	pid_t child = start_tenant("keep_loaded_with_long_kernels");
	wait_until(&page->loaded, 1);
	double least = 1e9, most = 0;
	for (int i = 0; i < 10; i++) {
		hold_stream();
		launch(&warm); // the process's time slice begins with this kernel
		CUevent from = record(), to;
		launch(&burn);
		to = record();
		open_stream();
		double lost = between(from, to) - 3000;
		least = lost < least ? lost : least;
		most = lost > most ? lost : most;
	}
	BETWEEN(least, 2000, 2800); // a time slice of the other process, and two switches
	BETWEEN(most, 2000, 2800);
	stop_tenant(child);
}

CONFORM(a_short_kernel_waits_for_one_slice)
{
	struct burn burn, other;
	double least = 1e9;

	need_sharing();
	burn = need_burn("burn50");
	other = need_burn("burn50000");
	atomic_store(&page->words[0], other.rounds);
	pid_t child = start_tenant("keep_loaded_with_long_kernels");
	wait_until(&page->loaded, 1);
	for (int i = 0; i < 30; i++) {
		hold_stream(); // so that the event is queued before the kernel ends
		launch(&burn);
		CUevent from = record();
		open_stream();
		// this stream becomes empty, so the other process's time slice begins
		WORKS(cuStreamSynchronize(stream));
		launch(&burn);
		double took = between(from, record());
		least = took < least ? took : least;
	}
	stop_tenant(child);
	BETWEEN(least, 2200, 2800); // a time slice of the other process, and two switches
}

// ---- graphs ---------------------------------------------------------------------------------

enum { GRAPH_KERNELS = 50 };

CONFORM(graphs_take_what_their_kernels_take)
{
	struct burn burn;
	CUgraph graph;
	CUgraphExec exec;

	need_sharing();
	burn = need_burn("burn200");
	NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	for (int i = 0; i < GRAPH_KERNELS; i++)
		launch(&burn);
	NEED(cuStreamEndCapture(stream, &graph));
	NEED(cuGraphInstantiateWithFlags(&exec, graph, 0));
	WORKS(cuGraphLaunch(exec, stream)); // the first launch uploads the graph
	WORKS(cuStreamSynchronize(stream));
	hold_stream();
	launch(&burn);
	CUevent from = record(), to;
	for (int i = 0; i < 4; i++)
		WORKS(cuGraphLaunch(exec, stream));
	to = record();
	open_stream();
	BETWEEN(between(from, to), 4 * GRAPH_KERNELS * 190, 4 * GRAPH_KERNELS * 220);
	WORKS(cuGraphExecDestroy(exec));
	WORKS(cuGraphDestroy(graph));
}

// ---- utilization by NVML --------------------------------------------------------------------

static unsigned used_percent(void)
{
	static int (*get)(void *, unsigned[2]), (*find)(unsigned, void **);
	static void *nvml_device;
	// utilization rates: the percent of time in which multiprocessors and memory were in use
	unsigned rates[2] = {0};

	if (!get) {
		void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
		int (*init)(void) = library ? (int (*)(void))dlsym(library, "nvmlInit_v2") : NULL;
		if (!init || init() != 0)
			SKIP("no NVML");
		find = (int (*)(unsigned, void **))dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
		get = (int (*)(void *, unsigned[2]))dlsym(library, "nvmlDeviceGetUtilizationRates");
		EQUALS(find(0, &nvml_device), 0);
	}
	EQUALS(get(nvml_device, rates), 0);
	return rates[0];
}

static void wait_until_used(unsigned least, unsigned most)
{
	unsigned used = used_percent();

	for (double end = seconds() + 20; (used < least || used > most) && seconds() < end; usleep(50000))
		used = used_percent();
	BETWEEN(used, least, most);
}

CONFORM(nvml_shows_how_busy_the_device_is)
{
	struct burn burn;

	need_sharing();
	burn = need_burn("burn200");
	wait_until_used(0, 10);
	atomic_store(&page->words[0], burn.rounds);
	pid_t child = start_tenant("keep_loaded");
	wait_until(&page->loaded, 100);
	wait_until_used(80, 100);
	stop_tenant(child);
	wait_until_used(0, 10);
}

// ---- copies ---------------------------------------------------------------------------------

// Returns how fast the kernel runs during the child's copies: the time that it takes alone, divided by its time during
// the copies, in thousandths.
static double part_beside(const struct burn *burn, double alone, unsigned what)
{
	memset((void *)page, 0, sizeof *page);
	atomic_store(&page->words[1], what);
	pid_t child = start_tenant("keep_copying");
	wait_until(&page->loaded, 20);
	double beside = measure(burn, 500);
	stop_tenant(child);
	return alone / beside * 1000;
}

CONFORM(copies_to_and_from_the_host_run_beside_kernels)
{
	struct burn burn;

	need_sharing();
	burn = need_burn("burn200");
	double alone = measure(&burn, 500);
	BETWEEN(part_beside(&burn, alone, FROM_HOST), 950, 1050);
	BETWEEN(part_beside(&burn, alone, TO_HOST), 950, 1050);
}

CONFORM(copies_on_the_device_and_memsets_take_turns_with_kernels)
{
	struct burn burn;

	need_sharing();
	burn = need_burn("burn200");
	double alone = measure(&burn, 500);
	BETWEEN(part_beside(&burn, alone, ON_DEVICE), 400, 850);
	BETWEEN(part_beside(&burn, alone, SET), 400, 900);
}

// ---- kernels that wait for each other -------------------------------------------------------

enum { MEETINGS = 10 };

// Queues MEETINGS kernels. In each, this process and the other process wait for each other.
static void queue_meetings(unsigned mine)
{
	CUdeviceptr own = page_address + 4 * mine, other = page_address + 4 * !mine;
	CUfunction meet = need_function(burns, "meet");

	for (unsigned value = 1; value <= MEETINGS; value++) {
		void *arguments[] = {&own, &other, &value};
		NEED(cuLaunchKernel(meet, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
	}
}

CHILD(meet_the_parent)
{
	join_page(argument);
	struct burn warm = {need_function(burns, "burn50"), 1};
	hold_stream();
	launch(&warm);
	CUevent from = record(), to;
	queue_meetings(1);
	to = record();
	open_stream();
	// The kernels of the two processes never run at the same time. In its time slice, a process ends the kernels
	// whose counterparts in the other process have already begun. Its next kernel then spins until the time slice
	// ends.
	HOLDS(between(from, to) > MEETINGS / 2 * 1200);
}

CONFORM(kernels_that_wait_for_each_other_go_on)
{
	need_sharing();
	queue_meetings(0);
	GIVES(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	EQUALS(wait_child(start_tenant("meet_the_parent")), 0);
	WORKS(cuStreamSynchronize(stream));
	EQUALS(atomic_load(&page->words[0]), MEETINGS);
	EQUALS(atomic_load(&page->words[1]), MEETINGS);
}

// ---- streams --------------------------------------------------------------------------------

// Measures kernels while another stream of the process is blocked. Such a stream uses no GPU time, whether it waits for
// a value or for a host function. So the kernels are as fast as without it.
static double measure_beside(CUstream held, const struct burn *burn)
{
	GIVES(cuStreamQuery(held), CUDA_ERROR_NOT_READY);
	double took = measure(burn, 200);
	GIVES(cuStreamQuery(held), CUDA_ERROR_NOT_READY);
	return took;
}

static void CUDA_CB wait_for_page(void *data)
{
	while (!atomic_load(&page->opens))
		usleep(100);
}

CONFORM(a_held_stream_does_not_hold_the_device)
{
	CUdeviceptr word;
	struct burn burn;
	CUstream held;

	need_sharing();
	word = page_address + offsetof(struct page, opens);
	burn = need_burn("burn200");
	double alone = measure(&burn, 200);
	NEED(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
	WORKS(cuStreamWaitValue32(held, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
	WORKS(cuLaunchHostFunc(held, wait_for_page, NULL));
	BETWEEN(measure_beside(held, &burn), alone * 0.95, alone * 1.05);
	atomic_store(&page->opens, 1);
	WORKS(cuStreamSynchronize(held));
	atomic_store(&page->opens, 0);
	WORKS(cuLaunchHostFunc(held, wait_for_page, NULL));
	BETWEEN(measure_beside(held, &burn), alone * 0.95, alone * 1.05);
	atomic_store(&page->opens, 1);
	WORKS(cuStreamSynchronize(held));
	WORKS(cuStreamDestroy(held));
}

// ---- stopped and killed processes -----------------------------------------------------------

enum { QUEUED = 900 }; // kernels of 1 ms

CHILD(queue_and_wait)
{
	join_page(argument);
	struct burn burn = {need_function(burns, "burn1000"), atomic_load(&page->words[0])};
	hold_stream();
	launch(&burn);
	CUevent from = record();
	for (unsigned i = 1; i < QUEUED; i++)
		launch(&burn);
	CUevent to = record();
	open_stream();
	// waits until the stream is open, since the simulated device opens it only while this process runs
	WORKS(cuEventSynchronize(from));
	atomic_store(&page->queued, 1);
	wait_until(&page->opens, 1); // the parent stops this process here
	double took = between(from, to);
	// The device ran the kernels while this process was stopped, perhaps beside the parent's kernels.
	BETWEEN(took, QUEUED * 900, QUEUED * 2600);
}

// Waits until no other process uses the device. Returns the time this took, in microseconds of the device.
static double wait_until_alone(const struct burn *burn, double alone, CUevent from)
{
	double part;

	do {
		double took = measure(burn, 100);
		part = alone / took;
	} while (part < 0.9);
	return between(from, record());
}

static pid_t start_queue(struct burn *ret_burn, double *ret_alone)
{
	struct burn other;

	need_sharing();
	*ret_burn = need_burn("burn200");
	other = need_burn("burn1000");
	*ret_alone = measure(ret_burn, 100);
	atomic_store(&page->words[0], other.rounds);
	pid_t child = start_tenant("queue_and_wait");
	wait_until(&page->queued, 1);
	return child;
}

CONFORM(work_of_a_stopped_process_goes_on)
{
	struct burn burn;
	double alone;
	pid_t child = start_queue(&burn, &alone);

	kill(child, SIGSTOP);
	CUevent from = record();
	BETWEEN(measure(&burn, 100), alone * 1.6, alone * 2.6); // the stopped process still gets time slices
	double took = wait_until_alone(&burn, alone, from);
	HOLDS(took > QUEUED * 500); // the device still executed the queued kernels of the stopped process
	double stopped = seconds();
	// The child checks that the device's time between its two events is at most 2.34 s. Keep the child stopped for
	// 3 s more, to check that time without work does not count.
	while (seconds() - stopped < 3)
		usleep(10000);
	atomic_store(&page->opens, 1);
	kill(child, SIGCONT);
	EQUALS(wait_child(child), 0);
}

CONFORM(work_of_a_killed_process_ends)
{
	struct burn burn;
	double alone;
	pid_t child = start_queue(&burn, &alone);

	BETWEEN(measure(&burn, 100), alone * 1.6, alone * 2.6);
	CUevent from = record();
	kill(child, SIGKILL);
	EQUALS(wait_child(child), 128 + SIGKILL);
	double took = wait_until_alone(&burn, alone, from);
	HOLDS(took < 500000); // less than the 900 ms of kernels that the killed process had queued
}
