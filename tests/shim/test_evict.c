// Tests what a program notices of its evictable memory.
#include <pthread.h>

#include "evictable.h"

enum { BIG = 300 << 20, SMALL = 3 << 20 };

static void moves_body(void)
{
	CUdeviceptr big, small, tiny;
	uint64_t before;

	start();
	CHECK_INT(cuMemAlloc_v2(&tiny, 4096), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&small, SMALL), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&big, BIG), CUDA_SUCCESS);
	fill(tiny, 4096, 1);
	fill(small, SMALL, 2);
	fill(big, BIG, 3);
	fill(big + BIG - 64, 64, 4);
	CHECK_INT(slot->state, PAGER_RUNNING);
	CHECK_INT(slot->bytes, BIG + SMALL + (1 << 20)); // charged in blocks of 2 MiB
	before = vg_ledger_charged(tenant_ledger);
	for (int i = 0; i < 3; i++) {
		move_out(PAGER_OUT);
		CHECK_INT(slot->host, slot->bytes);
		move_out(PAGER_OUT); // repeats the request, which has no effect
		move_in(PAGER_RUNNING);
		CHECK_INT(slot->host, 0);
		CHECK_INT(slot->moves, i + 1);
		CHECK(slot->moved_ns > 0);
	}
	CHECK_INT(vg_ledger_charged(tenant_ledger), before);
	check_filled(tiny, 4096, 1);
	check_filled(small, SMALL, 2);
	check_filled(big, BIG - 64, 3);
	check_filled(big + BIG - 64, 64, 4);
	CHECK_INT(cuMemFree_v2(big), CUDA_SUCCESS);
	CHECK_INT(cuMemFree_v2(small), CUDA_SUCCESS);
	CHECK_INT(slot->bytes, 0);
	CHECK_INT(cuMemFree_v2(big), CUDA_ERROR_INVALID_VALUE);
}

TEST(memory_moves_to_the_host_and_back)
{
	run_evictable(moves_body);
}

// Tests a vGPU whose limit is larger than the device, so that the device decides how much memory is free.
static void room_body(void)
{
	CUdeviceptr big;
	size_t before, out;

	start();
	CHECK_INT(cuMemAlloc_v2(&big, BIG), CUDA_SUCCESS);
	before = free_on_device();
	move_out(PAGER_OUT);
	out = free_on_device();
	CHECK_INT(out - before, BIG);
	move_in(PAGER_RUNNING);
	CHECK_INT(free_on_device(), before);
}

TEST(device_memory_is_free_while_evicted)
{
	tenant_flags = VG_LEDGER_EVICTABLE;
	tenant_swap = GIB;
	TENANT(16 * GIB, 16 * MIB, room_body);
}

static _Atomic int step;

static void *launch_when_away(void *address)
{
	CHECK_INT(cuCtxSetCurrent(context), CUDA_SUCCESS);
	step = 1;
	fill((CUdeviceptr)(uintptr_t)address, SMALL, 7);
	step = 2;
	return NULL;
}

static void waits_body(void)
{
	CUdeviceptr memory;
	pthread_t thread;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, SMALL), CUDA_SUCCESS);
	move_out(PAGER_OUT);
	CHECK_INT(pthread_create(&thread, NULL, launch_when_away, (void *)(uintptr_t)memory), 0);
	while (slot->waiting == 0)
		pause_ms(1);
	CHECK_INT(slot->waiting, 1);
	CHECK_INT(step, 1);
	// This call uses no device memory, so it does not wait.
	CHECK_INT(cuCtxSynchronize(), CUDA_SUCCESS);
	CHECK_INT(cuStreamQuery(stream), CUDA_SUCCESS);
	move_in(PAGER_RUNNING);
	CHECK_INT(pthread_join(thread, NULL), 0);
	CHECK_INT(step, 2);
	CHECK_INT(slot->waiting, 0);
	CHECK(slot->waited_ns > 0);
	check_filled(memory, SMALL, 7);
}

TEST(launches_wait_until_the_memory_is_back)
{
	run_evictable(waits_body);
}

// A new process of a suspended vGPU reads the request to suspend before it allocates.
static void *allocate_when_away(void *unused)
{
	CUdeviceptr memory;

	(void)unused;
	CHECK_INT(cuCtxSetCurrent(context), CUDA_SUCCESS);
	step = 1;
	CHECK_INT(cuMemAlloc_v2(&memory, SMALL), CUDA_SUCCESS);
	fill(memory, SMALL, 9);
	check_filled(memory, SMALL, 9);
	step = 2;
	return NULL;
}

static void late_body(void)
{
	pthread_t thread;

	atomic_store(&vg_ledger_pager_page(tenant_ledger)->out, 1);
	start();
	while (slot->state != PAGER_OUT)
		pause_ms(1);
	CHECK_INT(pthread_create(&thread, NULL, allocate_when_away, NULL), 0);
	while (slot->waiting == 0)
		pause_ms(1);
	CHECK_INT(step, 1);
	CHECK_INT(slot->bytes, 0);
	atomic_store(&vg_ledger_pager_page(tenant_ledger)->out, 0);
	move_in(PAGER_RUNNING);
	CHECK_INT(pthread_join(thread, NULL), 0);
	CHECK_INT(step, 2);
}

TEST(new_processes_of_a_suspended_vgpu_wait)
{
	run_evictable(late_body);
}

static void activity_body(void)
{
	CUdeviceptr memory;
	uint64_t before;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, SMALL), CUDA_SUCCESS);
	pause_ms(50);
	// the daemon has not asked yet, so the process has not written when it last used the device
	CHECK_INT(slot->active_ns, 0);
	atomic_store(&vg_ledger_pager_page(tenant_ledger)->ask_ms, 10);
	request_move(false, 0);
	pause_ms(50);
	for (int i = 0; i < 20; i++, pause_ms(5))
		fill(memory, 64, 1);
	CHECK(slot->active_ns > 0);
	pause_ms(50);
	before = slot->active_ns;
	pause_ms(100);
	CHECK_INT(slot->active_ns, before);
	move_out(PAGER_OUT);
	move_in(PAGER_RUNNING);
	fill(memory, 64, 2);
	pause_ms(50);
	CHECK(slot->active_ns > before);
}

TEST(the_pager_notes_use_of_the_device)
{
	run_evictable(activity_body);
}

// Makes a thread's first call that must pass the pager's gate. For this call, the stub calls pager_gate_wait(). It must
// keep the floating-point arguments of the driver function meanwhile.
static void *set_clamp(void *reference)
{
	CHECK_INT(cuCtxSetCurrent(context), CUDA_SUCCESS);
	CHECK_INT(cuTexRefSetMipmapLevelClamp(reference, 1.5f, 2.5f), CUDA_SUCCESS);
	return NULL;
}

static void *copy_in(void *address)
{
	static char bytes[64] = "copied";
	CUDA_MEMCPY3D_PEER copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
				   .srcHost = bytes,
				   .dstMemoryType = CU_MEMORYTYPE_DEVICE,
				   .dstDevice = (CUdeviceptr)(uintptr_t)address,
				   .srcContext = context,
				   .dstContext = context,
				   .WidthInBytes = sizeof bytes,
				   .Height = 1,
				   .Depth = 1};

	CHECK_INT(cuCtxSetCurrent(context), CUDA_SUCCESS);
	CHECK_INT(cuMemcpy3DPeer(&copy), CUDA_SUCCESS);
	return NULL;
}

static void arguments_body(void)
{
	float least = 0, most = 0;
	char bytes[64] = "";
	CUtexref reference;
	CUdeviceptr memory;
	pthread_t thread;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, SMALL), CUDA_SUCCESS);
	CHECK_INT(cuTexRefCreate(&reference), CUDA_SUCCESS);
	CHECK_INT(pthread_create(&thread, NULL, set_clamp, reference), 0);
	CHECK_INT(pthread_join(thread, NULL), 0);
	CHECK_INT(cuTexRefGetMipmapLevelClamp(&least, &most, reference), CUDA_SUCCESS);
	CHECK(least == 1.5f && most == 2.5f);
	CHECK_INT(pthread_create(&thread, NULL, copy_in, (void *)(uintptr_t)memory), 0);
	CHECK_INT(pthread_join(thread, NULL), 0);
	CHECK_INT(cuMemcpyDtoH_v2(bytes, memory, sizeof bytes), CUDA_SUCCESS);
	CHECK_STR(bytes, "copied");
}

TEST(arguments_pass_the_gate_of_a_new_thread)
{
	run_evictable(arguments_body);
}

static void block_until_told(void *told)
{
	while (!*(_Atomic int *)told)
		pause_ms(1);
}

static void give_up(enum pager_reason reason)
{
	request_move(true, 100);
	wait_for_answer();
	CHECK_INT(slot->state, PAGER_RUNNING);
	CHECK_INT(slot->reason, reason);
	CHECK_INT(slot->host, 0);
	request_move(false, 0);
	wait_for_answer();
}

static void *copy_behind_a_block(void *address)
{
	static char bytes[64];

	CHECK_INT(cuCtxSetCurrent(context), CUDA_SUCCESS);
	step = 1;
	CHECK_INT(cuMemcpyDtoH_v2(bytes, (CUdeviceptr)(uintptr_t)address, sizeof bytes), CUDA_SUCCESS);
	return NULL;
}

static void busy_body(void)
{
	static _Atomic int told;
	CUdeviceptr memory;
	CUgraph graph;
	pthread_t thread;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, SMALL), CUDA_SUCCESS);
	fill(memory, SMALL, 5);
	// Starts GPU work that does not end.
	CHECK_INT(cuLaunchHostFunc(stream, block_until_told, &told), CUDA_SUCCESS);
	give_up(PAGER_GPU);
	told = 1;
	CHECK_INT(cuStreamSynchronize(stream), CUDA_SUCCESS);
	// Runs a thread whose driver call does not return until `told` is 1.
	told = 0;
	CHECK_INT(cuLaunchHostFunc(NULL, block_until_told, &told), CUDA_SUCCESS);
	CHECK_INT(pthread_create(&thread, NULL, copy_behind_a_block, (void *)(uintptr_t)memory), 0);
	while (step == 0)
		pause_ms(1);
	pause_ms(50);
	give_up(PAGER_THREAD);
	CHECK_INT(slot->row, VG_ENTRY_cuMemcpyDtoH_v2);
	told = 1;
	CHECK_INT(pthread_join(thread, NULL), 0);
	// Starts a capture that does not end.
	CHECK_INT(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
	give_up(PAGER_CAPTURE);
	CHECK_INT(cuMemsetD32Async(memory, 6, SMALL / 4, stream), CUDA_SUCCESS);
	CHECK_INT(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
	check_filled(memory, SMALL, 5);
	move_out(PAGER_OUT);
	move_in(PAGER_RUNNING);
	check_filled(memory, SMALL, 5);
}

TEST(processes_that_cannot_leave_in_time_continue)
{
	run_evictable(busy_body);
}

static void sleep_some(void *unused)
{
	(void)unused;
	pause_ms(200);
}

static void in_flight_body(void)
{
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, SMALL), CUDA_SUCCESS);
	fill(memory, SMALL, 5);
	for (uint32_t i = 6; i < 9; i++) {
		CHECK_INT(cuLaunchHostFunc(stream, sleep_some, NULL), CUDA_SUCCESS);
		CHECK_INT(cuMemsetD32Async(memory, i, SMALL / 4, stream), CUDA_SUCCESS);
		move_out(PAGER_OUT);
		move_in(PAGER_RUNNING);
		check_filled(memory, SMALL, i);
	}
}

TEST(work_in_flight_ends_before_the_memory_leaves)
{
	run_evictable(in_flight_body);
}

static void no_room_body(void)
{
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, 64 << 20), CUDA_SUCCESS);
	fill(memory, 64 << 20, 8);
	give_up(PAGER_HOST);
	CHECK_INT(slot->missing, 24 << 20);
	check_filled(memory, 64 << 20, 8);
}

TEST(memory_beyond_the_swap_stays_on_the_device)
{
	tenant_flags = VG_LEDGER_EVICTABLE;
	tenant_swap = 40 * MIB;
	TENANT(950 * MIB, 16 * MIB, no_room_body);
}

static void returns_later_body(void)
{
	CUdeviceptr memory;
	pid_t other;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, BIG), CUDA_SUCCESS);
	fill(memory, BIG, 11);
	move_out(PAGER_OUT);
	other = occupy_device(free_on_device() - (BIG / 2));
	request_move(false, 0);
	while (slot->reason != PAGER_DEVICE)
		pause_ms(1);
	CHECK(slot->missing > 0);
	CHECK(slot->answered != slot->bell);
	kill(other, SIGKILL);
	CHECK_INT(waitpid(other, NULL, 0), other);
	wait_for_answer();
	CHECK_INT(slot->state, PAGER_RUNNING);
	CHECK_INT(slot->reason, PAGER_DONE);
	check_filled(memory, BIG, 11);
}

TEST(memory_returns_as_soon_as_the_device_has_room)
{
	tenant_flags = VG_LEDGER_EVICTABLE;
	tenant_swap = GIB;
	TENANT(16 * GIB, 16 * MIB, returns_later_body);
}

static void context_body(void)
{
	CUcontext own;
	CUdeviceptr memory, other;
	uint64_t before;

	start();
	before = vg_ledger_charged(tenant_ledger);
	CHECK_INT(cuCtxCreate_v2(&own, 0, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&memory, SMALL), CUDA_SUCCESS);
	CHECK_INT(cuCtxSetCurrent(context), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&other, SMALL), CUDA_SUCCESS);
	fill(other, SMALL, 12);
	move_out(PAGER_OUT);
	move_in(PAGER_RUNNING);
	CHECK_INT(cuCtxDestroy_v2(own), CUDA_SUCCESS);
	CHECK_INT(slot->bytes, 4 << 20); // only the memory of the other context is left, in two blocks of 2 MiB
	move_out(PAGER_OUT);
	move_in(PAGER_RUNNING);
	check_filled(other, SMALL, 12);
	CHECK_INT(cuMemFree_v2(other), CUDA_SUCCESS);
	CHECK_INT(vg_ledger_charged(tenant_ledger), before);
	CHECK_INT(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
	CHECK_INT(vg_ledger_charged(tenant_ledger), 0);
}

TEST(memory_is_freed_with_its_context)
{
	run_evictable(context_body);
}

static int error_ends[2], saved_stderr;

static void begin_reading_errors(void)
{
	saved_stderr = dup(STDERR_FILENO);
	CHECK_INT(pipe(error_ends), 0);
	dup2(error_ends[1], STDERR_FILENO);
}

// Restores standard error. Returns the text that was written to it after begin_reading_errors().
static const char *end_reading_errors(void)
{
	static char text[1024];

	dup2(saved_stderr, STDERR_FILENO);
	close(error_ends[1]);
	ssize_t count = read(error_ends[0], text, sizeof text - 1);
	text[count > 0 ? count : 0] = '\0';
	close(error_ends[0]);
	return text;
}

// Checks that the memory cannot be shared, and that the process says so once.
static void check_not_shared(CUdeviceptr memory)
{
	CUipcMemHandle handle;

	begin_reading_errors();
	for (int i = 0; i < 2; i++)
		CHECK_INT(cuIpcGetMemHandle(&handle, memory), CUDA_ERROR_NOT_SUPPORTED);
	const char *text = end_reading_errors();
	CHECK_CONTAINS(text, "cuIpcGetMemHandle: memory that can move to the host cannot be shared");
	CHECK_CONTAINS(text, "needs a vGPU without --evictable");
	CHECK(strchr(text, '\n') == text + strlen(text) - 1);
}

static void attributes_body(void)
{
	static const CUpointer_attribute same[] = {
		CU_POINTER_ATTRIBUTE_CONTEXT,	   CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
		CU_POINTER_ATTRIBUTE_IS_MANAGED,   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE,   CU_POINTER_ATTRIBUTE_MAPPED,
		CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
	};
	enum { COUNT = sizeof same / sizeof *same };
	void *driver = dlopen(getenv("VIRGATE_DRIVER"), RTLD_NOW);
	CUresult (*allocate)(CUdeviceptr *, size_t) =
		(CUresult(*)(CUdeviceptr *, size_t))dlsym(driver, "cuMemAlloc_v2");
	uint64_t ours[COUNT] = {0}, theirs[COUNT] = {0};
	void *to_ours[COUNT], *to_theirs[COUNT];
	CUdeviceptr memory, plain, base;
	size_t size;
	int no = 1, yes = 1;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, SMALL), CUDA_SUCCESS);
	CHECK_INT(allocate(&plain, SMALL), CUDA_SUCCESS);
	for (int away = 0; away < 2; away++) {
		for (int i = 0; i < COUNT; i++) {
			CUresult one = cuPointerGetAttribute(&ours[i], same[i], memory + 100);
			CHECK_INT(one, cuPointerGetAttribute(&theirs[i], same[i], plain + 100));
			if (one == CUDA_SUCCESS && ours[i] != theirs[i])
				FAIL("attribute %d: %#llx, not %#llx", same[i], (unsigned long long)ours[i],
				     (unsigned long long)theirs[i]);
			to_ours[i] = &ours[i];
			to_theirs[i] = &theirs[i];
		}
		memset(ours, 0xaa, sizeof ours);
		memset(theirs, 0xaa, sizeof theirs);
		CHECK_INT(cuPointerGetAttributes(COUNT, (CUpointer_attribute *)same, to_ours, memory + 100),
			  CUDA_SUCCESS);
		CHECK_INT(cuPointerGetAttributes(COUNT, (CUpointer_attribute *)same, to_theirs, plain + 100),
			  CUDA_SUCCESS);
		for (int i = 0; i < COUNT; i++)
			if (ours[i] != theirs[i])
				FAIL("of many, attribute %d: %#llx, not %#llx", same[i], (unsigned long long)ours[i],
				     (unsigned long long)theirs[i]);
		CHECK_INT(cuMemGetAddressRange_v2(&base, &size, memory + SMALL - 1), CUDA_SUCCESS);
		CHECK_INT(base, memory);
		CHECK_INT(size, SMALL);
		if (!away)
			move_out(PAGER_OUT);
	}
	move_in(PAGER_RUNNING);
	CHECK_INT(cuPointerGetAttribute(&no, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, memory), CUDA_SUCCESS);
	CHECK_INT(no, 0);
	check_not_shared(memory);
	CHECK_INT(cuMemUnmap(memory, 4 << 20), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory), CUDA_SUCCESS);
	CHECK_INT(cuPointerGetAttribute(&no, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory), CUDA_SUCCESS);
	CHECK_INT(no, 1);
}

TEST(queries_answer_as_for_other_memory_while_evicted)
{
	run_evictable(attributes_body);
}

// Tests the fixed part of the memory. A context takes 16 MiB of the device in this test.
static void fixed_body(void)
{
	CUdeviceptr pooled, small, big, pitched;
	CUmemGenericAllocationHandle handle;
	const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
						.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
						.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL};
	size_t pitch;

	start();
	CHECK_INT(cuMemAlloc_v2(&big, BIG), CUDA_SUCCESS);
	CHECK_INT(cuMemAllocPitch_v2(&pitched, &pitch, 1000, 40000, 4), CUDA_SUCCESS);
	CHECK_INT(pitch, 1024);
	CHECK_INT(slot->bytes, BIG + (40 << 20));
	CHECK_INT(slot->charged, slot->bytes);
	CHECK_INT(cuMemAlloc_v2(&small, 1000), CUDA_SUCCESS);
	CHECK_INT(cuMemCreate(&handle, 30 << 20, &properties, 0), CUDA_SUCCESS);
	begin_reading_errors();
	CHECK_INT(cuMemAllocAsync(&pooled, 64 << 20, stream), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_CONTAINS(end_reading_errors(), "cuMemAllocAsync asked for 64 MiB that cannot move to the host, and 48 of "
					     "50 MiB (--fixed) are used: allocate with cudaMalloc, not from pools, or "
					     "create the vGPU with more --fixed\n");
	CHECK_INT(vg_ledger_refusal_count(tenant_ledger), 1);
	CHECK_INT(cuMemRelease(handle), CUDA_SUCCESS);
	CHECK_INT(cuMemCreate(&handle, 34 << 20, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(cuMemCreate(&handle, 30 << 20, &properties, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemAllocPitch_v2(&pitched, &pitch, 1000, 40000, 3), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(slot->charged, BIG + (40 << 20));
	CHECK_INT(cuMemFree_v2(big), CUDA_SUCCESS);
	CHECK_INT(slot->charged, 40 << 20);
}

TEST(fixed_memory_is_limited_by_the_fixed_part)
{
	run_with_fixed_part(fixed_body);
}

static void fork_body(void)
{
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, SMALL), CUDA_SUCCESS);
	fill(memory, SMALL, 13);
	move_out(PAGER_OUT);
	pid_t child = fork();
	if (child == 0)
		_exit(cuMemsetD32_v2(memory, 1, 4) == CUDA_SUCCESS);
	CHECK_CHILD(child); // the process did not hang
	move_in(PAGER_RUNNING);
	check_filled(memory, SMALL, 13);
	move_out(PAGER_OUT); // ask for the move, so that the process exits while its memory is in the host
}

TEST(forked_children_do_not_wait_and_suspended_processes_can_exit)
{
	run_evictable(fork_body);
}
