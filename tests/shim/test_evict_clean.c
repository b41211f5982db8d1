// Checks that blocks are not copied again if they have not changed since the last move to the host.
#include <unistd.h>

#include "evictable_handles.h"

// These sizes are small because the simulated GPU hashes slowly.
enum { BIG = 3 * BLOCK, PAIR = 2 * BLOCK };

static CUdeviceptr big, small, alias, second_alias;
static CUmemGenericAllocationHandle nowhere;

// Runs `body` with the setting VIRGATE_SIM_HASH. With this setting, the GPU hashes the blocks of every process with at
// least 1 MiB, so that the pager finds unchanged blocks.
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

// Makes an allocation whose last block is incomplete, a handle with two mappings, and a handle without any mapping.
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

// Moves all memory to the host and back, and checks that `changed` blocks were copied.
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
	out_and_in_with(all); // all blocks: the host has no copies yet
	check_all();
	out_and_in_with(0);
	out_and_in_with(0);
	check_all();
	// Changes one bit in the first byte of a block, and in the last byte of another one.
	CHECK_INT(cuMemsetD8_v2(big + BLOCK, 100, 1), CUDA_SUCCESS); // the byte was 101
	CHECK_INT(cuMemsetD8_v2(big + BIG - 1, 1, 1), CUDA_SUCCESS); // the byte was 0
	out_and_in_with(2);
	CHECK_INT(cuMemsetD8_v2(big + BLOCK, 101, 1), CUDA_SUCCESS);
	CHECK_INT(cuMemsetD8_v2(big + BIG - 1, 0, 1), CUDA_SUCCESS);
	out_and_in_with(2); // the host already has these bytes, from the previous move
	check_all();
	// Swaps the contents of two blocks.
	fill(big, BLOCK, 101);
	fill(big + BLOCK, BLOCK, 100);
	out_and_in_with(2);
	fill(big, BLOCK, 100);
	fill(big + BLOCK, BLOCK, 101);
	// Changes the last byte of an allocation that ends within a block, writes the same bytes again, and changes a
	// handle without a mapping.
	CHECK_INT(cuMemsetD8_v2(small + PAIR - 4097, 1, 1), CUDA_SUCCESS); // the byte was 0
	fill(second_alias + BLOCK, BLOCK, 301);				   // writes the same contents as before
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

// Makes all copies after the second move fail: the pager records an event for each copy, and the later records fail.
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

// The test allocates ROOMS times ROOM bytes, which fill the swap. It then replaces two of these allocations by a larger
// and a smaller one. The larger one does not fit in the host memory that the replaced allocation had.
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
	// All blocks are copied, since the memory goes to another place in the host.
	out_and_in_with(ROOMS * ROOM / BLOCK);
	out_and_in_with(0);
	check_blocks(memory[0], ROOM + BLOCK, 50);
	check_blocks(memory[1], ROOM, 10);
	check_blocks(memory[2], ROOM - BLOCK, 60);
	// With this block, the allocations need one block more host memory than the swap allows.
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

// Makes a move fail after all blocks were hashed and some of them were copied.
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
	fill_by_blocks(big, BIG, 100); // writes the same contents as in the host's copy
	fill_by_blocks(alias, PAIR, 300);
	move_out_and_in();
	check_all();
	out_and_in_with(0);
	check_all();
}

TEST(failed_moves_leave_no_stale_copies)
{
	// Calls that fail in turn. Each move to the host hashes the blocks and copies their digests once. The first
	// move also copies four chunks.
	static const char *const faults[] = {
		"cuMemcpyDtoHAsync_v2:7=CUDA_ERROR_UNKNOWN",
		"cuMemcpyDtoHAsync_v2:8=CUDA_ERROR_UNKNOWN",
		"cuEventRecord:9=CUDA_ERROR_UNKNOWN",
		"cuEventSynchronize:10=CUDA_ERROR_UNKNOWN",
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
	move_out_and_in(); // launches of the hash kernel succeed from here on
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

// Tests a driver's function that fails only once.
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
	// Unloads the module with its context, and loads it in another context.
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
