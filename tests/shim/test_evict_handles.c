// Memory that the program makes with cuMemCreate and maps by itself, in an evictable vGPU.
#include <pthread.h>

#include "evictable.h"

enum { BLOCK = 2 << 20, SIZE = 6 << 20 };

static const CUmemAllocationProp plain = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location.type = CU_MEM_LOCATION_TYPE_DEVICE};

static CUmemGenericAllocationHandle make(size_t size)
{
	CUmemGenericAllocationHandle handle;

	CHECK_INT(cuMemCreate(&handle, size, &plain, 0), CUDA_SUCCESS);
	return handle;
}

static CUdeviceptr reserve(size_t size)
{
	CUdeviceptr address;

	CHECK_INT(cuMemAddressReserve(&address, size, 0, 0, 0), CUDA_SUCCESS);
	return address;
}

static void allow(CUdeviceptr address, size_t size, CUmemAccess_flags flags)
{
	const CUmemAccessDesc access = {.location = plain.location, .flags = flags};

	CHECK_INT(cuMemSetAccess(address, size, &access, 1), CUDA_SUCCESS);
}

static unsigned long long access_at(CUdeviceptr address)
{
	unsigned long long flags = 99;

	CHECK_INT(cuMemGetAccess(&flags, &plain.location, address), CUDA_SUCCESS);
	return flags;
}

static void map_at(CUdeviceptr address, size_t size, CUmemGenericAllocationHandle handle)
{
	CHECK_INT(cuMemMap(address, size, 0, handle, 0), CUDA_SUCCESS);
	allow(address, size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

static CUdeviceptr map_anywhere(size_t size, CUmemGenericAllocationHandle handle)
{
	CUdeviceptr address = reserve(size);

	map_at(address, size, handle);
	return address;
}

static void out_and_in(void)
{
	move(true, PAGER_OUT);
	CHECK_INT(slot->host, slot->bytes);
	move(false, PAGER_RUNNING);
	CHECK_INT(slot->host, 0);
}

static void one_mapping_body(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	uint64_t before;

	start();
	before = vg_ledger_charged(tenant_ledger);
	handle = make(SIZE);
	CHECK_INT(slot->bytes, SIZE);
	CHECK_INT(slot->charged, SIZE);
	CHECK_INT(vg_ledger_charged(tenant_ledger), before + SIZE);
	address = map_anywhere(SIZE, handle);
	fill(address, SIZE, 1);
	for (uint32_t i = 2; i < 5; i++) {
		out_and_in();
		check_filled(address, SIZE, i - 1);
		fill(address, SIZE, i);
	}
	CHECK_INT(vg_ledger_charged(tenant_ledger), before + SIZE);
	CHECK_INT(cuMemUnmap(address, SIZE), CUDA_SUCCESS);
	CHECK_INT(slot->bytes, SIZE);
	CHECK_INT(cuMemRelease(handle), CUDA_SUCCESS);
	CHECK_INT(slot->bytes, 0);
	CHECK_INT(slot->charged, 0);
	CHECK_INT(vg_ledger_charged(tenant_ledger), before);
	CHECK_INT(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemAddressFree(address, SIZE), CUDA_SUCCESS);
}

TEST(memory_of_a_handle_moves_to_the_host_and_back)
{
	run_evictable(one_mapping_body);
}

// Larger than a chunk of the pager, and mapped twice.
static void aliases_body(void)
{
	const size_t size = 150 << 20;
	CUmemGenericAllocationHandle handle;
	CUdeviceptr first, second;

	start();
	handle = make(size);
	first = map_anywhere(size, handle);
	second = map_anywhere(size, handle);
	fill(first, size, 1);
	CHECK_INT(slot->bytes, size); // once
	out_and_in();
	check_filled(second, size, 1);
	fill(second, SIZE, 2);
	check_filled(first, SIZE, 2); // still the same memory
	out_and_in();
	check_filled(first, SIZE, 2);
	check_filled(first + SIZE, size - SIZE, 1);
	CHECK_INT(cuMemUnmap(first, size), CUDA_SUCCESS);
	out_and_in();
	check_filled(second, SIZE, 2);
	CHECK_INT(cuMemGetAccess(&(unsigned long long){0}, &plain.location, first), CUDA_ERROR_INVALID_VALUE);
}

TEST(two_mappings_of_a_handle_are_one_memory)
{
	run_evictable(aliases_body);
}

static void parts_body(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	start();
	handle = make(SIZE);
	address = reserve(SIZE);
	// As the driver alone answers.
	CHECK_INT(cuMemMap(address, BLOCK, BLOCK, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
	CHECK_INT(cuMemMap(address, BLOCK, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
	CHECK_INT(cuMemMap(address, SIZE, 0, handle, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemMap(address + SIZE, SIZE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	out_and_in();
	map_at(address, SIZE, handle);
	fill(address, SIZE, 3);
	CHECK_INT(cuMemMap(address, SIZE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemUnmap(address, BLOCK), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemUnmap(address + BLOCK, SIZE - BLOCK), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemAddressFree(address, SIZE), CUDA_ERROR_INVALID_VALUE);
	out_and_in();
	check_filled(address, SIZE, 3);
}

TEST(what_the_driver_refuses_changes_nothing)
{
	run_evictable(parts_body);
}

static void nowhere_body(void)
{
	const size_t size = 150 << 20;
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	start();
	handle = make(size);
	address = map_anywhere(size, handle);
	fill(address, size, 4);
	CHECK_INT(cuMemUnmap(address, size), CUDA_SUCCESS);
	out_and_in();
	out_and_in();
	map_at(address, size, handle);
	check_filled(address, size, 4);
}

TEST(memory_that_is_mapped_nowhere_keeps_its_contents)
{
	run_evictable(nowhere_body);
}

static void read_only_body(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr read, none;

	start();
	handle = make(SIZE);
	read = map_anywhere(SIZE, handle);
	fill(read, SIZE, 5);
	allow(read, SIZE, CU_MEM_ACCESS_FLAGS_PROT_READ);
	none = reserve(SIZE);
	CHECK_INT(cuMemMap(none, SIZE, 0, handle, 0), CUDA_SUCCESS);
	out_and_in();
	CHECK_INT(access_at(read), CU_MEM_ACCESS_FLAGS_PROT_READ);
	CHECK_INT(access_at(none), CU_MEM_ACCESS_FLAGS_PROT_NONE);
	check_filled(read, SIZE, 5);
	CHECK_INT(cuMemsetD32_v2(read, 6, 4), CUDA_ERROR_INVALID_VALUE);
	allow(none, SIZE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	fill(none, SIZE, 7);
	out_and_in();
	check_filled(read, SIZE, 7);
	CHECK_INT(access_at(read), CU_MEM_ACCESS_FLAGS_PROT_READ);
	CHECK_INT(access_at(none), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

TEST(access_rights_come_back)
{
	run_evictable(read_only_body);
}

static void release_first_body(void)
{
	CUmemGenericAllocationHandle handle, again;
	CUdeviceptr address, other;
	uint64_t before;

	start();
	before = vg_ledger_charged(tenant_ledger);
	handle = make(SIZE);
	address = map_anywhere(SIZE, handle);
	fill(address, SIZE, 8);
	CHECK_INT(cuMemRelease(handle), CUDA_SUCCESS);
	CHECK_INT(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemMap(reserve(SIZE), SIZE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(slot->bytes, SIZE); // it lives while it is mapped
	out_and_in();
	CHECK_INT(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(address + SIZE - 1)), CUDA_SUCCESS);
	CHECK_INT(again, handle);
	CHECK_INT(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)address), CUDA_SUCCESS);
	out_and_in();
	other = map_anywhere(SIZE, again);
	CHECK_INT(cuMemRelease(again), CUDA_SUCCESS);
	CHECK_INT(cuMemRelease(again), CUDA_SUCCESS);
	CHECK_INT(cuMemUnmap(address, SIZE), CUDA_SUCCESS);
	CHECK_INT(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)address), CUDA_ERROR_INVALID_VALUE);
	out_and_in();
	check_filled(other, SIZE, 8);
	CHECK_INT(slot->charged, SIZE);
	CHECK_INT(cuMemUnmap(other, SIZE), CUDA_SUCCESS);
	CHECK_INT(slot->bytes, 0);
	CHECK_INT(slot->charged, 0);
	CHECK_INT(vg_ledger_charged(tenant_ledger), before);
	out_and_in();
}

TEST(memory_lives_as_long_as_its_handles_and_mappings)
{
	run_evictable(release_first_body);
}

// A large reservation to which segments are mapped one behind the other, as PyTorch does. Segments that go leave gaps,
// which others fill.
static void segments_body(void)
{
	static const size_t steps[] = {0, 1, 2, 3, 4, 1, 3, 3, 4, 5, 1, 0}; // what is there goes, what is not comes
	enum { COUNT = 6, SEGMENT = 20 << 20 };
	uint32_t values[COUNT] = {0};
	CUdeviceptr base;
	size_t live = 0;

	start();
	base = reserve(GIB);
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
		CUdeviceptr address = base + steps[i] * SEGMENT;
		if (values[steps[i]]) {
			CHECK_INT(cuMemUnmap(address, SEGMENT), CUDA_SUCCESS);
			values[steps[i]] = 0;
			live--;
		} else {
			CUmemGenericAllocationHandle handle = make(SEGMENT);
			map_at(address, SEGMENT, handle);
			CHECK_INT(cuMemRelease(handle), CUDA_SUCCESS);
			values[steps[i]] = (uint32_t)i + 1;
			fill(address, SEGMENT, values[steps[i]]);
			live++;
		}
		CHECK_INT(slot->bytes, live * SEGMENT);
		CHECK_INT(slot->charged, live * SEGMENT);
		if (i % 3 == 2)
			out_and_in();
	}
	CHECK_INT(live, 4);
	for (size_t i = 0; i < COUNT; i++)
		if (values[i])
			check_filled(base + i * SEGMENT, SEGMENT, values[i]);
	CHECK_INT(cuMemUnmap(base, COUNT * SEGMENT), CUDA_SUCCESS); // all at once
	CHECK_INT(slot->bytes, 0);
	CHECK_INT(slot->charged, 0);
	CHECK_INT(cuMemAddressFree(base, GIB), CUDA_SUCCESS);
}

TEST(segments_grow_and_shrink_between_moves)
{
	run_evictable(segments_body);
}

static void questions_body(void)
{
	CUmemAllocationProp properties = {0};
	CUmemGenericAllocationHandle handle;
	unsigned long long before, after, of_many;
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_BUFFER_ID;
	void *to = &of_many;
	CUdeviceptr address, base;
	size_t size;
	int descriptor;

	start();
	handle = make(SIZE);
	address = map_anywhere(SIZE, handle);
	CHECK_INT(cuPointerGetAttribute(&before, attribute, address + 5), CUDA_SUCCESS);
	out_and_in();
	CHECK_INT(cuPointerGetAttribute(&after, attribute, address), CUDA_SUCCESS);
	CHECK_INT(cuPointerGetAttributes(1, &attribute, &to, address), CUDA_SUCCESS);
	CHECK_INT(after, before);
	CHECK_INT(of_many, before);
	CHECK_INT(cuMemGetAddressRange_v2(&base, &size, address + SIZE - 1), CUDA_SUCCESS);
	CHECK_INT(base, address);
	CHECK_INT(size, SIZE);
	CHECK_INT(cuMemGetAllocationPropertiesFromHandle(&properties, handle), CUDA_SUCCESS);
	CHECK_INT(memcmp(&properties, &plain, sizeof plain), 0);
	CHECK_INT(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
		  CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemGetHandleForAddressRange(&descriptor, address, SIZE, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
		  CUDA_ERROR_NOT_SUPPORTED);
	CHECK_INT(cuMemRelease(handle), CUDA_SUCCESS);
	CHECK_INT(cuMemGetAllocationPropertiesFromHandle(&properties, handle), CUDA_ERROR_INVALID_VALUE);
}

TEST(questions_about_handles_are_answered_as_by_the_driver)
{
	run_evictable(questions_body);
}

// What a thread does while the memory is away.
static struct {
	CUmemGenericAllocationHandle handle, made;
	CUdeviceptr address, other;
} away;

static void call_map(void)
{
	map_at(away.other, SIZE, away.handle);
}

static void call_unmap(void)
{
	CHECK_INT(cuMemUnmap(away.other, SIZE), CUDA_SUCCESS);
}

static void call_create(void)
{
	away.made = make(SIZE);
}

static void call_release(void)
{
	CHECK_INT(cuMemRelease(away.made), CUDA_SUCCESS);
}

static void call_set_access(void)
{
	allow(away.address, SIZE, CU_MEM_ACCESS_FLAGS_PROT_READ);
}

static void call_get_access(void)
{
	CHECK_INT(access_at(away.address), CU_MEM_ACCESS_FLAGS_PROT_READ);
}

static void call_retain(void)
{
	CUmemGenericAllocationHandle again;

	CHECK_INT(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)away.address), CUDA_SUCCESS);
	CHECK_INT(again, away.handle);
	CHECK_INT(cuMemRelease(again), CUDA_SUCCESS);
}

static void call_properties(void)
{
	CUmemAllocationProp properties;

	CHECK_INT(cuMemGetAllocationPropertiesFromHandle(&properties, away.handle), CUDA_SUCCESS);
}

static void call_export(void)
{
	int descriptor;

	CHECK_INT(cuMemExportToShareableHandle(&descriptor, away.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
		  CUDA_ERROR_INVALID_VALUE);
}

static void call_address_free(void)
{
	CHECK_INT(cuMemAddressFree(away.address, SIZE), CUDA_ERROR_INVALID_VALUE);
}

static void call_attribute(void)
{
	int mapped = 0;

	CHECK_INT(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, away.address), CUDA_SUCCESS);
	CHECK_INT(mapped, 1);
}

static void call_attributes(void)
{
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MAPPED;
	int mapped = 0;
	void *to = &mapped;

	CHECK_INT(cuPointerGetAttributes(1, &attribute, &to, away.address), CUDA_SUCCESS);
	CHECK_INT(mapped, 1);
}

static void call_address_range(void)
{
	CUdeviceptr base;

	CHECK_INT(cuMemGetAddressRange_v2(&base, NULL, away.address + 100), CUDA_SUCCESS);
	CHECK_INT(base, away.address);
}

static void *run_call(void *call)
{
	CHECK_INT(cuCtxSetCurrent(context), CUDA_SUCCESS);
	(*(void (**)(void))call)();
	return NULL;
}

static void away_body(void)
{
	static void (*const calls[])(void) = {
		call_map, call_unmap, call_create, call_release, call_set_access, call_get_access, call_retain,
		call_properties, call_export, call_address_free, call_attribute, call_attributes, call_address_range,
	};

	start();
	away.handle = make(SIZE);
	away.address = map_anywhere(SIZE, away.handle);
	away.other = reserve(SIZE);
	fill(away.address, SIZE, 9);
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		pthread_t thread;
		move(true, PAGER_OUT);
		CHECK_INT(pthread_create(&thread, NULL, run_call, (void *)&calls[i]), 0);
		while (slot->waiting == 0)
			pause_ms(1);
		move(false, PAGER_RUNNING);
		CHECK_INT(pthread_join(thread, NULL), 0);
	}
	check_filled(away.address, SIZE, 9);
	CHECK_INT(slot->bytes, SIZE);
}

TEST(calls_wait_while_the_memory_is_away)
{
	run_evictable(away_body);
}

static void failures_body(void)
{
	CUmemGenericAllocationHandle handle = 1234;
	CUmemAllocationProp wrong = plain;
	uint64_t before;

	start();
	before = vg_ledger_charged(tenant_ledger);
	CHECK_INT(cuMemCreate(&handle, 900 << 20, &plain, 0), CUDA_ERROR_OUT_OF_MEMORY); // of the device's 1 GiB
	CHECK_INT(vg_ledger_refusal_count(tenant_ledger), 0);
	CHECK_INT(cuMemCreate(&handle, 2 * GIB, &plain, 0), CUDA_ERROR_OUT_OF_MEMORY); // of the quota
	CHECK_INT(vg_ledger_refusal_count(tenant_ledger), 1);
	CHECK_INT(cuMemCreate(&handle, BLOCK + 1, &plain, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemCreate(&handle, BLOCK, &plain, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemCreate(NULL, BLOCK, &plain, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemCreate(&handle, BLOCK, NULL, 0), CUDA_ERROR_INVALID_VALUE);
	wrong.location.id = 1;
	CHECK_INT(cuMemCreate(&handle, BLOCK, &wrong, 0), CUDA_ERROR_INVALID_DEVICE);
	CHECK_INT(handle, 1234);
	CHECK_INT(slot->bytes, 0);
	CHECK_INT(slot->charged, 0);
	CHECK_INT(vg_ledger_charged(tenant_ledger), before);
}

TEST(a_failed_creation_charges_nothing)
{
	setenv("VIRGATE_SIM_FAULT", "memory=800M", 1);
	tenant_flags = VG_LEDGER_EVICTABLE;
	tenant_swap = GIB;
	TENANT(GIB, 16 * MIB, failures_body);
	unsetenv("VIRGATE_SIM_FAULT");
}

// A context takes 16 MiB of the fixed 50.
static void fixed_body(void)
{
	CUmemAllocationProp exportable = plain, tiles = plain;
	CUmemGenericAllocationHandle handle, movable;
	CUdeviceptr address;

	exportable.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	tiles.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
	start();
	movable = make(40 << 20);
	CHECK_INT(cuMemCreate(&handle, 30 << 20, &exportable, 0), CUDA_SUCCESS);
	CHECK_INT(slot->bytes, 40 << 20);
	CHECK_INT(slot->charged, 40 << 20);
	address = map_anywhere(30 << 20, handle);
	fill(address, SIZE, 10);
	out_and_in();
	CHECK_INT(cuMemCreate(&handle, 30 << 20, &tiles, 0), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(vg_ledger_refusal_count(tenant_ledger), 1);
	check_filled(address, SIZE, 10);
	CHECK_INT(cuMemRelease(movable), CUDA_SUCCESS);
	CHECK_INT(slot->charged, 0);
}

TEST(memory_that_cannot_leave_is_bounded_by_the_fixed_part)
{
	tenant_fixed = 50 * MIB;
	run_evictable(fixed_body);
	tenant_fixed = 0;
}

static void sparse_body(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 1024, .Height = 1024, .Format = CU_AD_FORMAT_UNSIGNED_INT8,
					 .NumChannels = 1, .Flags = CUDA_ARRAY3D_DEFERRED_MAPPING};
	CUarrayMapInfo map = {.resourceType = CU_RESOURCE_TYPE_ARRAY, .memOperationType = CU_MEM_OPERATION_TYPE_MAP,
			      .memHandleType = CU_MEM_HANDLE_TYPE_GENERIC, .deviceBitMask = 1};

	start();
	CHECK_INT(cuArray3DCreate_v2(&map.resource.array, &shape), CUDA_SUCCESS);
	map.memHandle.memHandle = make(SIZE);
	CHECK_INT(cuMemMapArrayAsync(&map, 1, stream), CUDA_ERROR_INVALID_VALUE); // no memory of a tile pool
	CHECK_INT(cuMemMapArrayAsync_ptsz(&map, 1, stream), CUDA_ERROR_INVALID_VALUE);
}

TEST(arrays_refuse_memory_that_can_leave)
{
	run_evictable(sparse_body);
}

// Some of it fits, but it comes back as a whole.
static void no_room_body(void)
{
	CUdeviceptr mapped, allocated;
	CUmemGenericAllocationHandle handle;
	pid_t other;

	start();
	CHECK_INT(cuMemAlloc_v2(&allocated, 40 << 20), CUDA_SUCCESS);
	fill(allocated, 40 << 20, 11);
	mapped = map_anywhere(40 << 20, make(40 << 20));
	fill(mapped, 40 << 20, 12);
	handle = make(80 << 20);
	CHECK_INT(cuMemRelease(handle), CUDA_SUCCESS);
	handle = make(80 << 20);
	move(true, PAGER_OUT);
	other = take_room(free_on_device() - (100 << 20));
	wish(false, 0);
	while (slot->reason != PAGER_DEVICE)
		pause_ms(1);
	CHECK_INT(slot->missing, 80 << 20);
	CHECK(free_on_device() <= 100 << 20);
	kill(other, SIGKILL);
	CHECK_INT(waitpid(other, NULL, 0), other);
	wait_for_answer();
	CHECK_INT(slot->state, PAGER_RUNNING);
	check_filled(allocated, 40 << 20, 11);
	check_filled(mapped, 40 << 20, 12);
}

TEST(all_memory_comes_back_as_soon_as_the_device_has_room)
{
	tenant_flags = VG_LEDGER_EVICTABLE;
	tenant_swap = GIB;
	TENANT(16 * GIB, 16 * MIB, no_room_body);
}

static void no_swap_body(void)
{
	CUdeviceptr address;

	start();
	address = map_anywhere(SIZE, make(SIZE));
	fill(address, SIZE, 13);
	make(SIZE + BLOCK);
	wish(true, 5000);
	wait_for_answer();
	CHECK_INT(slot->state, PAGER_RUNNING);
	CHECK_INT(slot->reason, PAGER_HOST);
	CHECK_INT(slot->missing, BLOCK);
	check_filled(address, SIZE, 13);
}

TEST(handles_that_the_swap_does_not_hold_stay)
{
	tenant_flags = VG_LEDGER_EVICTABLE;
	tenant_swap = 2 * SIZE;
	TENANT(950 * MIB, 16 * MIB, no_swap_body);
}

// The driver fails in the middle of a move to the host: what has left comes back.
static void half_way_body(void)
{
	CUdeviceptr first, second;
	CUmemGenericAllocationHandle handle;

	start();
	handle = make(SIZE);
	first = map_anywhere(SIZE, handle);
	second = map_anywhere(SIZE, handle);
	map_anywhere(SIZE, make(SIZE));
	make(SIZE);
	fill(first, SIZE, 14);
	wish(true, 5000);
	wait_for_answer();
	CHECK_INT(slot->state, PAGER_RUNNING);
	CHECK_INT(slot->reason, PAGER_DRIVER);
	CHECK_INT(slot->host, 0);
	check_filled(first, SIZE, 14);
	check_filled(second, SIZE, 14);
	out_and_in();
	check_filled(second, SIZE, 14);
}

TEST(a_move_that_fails_half_way_is_undone)
{
	static const char *const faults[] = {
		"cuMemUnmap:1=CUDA_ERROR_UNKNOWN", // of the first handle's mappings
		"cuMemUnmap:2=CUDA_ERROR_UNKNOWN", "cuMemUnmap:3=CUDA_ERROR_UNKNOWN",
		"cuMemUnmap:4=CUDA_ERROR_UNKNOWN", // of the window
		"cuMemcpyDtoHAsync_v2:2=CUDA_ERROR_UNKNOWN",
		"cuMemcpyDtoHAsync_v2:3=CUDA_ERROR_UNKNOWN",
		"cuMemAddressReserve:4=CUDA_ERROR_OUT_OF_MEMORY",
		"cuMemGetAccess:2=CUDA_ERROR_UNKNOWN",
		"cuMemSetAccess:4=CUDA_ERROR_UNKNOWN",
	};

	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
		setenv("VIRGATE_SIM_FAULT", faults[i], 1);
		printf("# %s\n", faults[i]);
		fflush(stdout);
		run_evictable(half_way_body);
	}
	unsetenv("VIRGATE_SIM_FAULT");
}

// Threads make, map and unmap memory, of their own and of one handle that all share, while it moves.
static CUmemGenericAllocationHandle shared;
static _Atomic bool ended;

static void *work(void *value)
{
	CUdeviceptr own = reserve(SIZE), common = reserve(SIZE);
	uint32_t number = (uint32_t)(uintptr_t)value;

	CHECK_INT(cuCtxSetCurrent(context), CUDA_SUCCESS);
	while (!ended) {
		CUmemGenericAllocationHandle handle = make(SIZE);
		map_at(own, SIZE, handle);
		map_at(common, SIZE, shared);
		fill(own, BLOCK, ++number);
		fill(common + (uintptr_t)value * BLOCK, BLOCK, number);
		CHECK_INT(cuMemUnmap(own, SIZE), CUDA_SUCCESS);
		map_at(own, SIZE, handle);
		CHECK_INT(cuMemRelease(handle), CUDA_SUCCESS);
		check_filled(own, BLOCK, number);
		check_filled(common + (uintptr_t)value * BLOCK, BLOCK, number);
		CHECK_INT(cuMemUnmap(common, SIZE), CUDA_SUCCESS);
		CHECK_INT(cuMemUnmap(own, SIZE), CUDA_SUCCESS);
	}
	return NULL;
}

static void threads_body(void)
{
	enum { THREADS = SIZE / BLOCK, MOVES = 8 };
	pthread_t threads[THREADS];

	start();
	shared = make(SIZE);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, work, (void *)i), 0);
	for (int i = 0; i < MOVES; i++) {
		move(true, PAGER_OUT);
		CHECK(slot->host >= SIZE);
		move(false, PAGER_RUNNING);
	}
	ended = true;
	for (int i = 0; i < THREADS; i++)
		CHECK_INT(pthread_join(threads[i], NULL), 0);
	CHECK_INT(slot->bytes, SIZE);
	CHECK_INT(slot->charged, SIZE);
	CHECK_INT(cuMemRelease(shared), CUDA_SUCCESS);
	CHECK_INT(slot->charged, 0);
}

TEST(threads_map_and_unmap_while_memory_moves)
{
	run_evictable(threads_body);
}
