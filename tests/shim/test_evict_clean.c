// Blocks that have not changed since the last move to the host are not copied again.
#include <unistd.h>

#include "evictable_handles.h"

// The simulated GPU hashes slowly.
enum { BIG = 3 * BLOCK, PAIR = 2 * BLOCK };

static CUdeviceptr big, small, alias, second_alias;
static CUmemGenericAllocationHandle nowhere;

// The GPU hashes the blocks of any process that has 1 MiB.
static void run_hashed(const char *fault, void (*body)(void))
{
	setenv("VIRGATE_SIM_HASH", "1", 1);
	setenv("VIRGATE_SIM_FAULT", fault, 1);
	run_evictable(body);
	unsetenv("VIRGATE_SIM_FAULT");
}

static void fill_by_blocks(CUdeviceptr address, size_t bytes, uint32_t value)
{
	for (size_t at = 0; at < bytes; at += BLOCK)
		fill(address + at, bytes - at < BLOCK ? bytes - at : BLOCK, value + (uint32_t)(at / BLOCK));
}

static void check_blocks(CUdeviceptr address, size_t bytes, uint32_t value)
{
	for (size_t at = 0; at < bytes; at += BLOCK)
		check_filled(address + at, bytes - at < BLOCK ? bytes - at : BLOCK, value + (uint32_t)(at / BLOCK));
}

// An allocation whose last block is not whole, a handle with two mappings, and one that is mapped nowhere.
static void make_all(void)
{
	CUmemGenericAllocationHandle handle;

	start();
	CHECK_INT(cuMemAlloc_v2(&big, BIG), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&small, PAIR - 4096), CUDA_SUCCESS);
	handle = make(PAIR);
	alias = map_anywhere(PAIR, handle);
	second_alias = map_anywhere(PAIR, handle);
	nowhere = make(BLOCK);
	fill_by_blocks(big, BIG, 100);
	fill_by_blocks(small, PAIR - 4096, 200);
	fill_by_blocks(alias, PAIR, 300);
}

static void check_all(void)
{
	check_blocks(big, BIG, 100);
	check_blocks(small, PAIR - 4096, 200);
	check_blocks(alias, PAIR, 300);
	check_blocks(second_alias, PAIR, 300);
}

// Moves everything to the host and back. `changed` blocks must have been copied.
static void out_and_in_with(size_t changed)
{
	move_out_and_in();
	CHECK_INT(slot->hash_result, CUDA_SUCCESS);
	CHECK_INT(slot->bytes - slot->unchanged, changed * BLOCK);
}

static void changed_body(void)
{
	CUdeviceptr window;

	make_all();
	const size_t all = slot->bytes / BLOCK;
	out_and_in_with(all); // the host has no copies yet
	check_all();
	out_and_in_with(0);
	out_and_in_with(0);
	check_all();
	// The first and the last byte of blocks, by one bit each.
	CHECK_INT(cuMemsetD8_v2(big + BLOCK, 100, 1), CUDA_SUCCESS);   // it was 101
	CHECK_INT(cuMemsetD8_v2(big + BIG - 1, 1, 1), CUDA_SUCCESS);     // it was 0
	out_and_in_with(2);
	CHECK_INT(cuMemsetD8_v2(big + BLOCK, 101, 1), CUDA_SUCCESS);
	CHECK_INT(cuMemsetD8_v2(big + BIG - 1, 0, 1), CUDA_SUCCESS);
	out_and_in_with(2); // the host has the bytes of the previous move
	check_all();
	// Two blocks change places.
	fill(big, BLOCK, 101);
	fill(big + BLOCK, BLOCK, 100);
	out_and_in_with(2);
	fill(big, BLOCK, 100);
	fill(big + BLOCK, BLOCK, 101);
	// The last byte of an allocation that ends within a block; the same bytes again; a handle without address.
	CHECK_INT(cuMemsetD8_v2(small + PAIR - 4097, 1, 1), CUDA_SUCCESS); // it was 0
	fill(second_alias + BLOCK, BLOCK, 301); // as before
	window = map_anywhere(BLOCK, nowhere);
	fill(window + BLOCK - 64, 64, 7);
	CHECK_INT(cuMemUnmap(window, BLOCK), CUDA_SUCCESS);
	out_and_in_with(4);
	CHECK_INT(cuMemsetD8_v2(small + PAIR - 4097, 0, 1), CUDA_SUCCESS);
	fill(second_alias + BLOCK, 64, 9);
	out_and_in_with(2);
	check_filled(alias + BLOCK, 64, 9);
	fill(alias + BLOCK, 64, 301);
	out_and_in_with(1);
	check_all();
	map_at(window, BLOCK, nowhere);
	check_filled(window + BLOCK - 64, 64, 7);
}

TEST(only_changed_blocks_are_copied)
{
	run_hashed("", changed_body);
}

// Copies after the second move fail: an event is recorded for each.
static void no_copy_body(void)
{
	make_all();
	move_out_and_in();
	for (int i = 0; i < 3; i++)
		move_out(PAGER_OUT);
	CHECK_INT(slot->unchanged, slot->bytes);
}

TEST(unchanged_memory_is_not_copied)
{
	run_hashed("cuEventRecord:9+=CUDA_ERROR_UNKNOWN", no_copy_body);
}

static void new_memory_body(void)
{
	CUdeviceptr other;
	uint64_t before;

	make_all();
	out_and_in_with(slot->bytes / BLOCK);
	CHECK_INT(cuMemFree_v2(big), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&other, BIG), CUDA_SUCCESS);
	fill_by_blocks(other, BIG, 500);
	before = slot->bytes;
	out_and_in_with(BIG / BLOCK);
	CHECK_INT(slot->bytes, before);
	check_blocks(other, BIG, 500);
	big = other;
	CHECK_INT(cuMemAlloc_v2(&other, BLOCK), CUDA_SUCCESS);
	fill(other, BLOCK, 8);
	out_and_in_with(1);
	check_filled(other, BLOCK, 8);
	check_blocks(big, BIG, 500);
}

TEST(newly_allocated_memory_is_copied)
{
	run_hashed("", new_memory_body);
}

// The gap that a freed allocation leaves in the host is too small for the next one, and the swap has no other room.
enum { ROOM = 2 * BLOCK, ROOMS = 3 };

static void gaps_body(void)
{
	CUdeviceptr memory[ROOMS + 1];

	start();
	for (uint32_t i = 0; i < ROOMS; i++) {
		CHECK_INT(cuMemAlloc_v2(&memory[i], ROOM), CUDA_SUCCESS);
		fill_by_blocks(memory[i], ROOM, i * 10);
	}
	out_and_in_with(ROOMS * ROOM / BLOCK);
	CHECK_INT(cuMemFree_v2(memory[0]), CUDA_SUCCESS);
	CHECK_INT(cuMemFree_v2(memory[2]), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&memory[0], ROOM + BLOCK), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&memory[2], ROOM - BLOCK), CUDA_SUCCESS);
	fill_by_blocks(memory[0], ROOM + BLOCK, 50);
	fill_by_blocks(memory[2], ROOM - BLOCK, 60);
	out_and_in_with(ROOMS * ROOM / BLOCK); // all of it, to another place in the host
	out_and_in_with(0);
	check_blocks(memory[0], ROOM + BLOCK, 50);
	check_blocks(memory[1], ROOM, 10);
	check_blocks(memory[2], ROOM - BLOCK, 60);
	// One block more than the swap.
	CHECK_INT(cuMemAlloc_v2(&memory[3], BLOCK), CUDA_SUCCESS);
	request_move(true, 5000);
	wait_for_answer();
	CHECK_INT(slot->state, PAGER_RUNNING);
	CHECK_INT(slot->reason, PAGER_HOST);
	CHECK_INT(slot->missing, BLOCK);
	CHECK_INT(cuMemFree_v2(memory[3]), CUDA_SUCCESS);
	out_and_in_with(0);
	check_blocks(memory[1], ROOM, 10);
}

TEST(kept_copies_take_no_more_than_the_swap)
{
	setenv("VIRGATE_SIM_HASH", "1", 1);
	tenant_flags = VG_LEDGER_EVICTABLE;
	tenant_swap = ROOMS * ROOM;
	TENANT(950 * MIB, 16 * MIB, gaps_body);
}

// A move that fails half-way has hashed all blocks, and copied some of them.
static void fail_a_move(void)
{
	make_all();
	out_and_in_with(slot->bytes / BLOCK);
	fill_by_blocks(big, BIG, 700);
	fill_by_blocks(alias, PAIR, 900);
	request_move(true, 5000);
	wait_for_answer();
	CHECK_INT(slot->state, PAGER_RUNNING);
	CHECK_INT(slot->reason, PAGER_DRIVER);
}

static void failed_body(void)
{
	fail_a_move();
	move_out_and_in();
	CHECK_INT(slot->hash_result, CUDA_SUCCESS);
	check_blocks(big, BIG, 700);
	check_blocks(second_alias, PAIR, 900);
	check_blocks(small, PAIR - 4096, 200);
}

static void failed_and_rewritten_body(void)
{
	fail_a_move();
	fill_by_blocks(big, BIG, 100); // as the host had it before
	fill_by_blocks(alias, PAIR, 300);
	move_out_and_in();
	check_all();
	out_and_in_with(0);
	check_all();
}

TEST(failed_moves_leave_no_stale_copies)
{
	// Each move to the host hashes once, which copies digests, and the first one copies four chunks.
	static const char *const faults[] = {
		"cuMemcpyDtoHAsync_v2:7=CUDA_ERROR_UNKNOWN", "cuMemcpyDtoHAsync_v2:8=CUDA_ERROR_UNKNOWN",
		"cuEventRecord:9=CUDA_ERROR_UNKNOWN", "cuEventSynchronize:10=CUDA_ERROR_UNKNOWN",
	};

	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
		run_hashed(faults[i], i % 2 ? failed_and_rewritten_body : failed_body);
}

static void not_hashed_body(void)
{
	make_all();
	for (int i = 0; i < 2; i++) {
		move_out_and_in();
		CHECK(slot->hash_result != CUDA_SUCCESS);
		CHECK_INT(slot->unchanged, 0);
		check_all();
	}
	move_out_and_in(); // now the driver's function works
	out_and_in_with(0);
	check_all();
}

TEST(all_is_copied_if_the_gpu_cannot_hash)
{
	run_hashed("cuLaunchKernel:1-2=CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", not_hashed_body);
}

static void make_again(void)
{
	CHECK_INT(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
	CHECK_INT(cuMemRelease(nowhere), CUDA_SUCCESS);
	CHECK_INT(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
	CHECK_INT(cuCtxSetCurrent(context), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&big, BIG), CUDA_SUCCESS);
	fill_by_blocks(big, BIG, 100);
}

// The driver's function fails once only.
static void not_loaded_body(void)
{
	make_all();
	for (int i = 0; i < 3; i++) {
		move_out_and_in();
		CHECK(slot->hash_result != CUDA_SUCCESS);
		CHECK_INT(slot->unchanged, 0);
		check_all();
	}
	make_again();
	out_and_in_with(slot->bytes / BLOCK);
	out_and_in_with(0);
	check_blocks(big, BIG, 100);
}

TEST(refused_code_is_loaded_once_in_a_context)
{
	run_hashed("cuModuleLoadData:1=CUDA_ERROR_OUT_OF_MEMORY", not_loaded_body);
	run_hashed("cuModuleGetFunction:1=CUDA_ERROR_NOT_FOUND", not_loaded_body);
	run_hashed("cuModuleGetGlobal_v2:1=CUDA_ERROR_NOT_FOUND", not_loaded_body);
}

static uint64_t charged_for_modules(void)
{
	struct vg_ledger_tenant tenant;
	unsigned int cursor = 0;

	CHECK(vg_ledger_next_tenant(tenant_ledger, &cursor, &tenant));
	return tenant.by_kind[VG_LEDGER_MODULE];
}

static void charged_body(void)
{
	size_t before;
	uint64_t all;

	make_all();
	before = free_on_device();
	CHECK_INT(charged_for_modules(), 0);
	out_and_in_with(slot->bytes / BLOCK);
	CHECK(charged_for_modules() > 0);
	CHECK_INT(charged_for_modules(), before - free_on_device());
	all = charged_for_modules();
	out_and_in_with(0);
	CHECK_INT(charged_for_modules(), all);
	// The module is unloaded with its context and loaded in another one.
	make_again();
	CHECK_INT(charged_for_modules(), 0);
	move_out_and_in();
	out_and_in_with(0);
	CHECK_INT(charged_for_modules(), all);
	check_blocks(big, BIG, 100);
}

TEST(the_kernels_memory_is_charged)
{
	run_hashed("", charged_body);
}

static void little_body(void)
{
	make_all();
	move_out_and_in();
	move_out_and_in();
	CHECK_INT(slot->hash_result, CUDA_SUCCESS);
	CHECK_INT(slot->unchanged, 0);
	CHECK_INT(charged_for_modules(), 0);
	check_all();
}

TEST(small_processes_are_copied_without_hashes)
{
	setenv("VIRGATE_SIM_HASH", "100", 1);
	run_evictable(little_body);
	unsetenv("VIRGATE_SIM_HASH");
	run_evictable(little_body);
}
