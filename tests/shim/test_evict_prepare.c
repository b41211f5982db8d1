// Tests when the pager pins host memory while the program runs: before memory leaves the device, and in advance if
// vGPUs compete.
#include <unistd.h>

#include "evictable.h"

enum { HELD = 300 << 20 };

// Requests a move of a process whose host memory takes 0.8 s to pin. Returns when the pager prepares the move.
static CUdeviceptr begin_slowly(uint32_t drain_ms)
{
	CUdeviceptr memory;

	setenv("VIRGATE_SIM", "memory=1G,ctx=16M,slice=2ms", 1); // driver calls take time
	setenv("VIRGATE_SIM_COST", "call:cuMemHostRegister_v2=400ms", 1);
	start();
	CHECK_INT(cuMemAlloc_v2(&memory, HELD), CUDA_SUCCESS);
	request_move(true, drain_ms);
	for (int i = 0; i < 20000 && atomic_load(&slot->state) == PAGER_RUNNING; i++)
		pause_ms(1);
	CHECK_INT(slot->state, PAGER_PREPARING);
	return memory;
}

// Tests host memory that takes longer to pin than the pager waits for threads and the GPU.
static void slow_body(void)
{
	CUdeviceptr memory = begin_slowly(500);

	CHECK_INT(cuMemsetD32_v2(memory, 1, 1024), CUDA_SUCCESS);
	CHECK_INT(slot->waiting, 0);
	CHECK_INT(slot->state, PAGER_PREPARING); // the pager is still preparing: the move has not delayed the call
	wait_for_answer();
	CHECK_INT(slot->state, PAGER_OUT);
	move_in(PAGER_RUNNING);
}

static void withdrawn_body(void)
{
	begin_slowly(5000);
	request_move(false, 5000);
	wait_for_answer();
	CHECK_INT(slot->state, PAGER_RUNNING);
	CHECK_INT(slot->moves, 0);
	CHECK_INT(slot->reason, PAGER_DONE);
}

TEST(withdrawn_requests_move_nothing)
{
	run_evictable(withdrawn_body);
}

TEST(the_time_for_draining_begins_after_the_host_memory_is_pinned)
{
	run_evictable(slow_body);
}

// Allocates memory in a thread while the pager pins host memory. That memory must leave with the rest.
static void meanwhile_body(void)
{
	CUdeviceptr memory = begin_slowly(5000), more;

	CHECK_INT(cuMemAlloc_v2(&more, 20 << 20), CUDA_SUCCESS);
	fill(memory, 1 << 20, 1);
	fill(more, 20 << 20, 2);
	CHECK_INT(slot->state, PAGER_PREPARING);
	wait_for_answer();
	CHECK_INT(slot->state, PAGER_OUT);
	CHECK_INT(slot->host, HELD + (20 << 20));
	move_in(PAGER_RUNNING);
	check_filled(memory, 1 << 20, 1);
	check_filled(more, 20 << 20, 2);
}

TEST(memory_allocated_while_pinning_leaves)
{
	run_evictable(meanwhile_body);
}

static size_t anonymous_bytes(void)
{
	unsigned long long kib = 0;
	char line[128];
	FILE *file = fopen("/proc/self/status", "re");

	while (file && fgets(line, sizeof line, file) && sscanf(line, "RssAnon: %llu kB", &kib) != 1)
		;
	if (file)
		fclose(file);
	return (size_t)kib << 10;
}

// Two allocations of this size fit in a piece of host memory, and the third one extends over two pieces. The swap has
// no more room.
enum { ODD = 86 << 20, ODD_COUNT = 3 };

static void odd_body(void)
{
	CUdeviceptr memory[ODD_COUNT];
	size_t before;

	start();
	for (uint32_t i = 0; i < ODD_COUNT; i++) {
		CHECK_INT(cuMemAlloc_v2(&memory[i], ODD), CUDA_SUCCESS);
		fill(memory[i], ODD / 2, i + 1);
		fill(memory[i] + ODD / 2, ODD / 2, i + 11);
	}
	before = anonymous_bytes();
	for (int i = 0; i < 2; i++) {
		move_out(PAGER_OUT);
		CHECK(anonymous_bytes() < before + ODD_COUNT * ODD + ODD / 4);
		move_in(PAGER_RUNNING);
	}
	for (uint32_t i = 0; i < ODD_COUNT; i++) {
		check_filled(memory[i], ODD / 2, i + 1);
		check_filled(memory[i] + ODD / 2, ODD / 2, i + 11);
	}
	CHECK_INT(cuMemFree_v2(memory[1]), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&memory[1], ODD + (2 << 20)), CUDA_SUCCESS);
	request_move(true, 5000);
	wait_for_answer();
	CHECK_INT(slot->state, PAGER_RUNNING);
	CHECK_INT(slot->reason, PAGER_HOST);
	CHECK_INT(slot->missing, 2 << 20);
}

TEST(memory_of_odd_sizes_takes_no_more_than_the_swap)
{
	tenant_flags = VG_LEDGER_EVICTABLE;
	tenant_swap = (uint64_t)ODD_COUNT * ODD;
	TENANT(950 * MIB, 16 * MIB, odd_body);
}

static size_t resident_bytes(void)
{
	unsigned long all, resident;
	FILE *file = fopen("/proc/self/statm", "re");

	if (!file || fscanf(file, "%lu %lu", &all, &resident) != 2)
		FAIL("/proc/self/statm: %m");
	fclose(file);
	return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static void ahead_body(void)
{
	struct pager_page *page = vg_ledger_pager_page(tenant_ledger);
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, HELD), CUDA_SUCCESS);
	size_t before = resident_bytes();
	request_move(false, 0); // no vGPU needs the memory
	wait_for_answer();
	pause_ms(50);
	CHECK(resident_bytes() < before + HELD / 4);
	atomic_store(&page->ask_ms, 5);
	request_move(false, 0);
	for (int i = 0; i < 20000 && resident_bytes() < before + HELD; i++)
		pause_ms(1);
	CHECK(resident_bytes() >= before + HELD);
	CHECK_INT(slot->state, PAGER_RUNNING);
	pause_ms(50); // long enough for the pager to stop pinning
	CHECK(resident_bytes() < before + HELD * 3 / 2);
	move_out(PAGER_OUT);
	move_in(PAGER_RUNNING);
}

// Runs `body` with a limit for the host memory that must stay free: 0, or more MiB than any machine has.
static void run_with_host_least(const char *mib, void (*body)(void))
{
	setenv("VIRGATE_SIM_HOST_LEAST", mib, 1);
	run_evictable(body);
	unsetenv("VIRGATE_SIM_HOST_LEAST");
}

static void short_body(void)
{
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, HELD), CUDA_SUCCESS);
	fill(memory, HELD, 5);
	size_t before = resident_bytes(); // the memory of the simulated GPU is resident, too
	move_out(PAGER_OUT);
	pause_ms(1500); // longer than the interval of the pager's checks
	CHECK_INT(slot->host, slot->bytes);
	move_in(PAGER_RUNNING);
	for (int i = 0; i < 3000 && resident_bytes() > before + HELD / 4; i++)
		pause_ms(1);
	CHECK(resident_bytes() <= before + HELD / 4);
	move_out(PAGER_OUT);
	move_in(PAGER_RUNNING);
	check_filled(memory, HELD, 5);
}

static void plenty_body(void)
{
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, HELD), CUDA_SUCCESS);
	fill(memory, HELD, 5);
	size_t before = resident_bytes();
	move_out(PAGER_OUT);
	move_in(PAGER_RUNNING);
	pause_ms(2500);
	CHECK(resident_bytes() >= before + HELD * 3 / 4);
}

TEST(pinned_memory_is_released_if_the_host_is_short_of_memory)
{
	run_with_host_least("1000000000", short_body);
	run_with_host_least("0", plenty_body);
}

static void set_ask(uint32_t ms)
{
	atomic_store(&vg_ledger_pager_page(tenant_ledger)->ask_ms, ms);
	request_move(false, 0);
	wait_for_answer();
}

static void end_capture(void)
{
	CUgraph graph;

	CHECK_INT(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
	CHECK_INT(cuGraphDestroy(graph), CUDA_SUCCESS);
}

// The host is short of memory, so the pager releases pinned host memory as soon as vGPUs do not compete any more. Here
// they stop competing during a capture. The pager must release the memory only after the capture.
static void capture_body(void)
{
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, HELD), CUDA_SUCCESS);
	fill(memory, HELD, 5);
	size_t before = resident_bytes();
	set_ask(5);
	move_out(PAGER_OUT);
	move_in(PAGER_RUNNING);
	CHECK(resident_bytes() >= before + HELD * 3 / 4);
	CHECK_INT(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
	set_ask(0);
	pause_ms(1500); // longer than the interval of the pager's checks
	CHECK(resident_bytes() >= before + HELD * 3 / 4);
	end_capture();
	for (int i = 0; i < 20000 && resident_bytes() > before + HELD / 4; i++)
		pause_ms(1);
	CHECK(resident_bytes() <= before + HELD / 4);
	move_out(PAGER_OUT);
	move_in(PAGER_RUNNING);
	check_filled(memory, HELD, 5);
}

TEST(host_memory_is_not_released_during_a_capture)
{
	run_with_host_least("1000000000", capture_body);
}

static void capture_goes_on_body(void)
{
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, HELD), CUDA_SUCCESS);
	CHECK_INT(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
	request_move(true, 100);
	wait_for_answer();
	CHECK_INT(slot->state, PAGER_RUNNING);
	CHECK_INT(slot->reason, PAGER_CAPTURE);
	end_capture();
	request_move(false, 0);
	wait_for_answer();
	move_out(PAGER_OUT);
	move_in(PAGER_RUNNING);
}

// The pager pins host memory before it waits for the end of the capture.
TEST(captures_continue_while_host_memory_is_pinned)
{
	run_evictable(capture_goes_on_body);
}

static unsigned long long available_kib(void)
{
	unsigned long long kib = 0;
	char line[128];
	FILE *file = fopen("/proc/meminfo", "re");

	while (file && fgets(line, sizeof line, file) && sscanf(line, "MemAvailable: %llu kB", &kib) != 1)
		;
	if (file)
		fclose(file);
	return kib;
}

TEST(memory_is_pinned_in_advance_if_vgpus_compete)
{
	if (available_kib() < 5 << 20)
		SKIP("5 GiB of the host's memory must be available: nothing is pinned ahead with less");
	run_evictable(ahead_body);
}
