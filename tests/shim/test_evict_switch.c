// Tests memory that returns to the device while other processes make room.
#include <pthread.h>

#include "base/clock.h"
#include "evictable_handles.h"

enum { BIG = 300 << 20, CHUNK = 128 << 20, HANDLE = 40 << 20 };

static CUdeviceptr big, mapped;

static void wait_until(const _Atomic uint64_t *word, uint64_t value)
{
	for (int i = 0; i < 20000 && atomic_load(word) != value; i++)
		pause_ms(1);
	CHECK_INT(*word, value);
}

static void tell_room_comes(bool comes)
{
	atomic_store(&vg_ledger_pager_page(tenant_ledger)->room_comes, comes);
}

// Moves an allocation of three chunks, and a handle, to the host. Then the processes `others` take all of the device
// but one chunk. When others[0] ends, there is room for another chunk.
static void begin_without_room(pid_t others[2])
{
	CUmemGenericAllocationHandle handle;

	start();
	CHECK_INT(cuMemAlloc_v2(&big, BIG), CUDA_SUCCESS);
	handle = make(HANDLE);
	mapped = map_anywhere(HANDLE, handle);
	fill(big, BIG, 11);
	fill(big + CHUNK, 64, 12);
	fill(mapped, HANDLE, 13);
	move_out(PAGER_OUT);
	others[0] = occupy_device(CHUNK);
	others[1] = occupy_device(free_on_device() - CHUNK - (32 << 20)); // the context of the process takes 16 MiB
	tell_room_comes(true);
	request_move(false, 0);
	wait_until(&slot->host, BIG + HANDLE - CHUNK);
	CHECK_INT(slot->state, PAGER_COMING);
	CHECK(slot->answered != slot->bell);
}

static void end_other(pid_t other)
{
	kill(other, SIGKILL);
	CHECK_INT(waitpid(other, NULL, 0), other);
}

static void check_contents(void)
{
	CHECK_INT(slot->state, PAGER_RUNNING);
	CHECK_INT(slot->host, 0);
	check_filled(big, CHUNK, 11);
	check_filled(big + CHUNK, 64, 12);
	check_filled(big + CHUNK + 64, BIG - CHUNK - 64, 11);
	check_filled(mapped, HANDLE, 13);
}

static void by_parts_body(void)
{
	pid_t others[2];

	begin_without_room(others);
	end_other(others[0]);
	wait_until(&slot->host, BIG + HANDLE - 2 * CHUNK);
	CHECK_INT(slot->state, PAGER_COMING);
	end_other(others[1]);
	wait_for_answer();
	CHECK_INT(slot->reason, PAGER_DONE);
	check_contents();
	move_out_and_in();
	check_contents();
}

// Runs `body` with a limit and a swap that are larger than the device.
static void run_crowded(void (*body)(void))
{
	tenant_flags = VG_LEDGER_EVICTABLE;
	tenant_swap = GIB;
	TENANT(16 * GIB, 16 * MIB, body);
}

TEST(memory_returns_as_room_becomes_free)
{
	run_crowded(by_parts_body);
}

static void turns_back_body(void)
{
	pid_t others[2];
	size_t before;

	begin_without_room(others);
	before = free_on_device();
	move_out(PAGER_OUT);
	CHECK_INT(slot->reason, PAGER_DONE); // no step failed
	CHECK_INT(slot->missing, 0);
	CHECK_INT(slot->host, BIG + HANDLE);
	// Only the first move to the host copied memory, and was counted. One chunk had returned to the device since.
	// The host still had its copy, so the pager only released the chunk on the device.
	CHECK_INT(slot->moves, 1);
	CHECK_INT(free_on_device(), before + CHUNK);
	end_other(others[0]);
	end_other(others[1]);
	move_in(PAGER_RUNNING);
	check_contents();
}

TEST(returning_memory_can_leave_again)
{
	run_crowded(turns_back_body);
}

static void gives_up_body(void)
{
	pid_t others[2];
	size_t before;

	begin_without_room(others);
	before = free_on_device();
	for (int i = 0; i < 40000 && slot->reason != PAGER_DEVICE; i++)
		pause_ms(1);
	CHECK_INT(slot->reason, PAGER_DEVICE);
	CHECK_INT(slot->missing, BIG + HANDLE - CHUNK);
	CHECK_INT(slot->host, BIG + HANDLE);
	// The pager has released the device memory of the part that had returned. It tries again at intervals, and
	// then takes this memory for a moment.
	for (int i = 0; i < 2000 && free_on_device() < before + CHUNK / 2; i++)
		pause_ms(1);
	CHECK(free_on_device() >= before + CHUNK / 2);
	CHECK(slot->answered != slot->bell);
	end_other(others[0]);
	end_other(others[1]);
	wait_for_answer();
	check_contents();
}

TEST(memory_waits_in_the_host_without_room)
{
	run_crowded(gives_up_body);
}

// ---- allocations --------------------------------------------------------------------------------------------

static _Atomic bool is_allocated;

// While the other thread allocates, this process leaves the device, and returns. Then there is room.
static void *leave_and_make_room(void *other)
{
	pause_ms(100); // the allocation has begun by now, or begins later and waits
	CHECK(!is_allocated);
	move_out(PAGER_OUT);
	CHECK(!is_allocated);
	move_in(PAGER_RUNNING);
	CHECK(!is_allocated);
	end_other(*(pid_t *)other);
	return NULL;
}

static CUresult create(CUmemGenericAllocationHandle *ret_handle)
{
	return cuMemCreate(ret_handle, BIG, &plain, 0);
}

static void allocates_body(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr more;
	pthread_t thread;

	start();
	CHECK_INT(cuMemAlloc_v2(&big, CHUNK), CUDA_SUCCESS);
	fill(big, CHUNK, 21);
	move_out_and_in(); // pins the host memory, and keeps it
	for (int round = 0; round < 2; round++) {
		pid_t other = occupy_device(free_on_device() - (48 << 20)); // 32 MiB besides its context
		tell_room_comes(false);
		CHECK_INT(round ? create(&handle) : cuMemAlloc_v2(&more, BIG), CUDA_ERROR_OUT_OF_MEMORY);
		tell_room_comes(true);
		is_allocated = false;
		CHECK_INT(pthread_create(&thread, NULL, leave_and_make_room, &other), 0);
		CHECK_INT(round ? create(&handle) : cuMemAlloc_v2(&more, BIG), CUDA_SUCCESS);
		is_allocated = true;
		CHECK_INT(pthread_join(thread, NULL), 0);
		if (round == 0)
			CHECK_INT(cuMemFree_v2(more), CUDA_SUCCESS);
	}
	CHECK_INT(slot->bytes, CHUNK + BIG);
	CHECK_INT(cuMemRelease(handle), CUDA_SUCCESS);
	check_filled(big, CHUNK, 21);
}

// A program may use the device while the memory of others is still leaving.
TEST(allocations_wait_for_room_that_others_make)
{
	run_crowded(allocates_body);
}

static void *make_room(void *other)
{
	pause_ms(200);
	end_other(*(pid_t *)other);
	return NULL;
}

static void allocates_in_vain_body(void)
{
	CUdeviceptr more;
	pthread_t thread;

	start();
	pid_t other = occupy_device(free_on_device() - (48 << 20));
	tell_room_comes(true); // and then nothing happens, as if the daemon had been killed
	uint64_t begun_ns = vg_clock_monotonic_ns();
	CHECK_INT(cuMemAlloc_v2(&more, BIG), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(vg_clock_monotonic_ns() - begun_ns > UINT64_C(9000000000));
	begun_ns = vg_clock_monotonic_ns();
	CHECK_INT(cuMemAlloc_v2(&more, BIG), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(vg_clock_monotonic_ns() - begun_ns < UINT64_C(5000000000));
	// the next daemon's announcement, which is true
	atomic_store(&vg_ledger_pager_page(tenant_ledger)->room_comes, 77);
	CHECK_INT(pthread_create(&thread, NULL, make_room, &other), 0);
	CHECK_INT(cuMemAlloc_v2(&more, BIG), CUDA_SUCCESS);
	CHECK_INT(pthread_join(thread, NULL), 0);
}

TEST(allocations_wait_once_for_room_that_does_not_come)
{
	run_crowded(allocates_in_vain_body);
}

// ---- two processes that wait for each other ----------------------------------------------------------------

enum { PIECE = 20 << 20, PIECES = 10 };

static void hold_pieces(void)
{
	CUdeviceptr pieces[PIECES];

	alarm(120);
	start();
	for (uint32_t i = 0; i < PIECES; i++) {
		CHECK_INT(cuMemAlloc_v2(&pieces[i], PIECE), CUDA_SUCCESS);
		fill(pieces[i], PIECE, i + 1);
	}
	while (atomic_load(&vg_ledger_pager_page(tenant_ledger)->ask_ms) == 0)
		pause_ms(1);
	for (uint32_t i = 0; i < PIECES; i++)
		check_filled(pieces[i], PIECE, i + 1);
	_exit(0);
}

static void wait_for_state(const struct pager_slot *of, enum pager_state state)
{
	for (int i = 0; i < 40000 && atomic_load(&of->state) != state; i++)
		pause_ms(1);
	CHECK_INT(of->state, state);
}

static void wish_for(struct pager_slot *of, bool out)
{
	slot = of;
	request_move(out, 5000);
}

// Tests processes that wait for each other's room. Driver calls take time here, so that each process gets a part of the
// room.
TEST(processes_that_wait_for_each_other_return_their_parts)
{
	struct pager_slot *slots;
	pid_t children[2], other;

	setenv("VIRGATE_SIM", "memory=1G,ctx=16M,slice=2ms", 1);
	setenv("VIRGATE_SIM_COST", "call:cuMemCreate=100ms", 1);
	tenant_flags = VG_LEDGER_EVICTABLE;
	tenant_swap = GIB;
	tenant_new_ledger(16 * GIB, 16 * MIB);
	slots = vg_ledger_pager_slots(tenant_ledger);
	for (int i = 0; i < 2; i++) {
		children[i] = fork();
		if (children[i] == 0)
			hold_pieces();
		wait_until(&slots[i].bytes, PIECES * PIECE);
	}
	for (int i = 0; i < 2; i++)
		wish_for(&slots[i], true);
	for (int i = 0; i < 2; i++)
		wait_for_state(&slots[i], PAGER_OUT);
	// 300 MiB are left on the device.
	other = occupy_device((1024 - 3 * 16 - 300) * MIB);
	tell_room_comes(true);
	for (int i = 0; i < 2; i++)
		wish_for(&slots[i], false);
	for (int i = 0; i < 20000 && (slots[0].host == PIECES * PIECE || slots[1].host == PIECES * PIECE); i++)
		pause_ms(1);
	// Each process has a part of its memory on the device.
	CHECK(slots[0].host < PIECES * PIECE && slots[1].host < PIECES * PIECE);
	for (int i = 0; i < 40000 && slots[0].state != PAGER_RUNNING && slots[1].state != PAGER_RUNNING; i++)
		pause_ms(1);
	int first = slots[0].state == PAGER_RUNNING ? 0 : 1;
	CHECK_INT(slots[first].state, PAGER_RUNNING);
	wait_for_state(&slots[!first], PAGER_OUT);
	CHECK_INT(slots[!first].host, PIECES * PIECE);
	wish_for(&slots[first], true);
	wait_for_state(&slots[!first], PAGER_RUNNING);
	end_other(other);
	wish_for(&slots[first], false);
	wait_for_state(&slots[first], PAGER_RUNNING);
	atomic_store(&vg_ledger_pager_page(tenant_ledger)->ask_ms, 10);
	for (int i = 0; i < 2; i++)
		CHECK_CHILD(children[i]);
}
