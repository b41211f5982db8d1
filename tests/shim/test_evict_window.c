// Tests a restored process that gets its device memory through a window (pager/window.h).
#include <sched.h>
#include <sys/mount.h>

#include "windowed.h"

// Sizes of memory: two chunks, the second one with one block; and more blocks than the smallest window has places.
enum { TWO_CHUNKS = 130 << 20, CHUNK_BLOCKS = 64, LARGE = 390 << 20 };
enum { EXIT_LOST = 125 };

// Fills each block of the memory with another word, so that a block in a wrong place is noticed.
static void fill_blocks(CUdeviceptr address, size_t bytes, uint32_t first)
{
	for (size_t at = 0; at < bytes; at += BLOCK)
		fill(address + at, bytes - at < BLOCK ? bytes - at : BLOCK, first + (uint32_t)(at / BLOCK));
}

static void check_blocks(CUdeviceptr address, size_t bytes, uint32_t first)
{
	for (size_t at = 0; at < bytes; at += BLOCK)
		check_filled(address + at, bytes - at < BLOCK ? bytes - at : BLOCK, first + (uint32_t)(at / BLOCK));
}

// Runs `body` with a limit and a swap that are larger than the device.
static void run_with_wide_limit(void (*body)(void))
{
	tenant_flags = VG_LEDGER_EVICTABLE;
	tenant_swap = GIB;
	TENANT(16 * GIB, 16 * MIB, body);
}

// ---- memory comes back ---------------------------------------------------------------------------------

static CUdeviceptr map_handle(CUmemGenericAllocationHandle handle, size_t size)
{
	const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
					.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr address;

	CHECK_INT(cuMemAddressReserve(&address, size, 0, 0, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemMap(address, size, 0, handle, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemSetAccess(address, size, &access, 1), CUDA_SUCCESS);
	return address;
}

static CUmemGenericAllocationHandle make_handle(size_t size)
{
	const CUmemAllocationProp plain = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
	CUmemGenericAllocationHandle handle;

	CHECK_INT(cuMemCreate(&handle, size, &plain, 0), CUDA_SUCCESS);
	return handle;
}

// Suspends, resumes and parks the process, as after any other restore.
static void check_moves_on(uint32_t request_number)
{
	move_out(PAGER_OUT);
	CHECK_INT(slot->host, slot->bytes);
	move_in(PAGER_RUNNING);
	park(request_number);
	unpark(PAGER_RUNNING);
}

static void kinds_body(void)
{
	static const size_t sizes[] = {TWO_CHUNKS, SMALL, 2 * BLOCK, 4096, FEW + 512};
	enum { COUNT = sizeof sizes / sizeof *sizes };
	CUdeviceptr memories[COUNT], first, second, freed;

	start();
	CHECK_INT(cuMemAlloc_v2(&freed, FEW), CUDA_SUCCESS);
	for (uint32_t i = 0; i < COUNT; i++)
		CHECK_INT(cuMemAlloc_v2(&memories[i], sizes[i]), CUDA_SUCCESS);
	move_out(PAGER_OUT);
	move_in(PAGER_RUNNING);
	CHECK_INT(cuMemFree_v2(freed), CUDA_SUCCESS);
	CUmemGenericAllocationHandle handle = make_handle(FEW);
	make_handle(FEW); // is mapped nowhere, so the pager maps it for the copies
	first = map_handle(handle, FEW);
	second = map_handle(handle, FEW);
	for (uint32_t round = 1; round < 3; round++) {
		for (uint32_t i = 0; i < COUNT; i++)
			fill_blocks(memories[i], sizes[i], 1000 * i + round);
		fill_blocks(first, FEW, 9000 + round);
		park_for_window(round);
		restore_through_window();
		for (uint32_t i = 0; i < COUNT; i++)
			check_blocks(memories[i], sizes[i], 1000 * i + round);
		check_blocks(first, FEW, 9000 + round);
		check_blocks(second, FEW, 9000 + round);
	}
	check_moves_on(5);
	check_blocks(memories[0], sizes[0], 2);
	check_blocks(second, FEW, 9002);
}

TEST(memory_comes_through_the_window)
{
	run_evictable(kinds_body);
}

static void few_places_body(void)
{
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, LARGE), CUDA_SUCCESS);
	fill_blocks(memory, LARGE, 7);
	park(1);
	take_contents();
	CHECK(restore.blocks > WINDOW_LEAST);
	make_window(WINDOW_LEAST);
	let_run();
	serve(WINDOW_LEAST);
	wait_until_served(WINDOW_LEAST);
	// The process waits for the next block. It must give back only the places of the chunk whose copy has ended.
	for (int i = 0; i < 5000 && restore.head->taken == 0; i++)
		pause_ms(1);
	CHECK_INT(restore.head->taken, CHUNK_BLOCKS);
	complete_restore();
	check_blocks(memory, LARGE, 7);
}

TEST(places_of_the_smallest_window_are_used_again)
{
	run_evictable(few_places_body);
}

// Tests a file system of 64 MiB. In the second restore, the end of the memory lies in anonymous host memory, which is
// in the process and not in the window. One allocation has parts in both.
static void mixed_body(void)
{
	enum { FIRST = 40 << 20, NEXT = 30 << 20 };
	CUdeviceptr memories[2];

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", PAGER_FILE_DIRECTORY, "tmpfs", 0, "size=64m") < 0)
		return; // only root may mount a file system
	start();
	CHECK_INT(cuMemAlloc_v2(&memories[0], FIRST), CUDA_SUCCESS);
	fill_blocks(memories[0], FIRST, 1);
	park_for_window(1);
	restore_through_window();
	check_blocks(memories[0], FIRST, 1);
	move_out(PAGER_OUT);
	move_in(PAGER_RUNNING);
	CHECK_INT(cuMemFree_v2(memories[0]), CUDA_SUCCESS);
	for (uint32_t i = 0; i < 2; i++) {
		CHECK_INT(cuMemAlloc_v2(&memories[i], NEXT), CUDA_SUCCESS);
		fill_blocks(memories[i], NEXT, 100 * (i + 1));
	}
	park_for_window(2);
	CHECK_INT(restore.blocks, FIRST / BLOCK);
	CHECK_INT(slot->bytes, 2 * NEXT);
	restore_through_window();
	for (uint32_t i = 0; i < 2; i++)
		check_blocks(memories[i], NEXT, 100 * (i + 1));
}

TEST(memory_without_a_file_does_not_come_through_the_window)
{
	run_evictable(mixed_body);
}

static void forked_body(void)
{
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, FEW), CUDA_SUCCESS);
	fill_blocks(memory, FEW, 5);
	park_for_window(1);
	let_run();
	wait_while(WINDOW_IDLE);
	pid_t child = fork();
	if (child == 0) {
		munmap(restore.head, window_places_at(restore.blocks));
		close(restore.fd);
		_exit(count_descriptors() == 0 && count_mappings() == 0 ? 0 : 1);
	}
	CHECK_CHILD(child);
	serve(UINT64_MAX);
	wait_for_answer();
	check_state(PAGER_RUNNING, PAGER_DONE);
	close_window();
	check_no_host_memory();
	check_blocks(memory, FEW, 5);
}

TEST(forked_children_inherit_no_window)
{
	run_evictable(forked_body);
}

// ---- declined windows ----------------------------------------------------------------------------------

static CUdeviceptr prepare(size_t bytes)
{
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, bytes), CUDA_SUCCESS);
	fill_blocks(memory, bytes, 3);
	park_for_window(1);
	return memory;
}

static void check_lives_on(CUdeviceptr memory, size_t bytes)
{
	check_blocks(memory, bytes, 3);
	park_for_window(100);
	restore_through_window();
	check_blocks(memory, bytes, 3);
}

static void suspended_body(void)
{
	CUdeviceptr memory = prepare(FEW);

	atomic_store(&slot->out, 1);
	let_run();
	exchange();
	wait_for_answer();
	check_state(PAGER_OUT, PAGER_DONE);
	CHECK_INT(slot->host, slot->bytes);
	move_in(PAGER_RUNNING);
	check_lives_on(memory, FEW);
}

static void vgpu_suspended_body(void)
{
	struct pager_page *page = vg_ledger_pager_page(tenant_ledger);
	CUdeviceptr memory = prepare(FEW);

	atomic_store(&page->out, 1);
	let_run();
	exchange();
	wait_for_answer();
	check_state(PAGER_OUT, PAGER_DONE);
	atomic_store(&page->out, 0);
	move_in(PAGER_RUNNING);
	check_lives_on(memory, FEW);
}

// Another dump begins before the process has its memory.
static void parked_body(void)
{
	CUdeviceptr memory = prepare(FEW);

	offer(&restore.file, PAGER_WINDOW);
	atomic_store(&slot->park, 2);
	ring_bell();
	exchange();
	wait_for_answer();
	check_state(PAGER_PARKED, PAGER_DONE);
	take_contents();
	make_usual_window();
	restore_through_window();
	check_lives_on(memory, FEW);
}

TEST(memory_that_must_wait_in_the_host_comes_in_a_file)
{
	run_evictable(suspended_body);
	run_evictable(vgpu_suspended_body);
	run_evictable(parked_body);
}

static void closed_body(void)
{
	CUdeviceptr memory = prepare(FEW);

	restore.head->closed = 1;
	let_run();
	exchange();
	wait_for_answer();
	check_state(PAGER_RUNNING, PAGER_DONE);
	check_lives_on(memory, FEW);
}

TEST(a_closed_window_is_not_used)
{
	run_evictable(closed_body);
}

static void end_child(pid_t child)
{
	kill(child, SIGKILL);
	CHECK_INT(waitpid(child, NULL, 0), child);
}

// Starts a process that leaves so many bytes of the device free.
static pid_t leave_free(size_t bytes)
{
	enum { CONTEXT = 16 << 20 };
	pid_t child = occupy_device(free_on_device() - CONTEXT - bytes);

	CHECK_INT(free_on_device(), bytes);
	return child;
}

static void no_room_body(void)
{
	CUdeviceptr memory = prepare(FEW);
	pid_t other = leave_free(FEW - BLOCK);

	let_run();
	wait_while(WINDOW_IDLE);
	wait_while(WINDOW_READING);
	CHECK_INT(restore.head->taken, 0);
	CHECK_INT(free_on_device(), FEW - BLOCK);
	exchange();
	while (slot->reason != PAGER_DEVICE)
		pause_ms(1);
	end_child(other);
	wait_for_answer();
	check_state(PAGER_RUNNING, PAGER_DONE);
	check_lives_on(memory, FEW);
}

TEST(memory_for_which_the_device_has_no_room_comes_in_a_file)
{
	run_with_wide_limit(no_room_body);
}

// The process keeps the first chunks and waits for room, because other memory is leaving the device. Then it must leave
// the device, too.
static void half_body(void)
{
	CUdeviceptr memory = prepare(TWO_CHUNKS);
	pid_t other = leave_free(TWO_CHUNKS - BLOCK);

	atomic_store(&vg_ledger_pager_page(tenant_ledger)->room_comes, 1);
	let_run();
	serve(UINT64_MAX);
	wait_while(WINDOW_IDLE);
	for (int i = 0; i < 5000 && restore.head->taken < CHUNK_BLOCKS; i++)
		pause_ms(1);
	CHECK_INT(restore.head->taken, CHUNK_BLOCKS);
	atomic_store(&slot->out, 1);
	exchange();
	wait_for_answer();
	check_state(PAGER_OUT, PAGER_DONE);
	CHECK_INT(slot->host, slot->bytes);
	CHECK_INT(free_on_device(), TWO_CHUNKS - BLOCK);
	end_child(other);
	move_in(PAGER_RUNNING);
	check_lives_on(memory, TWO_CHUNKS);
}

TEST(a_window_is_declined_after_a_part_of_the_memory)
{
	run_with_wide_limit(half_body);
}

// ---- lost memory ---------------------------------------------------------------------------------------

static int messages = -1; // a file that gets the standard error of the process

// Runs a process whose memory is lost: it must say so and end.
static void check_ends(void (*body)(void))
{
	static const char wanted[] =
		"virgate: vGPU train: cannot resume: the restore failed or ended before the memory was back; "
		"the program ends\n";
	char text[1024] = "";

	messages = memfd_create("messages", MFD_CLOEXEC);
	setenv("VIRGATE_LOG", "warning", 1);
	tenant_flags = VG_LEDGER_EVICTABLE;
	tenant_swap = 900 * MIB;
	tenant_new_ledger(950 * MIB, 16 * MIB);
	int status = tenant_run(body);
	unsetenv("VIRGATE_LOG");
	CHECK(pread(messages, text, sizeof text - 1, 0) >= 0);
	close(messages);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_LOST)
		FAIL("wait status %#x: %s", status, text);
	// The thread sanitizer adds that the thread which plays the restore was not joined.
	text[sizeof wanted - 1] = '\0';
	CHECK_STR(text, wanted);
	const struct pager_slot *left = vg_ledger_pager_slots(tenant_ledger);
	CHECK_INT(left->state, PAGER_BROKEN);
	CHECK_INT(left->reason, PAGER_RESTORE);
	const struct pager_file file = {left->file[0], left->file[1], left->file[2]};
	pager_file_sweep(0);
	CHECK_INT(access(format_path(&file), F_OK), -1);
}

static void prepare_to_end(size_t bytes)
{
	prepare(bytes);
	CHECK_INT(dup2(messages, STDERR_FILENO), STDERR_FILENO);
}

// Waits for the end of this process.
static void await_end(void)
{
	pause_ms(20000);
	FAIL("the process goes on in state %u", slot->state);
}

static void unlocked_body(void)
{
	prepare_to_end(FEW);
	flock(restore.fd, LOCK_UN);
	let_run();
	await_end();
}

static void removed_body(void)
{
	prepare_to_end(FEW);
	CHECK_INT(unlink(format_path(&restore.file)), 0);
	let_run();
	await_end();
}

static void unlocked_later_body(void)
{
	prepare_to_end(TWO_CHUNKS);
	let_run();
	serve(CHUNK_BLOCKS);
	wait_until_served(CHUNK_BLOCKS);
	flock(restore.fd, LOCK_UN);
	await_end();
}

static void unlocked_at_once_body(void)
{
	prepare_to_end(FEW);
	let_run();
	wait_while(WINDOW_IDLE);
	flock(restore.fd, LOCK_UN);
	await_end();
}

static void unlocked_after_decline_body(void)
{
	prepare_to_end(FEW);
	restore.head->closed = 1;
	let_run();
	wait_while(WINDOW_IDLE);
	wait_while(WINDOW_READING);
	CHECK_INT(restore.head->state, WINDOW_DECLINED);
	flock(restore.fd, LOCK_UN);
	await_end();
}

TEST(a_process_ends_with_its_restore)
{
	check_ends(unlocked_body);
	check_ends(removed_body);
	check_ends(unlocked_at_once_body);
	check_ends(unlocked_later_body);
	check_ends(unlocked_after_decline_body);
}

static void failed_body(void)
{
	prepare_to_end(TWO_CHUNKS);
	let_run();
	serve(CHUNK_BLOCKS);
	wait_until_served(CHUNK_BLOCKS);
	restore.head->failed = 1;
	await_end();
}

static void failed_at_once_body(void)
{
	prepare_to_end(FEW);
	restore.head->failed = 1;
	let_run();
	await_end();
}

// The head says that the memory has fewer blocks than the process needs.
static void too_few_blocks_body(void)
{
	prepare_to_end(FEW);
	restore.head->blocks--;
	let_run();
	serve(UINT64_MAX);
	await_end();
}

TEST(a_process_ends_if_its_memory_cannot_be_read)
{
	check_ends(failed_body);
	check_ends(failed_at_once_body);
	check_ends(too_few_blocks_body);
}

static void driver_body(void)
{
	CUdeviceptr memory = prepare(FEW);

	let_run();
	serve(UINT64_MAX);
	wait_for_answer();
	check_state(PAGER_BROKEN, PAGER_DRIVER);
	CHECK_INT(slot->row, CUDA_ERROR_UNKNOWN);
	CHECK_INT(restore.head->state, WINDOW_BROKEN);
	close_window();
	CHECK_INT(access(format_path(&restore.file), F_OK), -1);
	cuMemsetD8_v2(memory, 0, 1); // may succeed or fail, but does not hang
}

TEST(a_failed_copy_breaks_the_process)
{
	setenv("VIRGATE_SIM_FAULT", "cuMemcpyHtoDAsync_v2:3=CUDA_ERROR_UNKNOWN", 1);
	run_evictable(driver_body);
	unsetenv("VIRGATE_SIM_FAULT");
}

// ---- unsound heads -------------------------------------------------------------------------------------

static const struct unsound {
	const char *name;
	uint64_t blocks, places, size;
} unsounds[] =
	{
		{"no places", 3, 0, 4 * (uint64_t)BLOCK},
		{"too many places", WINDOW_MOST + 1, WINDOW_MOST + 1, (WINDOW_MOST + 2) * (uint64_t)BLOCK},
		{"a number of places without end", 3, UINT64_MAX, 4 * (uint64_t)BLOCK},
		{"too few places", 1000, WINDOW_LEAST - 1, (WINDOW_LEAST + 1) * (uint64_t)BLOCK},
		{"a list behind the end", UINT32_MAX, WINDOW_MOST, (WINDOW_MOST + 1) * (uint64_t)BLOCK},
		{"too many blocks", UINT64_MAX, 3, 4 * (uint64_t)BLOCK},
		{"places behind the end", 3, 3, 4 * (uint64_t)BLOCK - 1},
		{"no place in the file", 3, 3, BLOCK},
		{"a part of a head", 3, 3, 4096},
		{"an empty file", 3, 3, 0},
},
  *unsound;

static void unsound_body(void)
{
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, SMALL), CUDA_SUCCESS);
	park_for_window(1);
	restore.head->blocks = unsound->blocks;
	restore.head->places = unsound->places;
	CHECK_INT(ftruncate(restore.fd, (off_t)unsound->size), 0);
	let_run();
	wait_for_answer();
	check_state(PAGER_BROKEN, PAGER_FILE);
	CHECK_INT(slot->row, EINVAL);
	CHECK(cuMemsetD8_v2(memory, 0, 1) != CUDA_SUCCESS); // the call does not hang
	close_window();
	CHECK_INT(count_mappings(), 0);
	CHECK_INT(count_descriptors(), 0);
	CHECK_INT(unlink(format_path(&restore.file)), 0);
}

TEST(an_unsound_window_breaks_the_process)
{
	for (unsound = unsounds; unsound < unsounds + sizeof unsounds / sizeof *unsounds; unsound++) {
		printf("# %s\n", unsound->name);
		fflush(stdout);
		run_evictable(unsound_body);
	}
}
