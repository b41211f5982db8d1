// Tests the driver's behaviour that eviction needs. Memory moves to registered files and back to its addresses. The
// thread that moves it is not blocked by calls in which other threads wait.
#include "conformance.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum { CHUNKS = 4 };
#define CHUNK (4 * MiB)
#define PIECE (2 * CHUNK) // the test's file is registered in pieces of this size
#define RESERVED (64 * GiB)

// await(address, value): ends when the word at the address has the value. add(address, by): adds to the word.
static const char ptx_evict[] = PTX_HEAD
	".visible .entry await(.param .u64 address, .param .u32 value) {\n"
	"	.reg .b64 %a;\n	.reg .b32 %v, %w;\n	.reg .pred %p;\n"
	"	ld.param.u64 %a, [address];\n	ld.param.u32 %v, [value];\n"
	"again:\n	ld.volatile.global.u32 %w, [%a];\n	setp.ne.u32 %p, %w, %v;\n"
	"	@%p bra again;\n	ret;\n}\n"
	".visible .entry add(.param .u64 address, .param .u32 by) {\n"
	"	.reg .b64 %a;\n	.reg .b32 %v, %w;\n"
	"	ld.param.u64 %a, [address];\n	ld.param.u32 %v, [by];\n"
	"	ld.global.u32 %w, [%a];\n	add.u32 %w, %w, %v;\n	st.global.u32 [%a], %w;\n	ret;\n}\n";

static CUfunction await, add;
static CUstream pager;
static CUevent event;

static void need_parts(void)
{
	need_context();
	if (pager)
		return;
	CUmodule module = need_module(ptx_evict);
	await = need_function(module, "await");
	add = need_function(module, "add");
	NEED(cuStreamCreate(&pager, CU_STREAM_NON_BLOCKING));
	NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
}

static CUresult launch(CUfunction function, CUdeviceptr address, unsigned value, CUstream stream)
{
	void *arguments[] = {&address, &value};

	return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

// ---- moving memory out and back ---------------------------------------------------------------

struct tenant {
	CUdeviceptr base;
	CUmemGenericAllocationHandle handles[CHUNKS];
	// created in advance, since cuEventCreate waits while another thread waits for room in the queue
	CUevent copied[CHUNKS];
	char *file; // mapped
};

static void register_file(struct tenant *tenant)
{
	for (size_t at = 0; at < CHUNKS * CHUNK; at += PIECE)
		WORKS(cuMemHostRegister(tenant->file + at, PIECE, CU_MEMHOSTREGISTER_PORTABLE));
}

static void unregister_file(struct tenant *tenant)
{
	for (size_t at = 0; at < CHUNKS * CHUNK; at += PIECE)
		WORKS(cuMemHostUnregister(tenant->file + at));
}

static void map_chunks(struct tenant *tenant)
{
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE, .location = wanted.location};

	for (int i = 0; i < CHUNKS; i++) {
		NEED(cuMemCreate(&tenant->handles[i], CHUNK, &wanted, 0));
		NEED(cuMemMap(tenant->base + i * CHUNK, CHUNK, 0, tenant->handles[i], 0));
	}
	NEED(cuMemSetAccess(tenant->base, CHUNKS * CHUNK, &access, 1)); // one call for all chunks
}

static struct tenant make_tenant(void)
{
	struct tenant tenant;
	int descriptor = memfd_create("arena", 0);

	if (descriptor < 0 || ftruncate(descriptor, CHUNKS * CHUNK) != 0)
		FAIL("memfd: %m");
	tenant.file = mmap(NULL, CHUNKS * CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, 0);
	close(descriptor);
	if (tenant.file == MAP_FAILED)
		FAIL("mmap: %m");
	NEED(cuMemAddressReserve(&tenant.base, RESERVED, 2 * MiB, 0, 0));
	for (int i = 0; i < CHUNKS; i++)
		NEED(cuEventCreate(&tenant.copied[i], CU_EVENT_DISABLE_TIMING));
	map_chunks(&tenant);
	register_file(&tenant);
	return tenant;
}

static void end_tenant(struct tenant *tenant)
{
	WORKS(cuMemUnmap(tenant->base, CHUNKS * CHUNK));
	for (int i = 0; i < CHUNKS; i++) {
		WORKS(cuMemRelease(tenant->handles[i]));
		WORKS(cuEventDestroy(tenant->copied[i]));
	}
	WORKS(cuMemAddressFree(tenant->base, RESERVED));
	unregister_file(tenant);
	munmap(tenant->file, CHUNKS * CHUNK);
}

// Moves the memory out: queues all copies, and releases each chunk as soon as its own copy has ended.
static void move_out(struct tenant *tenant)
{
	size_t before = memory_used();

	for (int i = 0; i < CHUNKS; i++) {
		NEED(cuMemcpyDtoHAsync(tenant->file + i * CHUNK, tenant->base + i * CHUNK, CHUNK, pager));
		NEED(cuEventRecord(tenant->copied[i], pager));
	}
	for (int i = 0; i < CHUNKS; i++) {
		NEED(cuEventSynchronize(tenant->copied[i]));
		WORKS(cuMemUnmap(tenant->base + i * CHUNK, CHUNK));
		WORKS(cuMemRelease(tenant->handles[i]));
		EQUALS(before - memory_used(), (i + 1) * CHUNK); // other processes can use the chunk at once
	}
}

static void move_in(struct tenant *tenant)
{
	map_chunks(tenant);
	for (int i = 0; i < CHUNKS; i++)
		NEED(cuMemcpyHtoDAsync(tenant->base + i * CHUNK, tenant->file + i * CHUNK, CHUNK, pager));
	NEED(cuStreamSynchronize(pager));
}

// Fills the free device memory, so that the tenant's old contents are overwritten.
static void use_memory(void)
{
	CUdeviceptr other;

	NEED(cuMemAlloc(&other, CHUNKS * CHUNK));
	NEED(cuMemsetD8(other, 0xff, CHUNKS * CHUNK));
	NEED(cuCtxSynchronize());
	NEED(cuMemFree(other));
}

static unsigned word_at(CUdeviceptr address)
{
	unsigned word = 0;

	WORKS(cuMemcpyDtoH(&word, address, 4));
	return word;
}

CONFORM(memory_comes_back_at_its_addresses)
{
	struct tenant tenant;

	need_parts();
	tenant = make_tenant();
	for (int i = 0; i < CHUNKS; i++)
		NEED(cuMemsetD32(tenant.base + i * CHUNK, 0xc0de0000 + i, CHUNK / 4));
	NEED(cuCtxSynchronize());
	for (int round = 0; round < 3; round++) {
		move_out(&tenant);
		EQUALS(*(unsigned *)(tenant.file + CHUNK + 64), 0xc0de0001);
		use_memory();
		move_in(&tenant);
		for (int i = 0; i < CHUNKS; i++)
			EQUALS(word_at(tenant.base + (i + 1) * CHUNK - 4), 0xc0de0000 + i);
	}
	end_tenant(&tenant);
}

// Launches a captured kernel, copy and memset after their memory was moved out and back.
CONFORM(graphs_survive_the_exchange)
{
	struct tenant tenant;
	CUgraph graph;
	CUgraphExec exec;

	need_parts();
	tenant = make_tenant();
	CUdeviceptr counter = tenant.base + CHUNK - 64, copy = tenant.base + 2 * CHUNK, set = tenant.base + 3 * CHUNK;
	NEED(cuMemsetD8(tenant.base, 0, CHUNKS * CHUNK));
	NEED(cuCtxSynchronize());
	NEED(cuStreamBeginCapture(pager, CU_STREAM_CAPTURE_MODE_RELAXED));
	WORKS(launch(add, counter, 3, pager));
	WORKS(cuMemcpyDtoDAsync(copy, counter, 4, pager));
	WORKS(cuMemsetD32Async(set, 0x5e7, 16, pager));
	NEED(cuStreamEndCapture(pager, &graph));
	NEED(cuGraphInstantiate(&exec, graph, 0));
	WORKS(cuGraphLaunch(exec, pager));
	WORKS(cuStreamSynchronize(pager));
	for (unsigned round = 1; round <= 3; round++) {
		move_out(&tenant);
		use_memory();
		memset(tenant.file + 3 * CHUNK, 0, 64); // the graph writes this part again
		move_in(&tenant);
		WORKS(cuGraphLaunch(exec, pager));
		WORKS(cuStreamSynchronize(pager));
		EQUALS(word_at(counter), 3 * (round + 1));
		EQUALS(word_at(copy), 3 * (round + 1));
		EQUALS(word_at(set + 60), 0x5e7);
	}
	WORKS(cuGraphExecDestroy(exec));
	WORKS(cuGraphDestroy(graph));
	end_tenant(&tenant);
}

// ---- moving memory while other threads wait -----------------------------------------------------

static atomic_uint *word; // the kernel spins until it is 1
static atomic_uint progress;
static atomic_bool hung;
static CUstream spinning;

// Ends the kernel after a time if the driver blocks the pager; the test then fails.
static void *watch(void *argument)
{
	for (int i = 0; i < 200 && atomic_load(word) == 0; i++)
		usleep(100000);
	if (atomic_load(word) == 0) {
		atomic_store(&hung, true);
		atomic_store(word, 1);
	}
	return NULL;
}

// Launches the spinning kernel, and returns when it runs.
static void start_spinning(void)
{
	if (!word)
		NEED(cuMemHostAlloc((void **)&word, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	memset((void *)word, 0, 4096);
	atomic_store(&progress, 0);
	atomic_store(&hung, false);
	NEED(cuStreamCreate(&spinning, CU_STREAM_NON_BLOCKING));
	NEED(launch(add, (CUdeviceptr)(word + 1), 1, spinning));
	NEED(launch(await, (CUdeviceptr)word, 1, spinning));
	while (atomic_load(word + 1) == 0)
		usleep(100);
}

// Runs the pager's calls while the kernel spins; then ends the kernel.
static void page(struct tenant *tenant)
{
	WORKS(cuCtxRecordEvent(context, event));
	GIVES(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	move_out(tenant);
	EQUALS(*(unsigned *)(tenant->file + CHUNK), 7);
	move_in(tenant);
	GIVES(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	EQUALS(atomic_load(word), 0);
	HOLDS(!atomic_load(&hung));
	atomic_store(word, 1);
	WORKS(cuEventSynchronize(event));
}

static void *synchronize(void *argument)
{
	cuCtxSetCurrent(context);
	atomic_store(&progress, 1);
	return cuStreamSynchronize(spinning) == CUDA_SUCCESS ? argument : NULL;
}

static void *fill_queue(void *argument)
{
	cuCtxSetCurrent(context);
	for (unsigned i = 0; i < 3000; i++) {
		if (launch(add, (CUdeviceptr)(word + 2), 1, spinning) != CUDA_SUCCESS)
			return NULL;
		atomic_store(&progress, i + 1);
	}
	return argument;
}

static void page_beside(void *(*what)(void *), unsigned least)
{
	pthread_t watcher, thread;
	struct tenant tenant;
	void *result = NULL;

	need_parts();
	tenant = make_tenant();
	NEED(cuMemsetD32(tenant.base, 7, CHUNKS * CHUNK / 4));
	NEED(cuCtxSynchronize());
	start_spinning();
	pthread_create(&watcher, NULL, watch, NULL);
	pthread_create(&thread, NULL, what, word);
	for (double end = seconds() + 15; atomic_load(&progress) < least && seconds() < end; usleep(1000))
		;
	usleep(200000); // the thread waits in its call by now
	BETWEEN(atomic_load(&progress), least, least + 300);
	page(&tenant);
	pthread_join(thread, &result);
	pthread_join(watcher, NULL);
	HOLDS(result != NULL);
	WORKS(cuStreamSynchronize(spinning));
	WORKS(cuStreamDestroy(spinning));
	end_tenant(&tenant);
}

CONFORM(the_pager_works_beside_a_thread_that_synchronizes)
{
	page_beside(synchronize, 1);
}

CONFORM(the_pager_works_beside_a_thread_before_a_full_queue)
{
	page_beside(fill_queue, 900);
	EQUALS(atomic_load(word + 2), 3000);
}

// ---- calls that wait for a full queue -----------------------------------------------------------

// The following functions return whether the driver call succeeded, since only the main thread may use assertions.
static bool create_event(void)
{
	CUevent other;
	CUresult result = cuEventCreate(&other, CU_EVENT_DISABLE_TIMING);

	atomic_store(&progress, 1);
	return result == CUDA_SUCCESS && cuEventDestroy(other) == CUDA_SUCCESS;
}

static bool destroy_event(void)
{
	CUresult result = cuEventDestroy(event);

	atomic_store(&progress, 1);
	return result == CUDA_SUCCESS && cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
}

static bool register_memory(void)
{
	static _Alignas(4096) char page[4096];
	CUresult result = cuMemHostRegister(page, sizeof page, 0);

	atomic_store(&progress, 1);
	return result == CUDA_SUCCESS && cuMemHostUnregister(page) == CUDA_SUCCESS;
}

// Allocates little memory by cuMemAlloc, which waits while another thread waits for room in the queue. In an evictable
// vGPU, larger memory is created by cuMemCreate, which does not wait for the queue.
static bool allocate_memory(void)
{
	CUdeviceptr memory;
	CUresult result = cuMemAlloc(&memory, MiB);

	atomic_store(&progress, 1);
	return result == CUDA_SUCCESS && cuMemFree(memory) == CUDA_SUCCESS;
}

struct beside {
	bool (*call)(void);
	bool is_good;
};

static void *call_beside(void *argument)
{
	struct beside *beside = argument;

	cuCtxSetCurrent(context);
	beside->is_good = beside->call();
	return NULL;
}

// Checks that the call returns only after the queue has room.
static void expect_wait(bool (*call)(void))
{
	pthread_t filler, caller;
	struct beside beside = {call, false};
	void *filled = NULL;

	need_parts();
	start_spinning();
	pthread_create(&filler, NULL, fill_queue, word);
	for (double end = seconds() + 15; atomic_load(&progress) < 900 && seconds() < end; usleep(1000))
		;
	usleep(200000); // the thread waits in its launch by now
	BETWEEN(atomic_load(&progress), 900, 1200);
	atomic_store(&progress, 0);
	pthread_create(&caller, NULL, call_beside, &beside);
	usleep(200000);
	EQUALS(atomic_load(&progress), 0);
	atomic_store(word, 1);
	pthread_join(filler, &filled);
	pthread_join(caller, NULL);
	HOLDS(filled != NULL);
	HOLDS(beside.is_good);
	WORKS(cuStreamSynchronize(spinning));
	WORKS(cuStreamDestroy(spinning));
}

CONFORM(events_are_made_after_the_launches_of_others)
{
	expect_wait(create_event);
}

CONFORM(events_are_destroyed_after_the_launches_of_others)
{
	expect_wait(destroy_event);
}

CONFORM(memory_is_registered_after_the_launches_of_others)
{
	expect_wait(register_memory);
}

CONFORM(memory_is_allocated_after_the_launches_of_others)
{
	expect_wait(allocate_memory);
}
