// Tests all driver functions of turns.def at the gate, where launches wait for their vGPU's turn. The test plays the
// arbiter, which gives turns.
#include <pthread.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "tenant.h"
#include "turn/page.h"

#include "echo_driver.h"

typedef CUresult function(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
			  uint64_t, uint64_t);

enum class { KERNEL, EXTENDED, OBJECT, BYTES, CALL, COPY, COPY_2D, COPY_3D, WAIT, WAIT_ALL, PASS };
enum { NONE = -1 };
static const struct row {
	const char *abi;
	enum class class;
	int stream;
} rows[] = {
#define TURN(abi, class, stream, shape) {#abi, class, stream},
#include "shim/turns.def"
};
enum { ROWS = sizeof rows / sizeof *rows };

static struct echo *echo;
static void (*capture)(bool), (*keep_busy)(bool);
static struct turn_page *page;
static const struct turn_slot *slot;

static void *control(const char *name)
{
	void *found = dlsym(dlopen(getenv("VIRGATE_DRIVER"), RTLD_NOW), name);

	CHECK(found);
	return found;
}

static void start(void)
{
	echo = ((struct echo * (*)(void)) control("echo_last"))();
	capture = (void (*)(bool))control("echo_capture");
	keep_busy = (void (*)(bool))control("echo_keep_busy");
	CHECK_INT(cuInit(0), CUDA_SUCCESS);
	echo->ignore_queries = true;
	page = vg_ledger_turn_page(tenant_ledger);
	slot = vg_ledger_turn_slots(tenant_ledger);
}

static void order(enum turn_state state, unsigned int flags)
{
	static uint32_t number;

	page->window_us = 1000000000;
	page->patience_us = 20000;
	page->until_ns = UINT64_MAX;
	page->beat_ns = vg_clock_monotonic_ns();
	atomic_store(&page->word, turn_word(++number, state, flags));
}

// Calls the driver function of a row of turns.def. The arguments are different for each row. Functions that take a
// structure get one.
static CUresult call(const struct row *row, uint64_t first, uint64_t second)
{
	static CUlaunchConfig config = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1};
	static CUDA_MEMCPY2D two = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .dstMemoryType = CU_MEMORYTYPE_DEVICE};
	static CUDA_MEMCPY3D three = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .dstMemoryType = CU_MEMORYTYPE_DEVICE};
	uint64_t a[ECHO_ARGUMENTS];

	for (unsigned int i = 0; i < ECHO_ARGUMENTS; i++)
		a[i] = ECHO_DEVICE + (uint64_t)(row - rows) * 0x10000 + i;
	a[0] = first ? first : a[0];
	a[1] = second ? second : a[1];
	if (row->class == EXTENDED)
		a[0] = (uintptr_t)&config;
	if (row->class == COPY_2D)
		a[0] = (uintptr_t)&two;
	if (row->class == COPY_3D)
		a[0] = (uintptr_t)&three;
	if (row->stream != NONE && row->class != EXTENDED)
		a[row->stream] = (uintptr_t)&config;
	CUresult result = ((function *)dlsym(RTLD_DEFAULT, row->abi))(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7],
								      a[8], a[9], a[10]);
	// The interposer makes queries, too. So the stored arguments of a query may be those of the interposer.
	if (strstr(row->abi, "Query"))
		return result;
	CHECK_STR(echo->entry, row->abi);
	// cuCtxSynchronize has no arguments.
	if (strcmp(row->abi, "cuCtxSynchronize") != 0)
		CHECK(echo->arguments[0] == a[0]);
	if (row->stream != NONE)
		CHECK(echo->arguments[row->stream] == a[row->stream]);
	return result;
}

static bool is_work(enum class class)
{
	return class != WAIT && class != WAIT_ALL && class != PASS;
}

static void every_row_body(void)
{
	static const struct {
		enum turn_state state;
		unsigned int flags;
		bool counted;
	} orders[] = {{TURN_OPEN, 0, false}, {TURN_HELD, TURN_WANTED, true}};

	start();
	for (unsigned int i = 0; i < sizeof orders / sizeof *orders; i++) {
		if (orders[i].counted)
			order(orders[i].state, orders[i].flags);
		for (const struct row *row = rows; row < rows + ROWS; row++) {
			uint64_t before = slot->launches;
			CHECK_INT(call(row, 0, 0), CUDA_SUCCESS);
			CHECK_INT(slot->launches - before, orders[i].counted && is_work(row->class));
		}
	}
}

TEST(every_row_reaches_the_driver_and_work_is_counted)
{
	TENANT(64 * MIB, 0, every_row_body);
}

static const struct row *row_of(const char *abi)
{
	for (const struct row *row = rows; row < rows + ROWS; row++)
		if (strcmp(row->abi, abi) == 0)
			return row;
	FAIL("no row %s", abi);
}

static void host_copies_body(void)
{
	const struct row *copy = row_of("cuMemcpyAsync");

	start();
	order(TURN_CLOSED, TURN_WANTED); // if the call waited at the closed gate, it would hang now
	CHECK_INT(call(copy, 0x1000, 0), CUDA_SUCCESS);
	CHECK_INT(call(copy, 0, 0x1000), CUDA_SUCCESS);
	for (const struct row *row = rows; row < rows + ROWS; row++)
		if (!is_work(row->class))
			CHECK_INT(call(row, 0, 0), CUDA_SUCCESS);
	CHECK_INT(slot->launches, 0);
	CHECK_INT(slot->waiting, 0);
}

TEST(copies_of_host_memory_pass_a_closed_gate)
{
	TENANT(64 * MIB, 0, host_copies_body);
}

static uint64_t copies(enum turn_copy copy)
{
	return page->copies[copy].count;
}

// Copies 2 MiB, and checks that the copy was counted for this direction only. With direction -1, the copy must not be
// counted.
static void check_copy(const char *abi, int direction)
{
	uint64_t before[TURN_COPIES], bytes[TURN_COPIES];
	const struct row *row = row_of(abi);

	for (int i = 0; i < TURN_COPIES; i++) {
		before[i] = copies(i);
		bytes[i] = page->copies[i].bytes;
	}
	CHECK_INT(
		((function *)dlsym(RTLD_DEFAULT, row->abi))(ECHO_DEVICE, ECHO_DEVICE, 2 * MIB, 0, 0, 0, 0, 0, 0, 0, 0),
		CUDA_SUCCESS);
	for (int i = 0; i < TURN_COPIES; i++) {
		CHECK_INT(copies(i) - before[i], i == direction);
		CHECK_INT(page->copies[i].bytes - bytes[i], i == direction ? 2 * MIB : 0);
	}
}

static void traced_copies_body(void)
{
	CUDA_MEMCPY2D two = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			     .WidthInBytes = 100,
			     .Height = 3};

	start();
	order(TURN_OPEN, TURN_COUNT);
	check_copy("cuMemcpyHtoD_v2", -1); // no trace is being recorded, so copies are not counted
	page->traced = 1;
	check_copy("cuMemcpyHtoD_v2", TURN_COPY_IN);
	check_copy("cuMemcpyHtoDAsync_v2", TURN_COPY_IN);
	check_copy("cuMemcpyDtoH_v2", TURN_COPY_OUT);
	check_copy("cuMemcpyDtoHAsync_v2_ptsz", TURN_COPY_OUT);
	check_copy("cuMemcpyDtoD_v2_ptds", TURN_COPY_WITHIN);
	check_copy("cuMemcpyAsync", TURN_COPY_WITHIN);
	check_copy("cuStreamQuery", -1);
	CHECK_INT(cuMemcpy(0x1000, ECHO_DEVICE, 7), CUDA_SUCCESS);
	CHECK_INT(copies(TURN_COPY_OUT), 3);
	CHECK_INT(cuMemcpy(0x1000, 0x2000, 7), CUDA_SUCCESS); // within the host
	CHECK_INT(copies(TURN_COPY_IN) + copies(TURN_COPY_OUT) + copies(TURN_COPY_WITHIN), 7);
	uint64_t before = page->copies[TURN_COPY_IN].bytes;
	CHECK_INT(cuMemcpy2D_v2(&two), CUDA_SUCCESS);
	CHECK_INT(page->copies[TURN_COPY_IN].bytes - before, 300);
}

TEST(copies_are_counted_while_a_trace_is_recorded)
{
	TENANT(64 * MIB, 0, traced_copies_body);
}

// While the gate is open, a thread adds 64 to the number of launches at every 64th launch. Copies from or to host
// memory between the launches must not change the number.
static void mixed_body(void)
{
	enum { PAIRS = 256 };
	const struct row *kernel = row_of("cuLaunchKernel"), *in = row_of("cuMemcpyHtoDAsync_v2");
	const struct row *within = row_of("cuMemcpyDtoDAsync_v2");

	start();
	order(TURN_OPEN, TURN_COUNT);
	for (int i = 0; i < PAIRS; i++) {
		CHECK_INT(call(kernel, 0, 0), CUDA_SUCCESS);
		CHECK_INT(call(in, 0, 0), CUDA_SUCCESS);
	}
	CHECK_INT(slot->launches, PAIRS);
	for (int i = 0; i < PAIRS; i++) {
		CHECK_INT(call(in, 0, 0), CUDA_SUCCESS);
		CHECK_INT(call(kernel, 0, 0), CUDA_SUCCESS);
	}
	CHECK_INT(slot->launches, 2 * PAIRS);
	for (int i = 0; i < PAIRS; i++) {
		CHECK_INT(call(within, 0, 0), CUDA_SUCCESS);
		CHECK_INT(call(kernel, 0, 0), CUDA_SUCCESS);
	}
	CHECK_INT(slot->launches, 4 * PAIRS); // copies on the device count as launches
}

TEST(copies_do_not_change_the_count_of_launches)
{
	TENANT(64 * MIB, 0, mixed_body);
}

static void captured_body(void)
{
	start();
	CHECK_INT(cuStreamBeginCapture_v2((CUstream)1, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
	capture(true);
	order(TURN_CLOSED, TURN_WANTED);
	for (const struct row *row = rows; row < rows + ROWS; row++)
		CHECK_INT(call(row, 0, 0), CUDA_SUCCESS);
	CHECK_INT(slot->launches, 0);
	CHECK_INT(echo->marks, 0);
}

TEST(captured_work_passes_a_closed_gate)
{
	TENANT(64 * MIB, 0, captured_body);
}

static void *launch(void *argument)
{
	call(argument, 0, 0);
	return NULL;
}

// Writes the heartbeat, as the arbiter does, until `is_so` returns true.
static void beat_until(bool (*is_so)(void))
{
	for (uint64_t begun = vg_clock_monotonic_ns(); !is_so();) {
		CHECK(vg_clock_monotonic_ns() - begun < 20000000000);
		page->beat_ns = vg_clock_monotonic_ns();
		usleep(1000);
	}
}

static bool has_waiting_process(void)
{
	return slot->waiting == 1;
}

static bool has_no_waiting_process(void)
{
	return slot->waiting == 0;
}

static void closed_body(void)
{
	start();
	for (const struct row *row = rows; row < rows + ROWS; row++) {
		pthread_t thread;
		uint32_t bell = page->bell;
		unsigned int calls = echo->calls;

		if (!is_work(row->class))
			continue;
		order(TURN_CLOSED, 0);
		uint64_t launches = slot->launches;
		CHECK_INT(pthread_create(&thread, NULL, launch, (void *)(uintptr_t)row), 0);
		beat_until(has_waiting_process);
		for (uint64_t end = vg_clock_monotonic_ns() + 2000000; vg_clock_monotonic_ns() < end;)
			page->beat_ns = vg_clock_monotonic_ns();
		CHECK_INT(echo->calls, calls);
		CHECK(page->bell != bell); // the waiting launch has woken the arbiter
		order((row - rows) % 2 ? TURN_OPEN : TURN_HELD, (row - rows) % 2 ? TURN_COUNT : 0);
		syscall(SYS_futex, &page->word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
		beat_until(has_no_waiting_process);
		CHECK_INT(pthread_join(thread, NULL), 0);
		CHECK_INT(echo->calls, calls + 1);
		CHECK_INT(slot->launches - launches, 1); // the launch is counted even if the gate has opened
	}
}

TEST(work_waits_for_a_closed_gate)
{
	TENANT(64 * MIB, 0, closed_body);
}

static void no_arbiter_body(void)
{
	const struct row *row = row_of("cuLaunchKernel");

	start();
	order(TURN_CLOSED, 0);
	uint64_t begun = vg_clock_monotonic_ns();
	CHECK_INT(call(row, 0, 0), CUDA_SUCCESS);
	uint64_t took = vg_clock_monotonic_ns() - begun;
	CHECK(took >= 200000000);
	CHECK(took < 20000000000); // should take 0.35 s, but takes more on a busy machine
	begun = vg_clock_monotonic_ns();
	CHECK_INT(call(row, 0, 0), CUDA_SUCCESS);
	// the process has noticed that no arbiter runs, so launches need no turn for a while
	CHECK(vg_clock_monotonic_ns() - begun < 200000000);
}

TEST(gates_without_an_arbiter_open)
{
	TENANT(64 * MIB, 0, no_arbiter_body);
}

static void window_body(void)
{
	const struct row *row = row_of("cuLaunchKernel");

	start();
	order(TURN_HELD, 0);
	for (int i = 0; i < 8; i++) // these calls measure the function: 20 us each
		CHECK_INT(call(row, 0, 0), CUDA_SUCCESS);
	unsigned int marks = echo->marks;
	CHECK(marks >= 2);
	keep_busy(true);
	page->window_us = 2000;
	uint64_t begun = vg_clock_monotonic_ns();
	// The window is the limit for estimated work in flight. This kernel was not measured, so the interposer
	// estimates that each launch fills the window.
	for (int i = 0; i < 20; i++)
		CHECK_INT(call(row, ECHO_DEVICE + 1, 0), CUDA_SUCCESS);
	// The launch waits until its wait for a turn times out.
	CHECK(vg_clock_monotonic_ns() - begun >= 20000000);
}

TEST(work_in_flight_is_limited_by_the_window)
{
	TENANT(64 * MIB, 0, window_body);
}

// Launches kernels, so few that no event (mark) is recorded after them, and waits.
static void launch_and_wait(uint64_t stream, const char *wait, uint64_t waits_for)
{
	const struct row *launch = row_of("cuLaunchKernel");
	uint64_t before = slot->launches;

	for (int i = 0; i < 3; i++) {
		CHECK_INT(
			((function *)dlsym(RTLD_DEFAULT, launch->abi))(ECHO_DEVICE, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0),
			CUDA_SUCCESS);
		// The interposer reports several short launches together. But the first launch after a wait must be
		// reported immediately, because until then the vGPU seems to be idle.
		CHECK(slot->eta_ns != 0);
	}
	CHECK_INT(((function *)dlsym(RTLD_DEFAULT, wait))(waits_for, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), CUDA_SUCCESS);
	CHECK_INT(slot->launches - before, 3); // the others at the latest before the thread waits
}

static void waited_for_body(void)
{
	const uint64_t stream = 0x1000, other = 0x2000;

	start();
	order(TURN_HELD, 0);
	for (int i = 0; i < 8; i++) {
		launch_and_wait(stream, "cuStreamQuery", stream);
		CHECK_INT(slot->eta_ns, 0);
	}
	keep_busy(true); // events stay pending, so no work seems to end
	launch_and_wait(stream, "cuStreamSynchronize", other);
	CHECK(slot->eta_ns != 0);
	launch_and_wait(stream, "cuStreamSynchronize", stream);
	CHECK_INT(slot->eta_ns, 0);
	launch_and_wait(stream, "cuCtxSynchronize", 0);
	CHECK_INT(slot->eta_ns, 0);
	launch_and_wait(stream, "cuCtxSynchronize_v2", ECHO_OTHER_CONTEXT);
	CHECK(slot->eta_ns != 0);
	launch_and_wait(stream, "cuCtxSynchronize_v2", ECHO_CONTEXT);
	CHECK_INT(slot->eta_ns, 0);
}

TEST(nothing_is_in_flight_after_a_synchronization)
{
	TENANT(64 * MIB, 0, waited_for_body);
}

// Launches a kernel that the interposer has not measured, and that does not end. The interposer assumes that such a
// kernel takes as long as the window (the limit for estimated work in flight), which is 10 s here.
static void kernel_runs_body(void)
{
	const uint64_t stream = 0x1000, other = 0x2000;

	start();
	order(TURN_HELD, 0);
	page->window_us = 10000000;
	keep_busy(true);
	launch_and_wait(stream, "cuStreamSynchronize", other);
	uint64_t first = slot->eta_ns;
	struct timespec pause = {0, 30000000};
	nanosleep(&pause, NULL);
	CHECK_INT(((function *)dlsym(RTLD_DEFAULT, "cuStreamSynchronize"))(other, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
		  CUDA_SUCCESS);
	// Waiting for 30 ms has not moved the estimated end to 30 ms later.
	CHECK(slot->eta_ns < first + 20000000);
}

// Launches work in two streams. When the first stream has ended after 30 ms, the estimate must still include all work
// of the second one.
static void streams_take_turns_body(void)
{
	const uint64_t first = 0x1000, second = 0x2000;
	const struct row *launch = row_of("cuLaunchKernel");
	struct timespec pause = {0, 30000000};

	start();
	order(TURN_HELD, 0);
	page->window_us = 20000; // the estimate for work that was never measured
	keep_busy(true);
	CHECK_INT(((function *)dlsym(RTLD_DEFAULT, launch->abi))(ECHO_DEVICE, 1, 1, 1, 1, 1, 1, 0, first, 0, 0),
		  CUDA_SUCCESS);
	CHECK_INT(((function *)dlsym(RTLD_DEFAULT, launch->abi))(ECHO_DEVICE, 1, 1, 1, 1, 1, 1, 0, second, 0, 0),
		  CUDA_SUCCESS);
	nanosleep(&pause, NULL);
	uint64_t now = vg_clock_monotonic_ns();
	CHECK_INT(((function *)dlsym(RTLD_DEFAULT, "cuStreamSynchronize"))(first, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
		  CUDA_SUCCESS);
	CHECK(slot->eta_ns >= now + 20000000);
}

TEST(ended_work_of_one_stream_leaves_the_work_of_others)
{
	TENANT(64 * MIB, 0, streams_take_turns_body);
}

TEST(elapsed_time_is_subtracted_from_work_in_flight)
{
	TENANT(64 * MIB, 0, kernel_runs_body);
}

// Launches more work than a stream has events (marks) for, and then ends all work. Returns how long the next launch
// waits.
static uint64_t wait_behind_many_marks(void)
{
	const struct row *row = row_of("cuLaunchKernel");

	keep_busy(true);
	page->window_us = 400; // a mark for each 50 us
	page->ahead_ns = vg_clock_monotonic_ns() + 3600000000000;
	for (int i = 0; i < 4000; i++) // each takes 20 us
		CHECK_INT(call(row, 0, 0), CUDA_SUCCESS);
	keep_busy(false);
	// In a new turn, the interposer reports the first launch to the arbiter at once.
	order(TURN_HELD, 0);
	page->window_us = 100;
	page->ahead_ns = 0;
	page->patience_us = 1000000;
	uint64_t begun = vg_clock_monotonic_ns();
	CHECK_INT(call(row, 0, 0), CUDA_SUCCESS);
	return vg_clock_monotonic_ns() - begun;
}

static void many_marks_body(void)
{
	const struct row *row = row_of("cuLaunchKernel");
	uint64_t shortest = UINT64_MAX;

	start();
	order(TURN_HELD, 0);
	for (int i = 0; i < 8; i++) // these calls measure the function
		CHECK_INT(call(row, 0, 0), CUDA_SUCCESS);
	for (int i = 0; i < 5; i++) { // the machine may be busy in some attempts
		uint64_t took = wait_behind_many_marks();
		shortest = took < shortest ? took : shortest;
	}
	// The estimate of the launches without a mark exceeds 50 ms, but their end was noticed earlier.
	CHECK(shortest < 20000000);
}

TEST(work_beyond_the_marks_ends_as_soon)
{
	TENANT(64 * MIB, 0, many_marks_body);
}

// Launches a kernel of 20 us, and returns how many events were recorded, apart from one measurement in 5 ms.
static unsigned int count_events(enum turn_state state, int launches)
{
	const struct row *row = row_of("cuLaunchKernel");

	order(TURN_HELD, 0);
	for (int i = 0; i < 8; i++) // these calls measure the function
		CHECK_INT(call(row, 0, 0), CUDA_SUCCESS);
	order(state, state == TURN_OPEN ? TURN_COUNT : 0);
	unsigned int marks = echo->marks;
	uint64_t begun = vg_clock_monotonic_ns();
	for (int i = 0; i < launches; i++)
		CHECK_INT(call(row, 0, 0), CUDA_SUCCESS);
	unsigned int measured = 2 * (unsigned int)((vg_clock_monotonic_ns() - begun) / 5000000 + 1);
	marks = echo->marks - marks;
	return marks > measured ? marks - measured : 0;
}

static void few_events_body(void)
{
	start();
	CHECK(count_events(TURN_OPEN, 6400) <= 6400 * 20 / 4000);
	CHECK(count_events(TURN_HELD, 6400) <= 6400 / 1024);
}

TEST(short_launches_record_few_events)
{
	TENANT(64 * MIB, 0, few_events_body);
}

static void other_capture_body(void)
{
	const struct row *row = row_of("cuLaunchKernel");

	start();
	CHECK_INT(cuStreamBeginCapture_v2((CUstream)1, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
	order(TURN_HELD, 0);
	keep_busy(true);
	page->window_us = 100;
	for (int i = 0; i < 20; i++) // exceeds the limit for work in flight, so a launch queries events
		CHECK_INT(call(row, 0, 0), CUDA_SUCCESS);
	CHECK(echo->marks > 0);
	CHECK_INT(echo->unsafe, 0);
}

TEST(marks_do_not_invalidate_the_capture_of_another_stream)
{
	TENANT(64 * MIB, 0, other_capture_body);
}

static void forked_body(void)
{
	start();
	order(TURN_CLOSED, 0);
	pid_t child = fork();
	if (child == 0)
		_exit(call(row_of("cuLaunchKernel"), 0, 0) == CUDA_SUCCESS ? 0 : 1);
	CHECK_CHILD(child);
	CHECK_INT(slot->launches, 0);
}

TEST(forked_children_do_not_wait)
{
	TENANT(64 * MIB, 0, forked_body);
}

// entries.def assigns each driver function to a family. Fails if a function of the families "launch", "set" or "copy"
// has no row in turns.def. So a function that is added to entries.def cannot be forgotten there.
TEST(every_entry_of_these_families_has_a_class)
{
	static const char *const families[] = {"launch", "set", "copy"};
	static const struct {
		const char *abi, *family;
	} entries[] = {
#define ENTRY(abi, api, version, stream, family, need) {#abi, #family},
#include "abi/entries.def"
	};

	for (unsigned int i = 0; i < sizeof entries / sizeof *entries; i++)
		for (unsigned int f = 0; f < sizeof families / sizeof *families; f++)
			if (strcmp(entries[i].family, families[f]) == 0)
				row_of(entries[i].abi);
}
