// Tests memory that the program creates with cuMemCreate and maps itself, in an evictable vGPU.
#include <pthread.h>

#include "evictable_handles.h"

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
		move_out_and_in();
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

// Tests memory that is larger than a chunk of the pager and mapped twice.
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
	CHECK_INT(slot->bytes, size); // charged once, despite two mappings
	move_out_and_in();
	check_filled(second, size, 1);
	fill(second, SIZE, 2);
	check_filled(first, SIZE, 2); // both addresses have the same memory
	move_out_and_in();
	check_filled(first, SIZE, 2);
	check_filled(first + SIZE, size - SIZE, 1);
	CHECK_INT(cuMemUnmap(first, size), CUDA_SUCCESS);
	move_out_and_in();
	check_filled(second, SIZE, 2);
	CHECK_INT(cuMemGetAccess(&(unsigned long long){0}, &plain.location, first), CUDA_ERROR_INVALID_VALUE);
}

TEST(two_mappings_of_a_handle_share_memory)
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
	// The calls return the same errors as without the interposer.
	CHECK_INT(cuMemMap(address, BLOCK, BLOCK, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
	CHECK_INT(cuMemMap(address, BLOCK, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
	CHECK_INT(cuMemMap(address, SIZE, 0, handle, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemMap(address + SIZE, SIZE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	move_out_and_in();
	map_at(address, SIZE, handle);
	fill(address, SIZE, 3);
	CHECK_INT(cuMemMap(address, SIZE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemUnmap(address, BLOCK), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemUnmap(address + BLOCK, SIZE - BLOCK), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemAddressFree(address, SIZE), CUDA_ERROR_INVALID_VALUE);
	move_out_and_in();
	check_filled(address, SIZE, 3);
}

TEST(refused_calls_change_nothing)
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
	move_out_and_in();
	move_out_and_in();
	map_at(address, size, handle);
	check_filled(address, size, 4);
}

TEST(unmapped_memory_keeps_its_contents)
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
	set_access(read, SIZE, CU_MEM_ACCESS_FLAGS_PROT_READ);
	none = reserve(SIZE);
	CHECK_INT(cuMemMap(none, SIZE, 0, handle, 0), CUDA_SUCCESS);
	move_out_and_in();
	CHECK_INT(read_access(read), CU_MEM_ACCESS_FLAGS_PROT_READ);
	CHECK_INT(read_access(none), CU_MEM_ACCESS_FLAGS_PROT_NONE);
	check_filled(read, SIZE, 5);
	CHECK_INT(cuMemsetD32_v2(read, 6, 4), CUDA_ERROR_INVALID_VALUE);
	set_access(none, SIZE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	fill(none, SIZE, 7);
	move_out_and_in();
	check_filled(read, SIZE, 7);
	CHECK_INT(read_access(read), CU_MEM_ACCESS_FLAGS_PROT_READ);
	CHECK_INT(read_access(none), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

TEST(access_rights_are_restored)
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
	CHECK_INT(slot->bytes, SIZE); // the mapping keeps the memory allocated
	move_out_and_in();
	CHECK_INT(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(address + SIZE - 1)), CUDA_SUCCESS);
	CHECK_INT(again, handle);
	CHECK_INT(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)address), CUDA_SUCCESS);
	move_out_and_in();
	other = map_anywhere(SIZE, again);
	CHECK_INT(cuMemRelease(again), CUDA_SUCCESS);
	CHECK_INT(cuMemRelease(again), CUDA_SUCCESS);
	CHECK_INT(cuMemUnmap(address, SIZE), CUDA_SUCCESS);
	CHECK_INT(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)address), CUDA_ERROR_INVALID_VALUE);
	move_out_and_in();
	check_filled(other, SIZE, 8);
	CHECK_INT(slot->charged, SIZE);
	CHECK_INT(cuMemUnmap(other, SIZE), CUDA_SUCCESS);
	CHECK_INT(slot->bytes, 0);
	CHECK_INT(slot->charged, 0);
	CHECK_INT(vg_ledger_charged(tenant_ledger), before);
	move_out_and_in();
}

TEST(memory_is_freed_with_its_last_handle_or_mapping)
{
	run_evictable(release_first_body);
}

// Maps segments one after the other in a large reservation, as PyTorch does. Unmapped segments leave gaps, which other
// segments fill.
static void segments_body(void)
{
	// Each step unmaps the segment if it is mapped, and maps it otherwise.
	static const size_t steps[] = {0, 1, 2, 3, 4, 1, 3, 3, 4, 5, 1, 0};
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
			move_out_and_in();
	}
	CHECK_INT(live, 4);
	for (size_t i = 0; i < COUNT; i++)
		if (values[i])
			check_filled(base + i * SEGMENT, SEGMENT, values[i]);
	CHECK_INT(cuMemUnmap(base, COUNT * SEGMENT), CUDA_SUCCESS); // one call unmaps all segments
	CHECK_INT(slot->bytes, 0);
	CHECK_INT(slot->charged, 0);
	CHECK_INT(cuMemAddressFree(base, GIB), CUDA_SUCCESS);
}

TEST(segments_are_mapped_and_unmapped_between_moves)
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
	move_out_and_in();
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

TEST(queries_about_handles_answer_as_the_driver)
{
	run_evictable(questions_body);
}

// The objects of a thread that makes calls while the memory is in the host.
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
	set_access(away.address, SIZE, CU_MEM_ACCESS_FLAGS_PROT_READ);
}

static void call_get_access(void)
{
	CHECK_INT(read_access(away.address), CU_MEM_ACCESS_FLAGS_PROT_READ);
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
		call_map,	 call_unmap,	  call_create,	      call_release, call_set_access,
		call_get_access, call_retain,	  call_properties,    call_export,  call_address_free,
		call_attribute,	 call_attributes, call_address_range,
	};

	start();
	away.handle = make(SIZE);
	away.address = map_anywhere(SIZE, away.handle);
	away.other = reserve(SIZE);
	fill(away.address, SIZE, 9);
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		pthread_t thread;
		move_out(PAGER_OUT);
		CHECK_INT(pthread_create(&thread, NULL, run_call, (void *)&calls[i]), 0);
		while (slot->waiting == 0)
			pause_ms(1);
		move_in(PAGER_RUNNING);
		CHECK_INT(pthread_join(thread, NULL), 0);
	}
	check_filled(away.address, SIZE, 9);
	CHECK_INT(slot->bytes, SIZE);
}

TEST(calls_wait_while_the_memory_is_away)
{
	run_evictable(away_body);
}

// The handle of all threads. While memory moves, each thread creates, maps and unmaps memory: its own, and that of this
// handle.
static CUmemGenericAllocationHandle shared;
static _Atomic bool ended;
static _Atomic unsigned int iterations[SIZE / BLOCK]; // number of rounds of each thread

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
		// The device may still be writing.
		CHECK_INT(cuStreamSynchronize(CU_STREAM_LEGACY), CUDA_SUCCESS);
		CHECK_INT(cuMemUnmap(own, SIZE), CUDA_SUCCESS);
		map_at(own, SIZE, handle);
		CHECK_INT(cuMemRelease(handle), CUDA_SUCCESS);
		check_filled(own, BLOCK, number);
		check_filled(common + (uintptr_t)value * BLOCK, BLOCK, number);
		CHECK_INT(cuMemUnmap(common, SIZE), CUDA_SUCCESS);
		CHECK_INT(cuMemUnmap(own, SIZE), CUDA_SUCCESS);
		iterations[(uintptr_t)value]++;
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
		move_out(PAGER_OUT);
		CHECK(slot->host >= SIZE);
		move_in(PAGER_RUNNING);
		for (int k = 0; k < THREADS; k++) // each thread makes progress between two moves
			for (unsigned int before = iterations[k]; iterations[k] == before;)
				pause_ms(1);
	}
	ended = true;
	for (int i = 0; i < THREADS; i++)
		CHECK_INT(pthread_join(threads[i], NULL), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(iterations[i] >= MOVES);
	CHECK_INT(slot->bytes, SIZE);
	CHECK_INT(slot->charged, SIZE);
	CHECK_INT(cuMemRelease(shared), CUDA_SUCCESS);
	CHECK_INT(slot->charged, 0);
}

TEST(threads_map_and_unmap_while_memory_moves)
{
	run_evictable(threads_body);
}
