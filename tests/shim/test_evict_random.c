// A random program runs while its memory moves to the host and back at random moments. It uses allocations, handles and
// mappings, kernels, memsets, copies, graphs and captures, and computes all contents on the host as well. The memory
// must have the same contents. EVICT_SECONDS: the least duration, 3 by default. EVICT_SEED: the seed. With
// VIRGATE_SIM_HASH unchanged blocks are not copied; allocations are smaller then, because the simulated GPU hashes
// slowly.
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/clock.h"
#include "pager/page.h"
#include "tenant.h"

// The program writes whole blocks, in each of which all words have the same value.
enum {
	BLOCK = 256 << 10,
	WORDS = BLOCK / 4,
	ALLOCATIONS = 10,
	MOST_BLOCKS = 600,
	GRAPHS = 4,
	LEAST_STEPS = 20,
	LEAST_MOVES = 5
};

static const char source[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
			     ".visible .entry add(.param .u64 p, .param .u32 k)\n{\n"
			     ".reg .b32 %r<8>; .reg .b64 %d<4>;\n"
			     "ld.param.u64 %d1, [p]; ld.param.u32 %r1, [k];\n"
			     "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"
			     "mad.lo.s32 %r5, %r2, %r3, %r4; mul.wide.u32 %d2, %r5, 4; add.s64 %d3, %d1, %d2;\n"
			     "ld.global.u32 %r6, [%d3]; add.u32 %r7, %r6, %r1; st.global.u32 [%d3], %r7;\nret;\n}\n";

// An allocation by cuMemAlloc or by cuMemCreate. The latter may be mapped twice, or for a while not at all.
struct allocation {
	CUdeviceptr address; // 0: not mapped
	size_t blocks;
	uint32_t values[MOST_BLOCKS];
	bool is_mapping, is_parked;
	CUmemGenericAllocationHandle handle; // 0: released, or never created
	CUdeviceptr alias;		     // the second mapping; 0: none
};

// A graph that adds to one block, and then copies that block to another one.
struct graph {
	CUgraphExec executable; // NULL: no graph
	struct allocation *from, *to;
	size_t from_block, to_block;
	uint32_t added;
};

static const CUmemAllocationProp plain = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
static struct allocation allocations[ALLOCATIONS];
static struct graph graphs[GRAPHS];
static struct pager_slot *slot;
static CUcontext context;
static CUstream stream;
static CUfunction add;
static unsigned int seed;
static _Atomic bool ended, has_unchanged;

static unsigned int pick(unsigned int below)
{
	return (unsigned int)rand_r(&seed) % below;
}

static struct allocation *pick_allocation(void)
{
	struct allocation *one = &allocations[pick(ALLOCATIONS)];

	return one->address && !one->is_parked ? one : NULL;
}

// Returns an address that does not change while the allocation exists.
static CUdeviceptr address_of(const struct allocation *one, size_t block)
{
	return one->address + block * BLOCK;
}

static CUdeviceptr some_address_of(const struct allocation *one, size_t block)
{
	return (one->alias && pick(2) ? one->alias : one->address) + block * BLOCK;
}

static void launch_add(CUstream on, CUdeviceptr address, uint32_t value)
{
	void *parameters[] = {&address, &value};

	CHECK_INT(cuLaunchKernel(add, WORDS / 256, 1, 1, 256, 1, 1, 0, on, parameters, NULL), CUDA_SUCCESS);
}

static void forget_graphs(const struct allocation *of)
{
	for (struct graph *graph = graphs; graph < graphs + GRAPHS; graph++)
		if (graph->executable && (graph->from == of || graph->to == of)) {
			CHECK_INT(cuGraphExecDestroy(graph->executable), CUDA_SUCCESS);
			graph->executable = NULL;
		}
}

static void check_block(const struct allocation *one, size_t block)
{
	static uint32_t words[WORDS];

	CHECK_INT(cuMemcpyDtoHAsync_v2(words, some_address_of(one, block), BLOCK, stream), CUDA_SUCCESS);
	CHECK_INT(cuStreamSynchronize(stream), CUDA_SUCCESS);
	for (size_t i = 0; i < WORDS; i++)
		if (words[i] != one->values[block])
			FAIL("word %zu of block %zu is %#x, not %#x", i, block, words[i], one->values[block]);
}

static void set_access(CUdeviceptr address, size_t size, CUmemAccess_flags flags)
{
	const CUmemAccessDesc access = {.location = plain.location, .flags = flags};

	CHECK_INT(cuMemSetAccess(address, size, &access, 1), CUDA_SUCCESS);
}

static size_t size_of(const struct allocation *one)
{
	return one->blocks * BLOCK;
}

static void map_at(const struct allocation *one, CUdeviceptr address)
{
	CHECK_INT(cuMemMap(address, size_of(one), 0, one->handle, 0), CUDA_SUCCESS);
	set_access(address, size_of(one), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

static CUdeviceptr map_anywhere(const struct allocation *one)
{
	CUdeviceptr address;

	CHECK_INT(cuMemAddressReserve(&address, size_of(one), 0, 0, 0), CUDA_SUCCESS);
	map_at(one, address);
	return address;
}

static void unmap(const struct allocation *one, CUdeviceptr address)
{
	CHECK_INT(cuStreamSynchronize(stream), CUDA_SUCCESS); // cuMemUnmap does not wait for the stream
	CHECK_INT(cuMemUnmap(address, size_of(one)), CUDA_SUCCESS);
}

static void forget_alias(struct allocation *one)
{
	if (!one->alias)
		return;
	unmap(one, one->alias);
	CHECK_INT(cuMemAddressFree(one->alias, size_of(one)), CUDA_SUCCESS);
	one->alias = 0;
}

static void release(struct allocation *one)
{
	CHECK_INT(cuMemRelease(one->handle), CUDA_SUCCESS);
	one->handle = 0;
}

static void free_mapping(struct allocation *one)
{
	if (one->handle && pick(2))
		release(one);
	forget_alias(one);
	if (!one->is_parked)
		unmap(one, one->address);
	CHECK_INT(cuMemAddressFree(one->address, size_of(one)), CUDA_SUCCESS);
	if (one->handle)
		release(one);
}

static void park(struct allocation *one)
{
	unmap(one, one->address);
	one->is_parked = true;
}

static void unpark(struct allocation *one)
{
	map_at(one, one->address);
	one->is_parked = false;
}

static void change_access(const struct allocation *one)
{
	CHECK_INT(cuStreamSynchronize(stream), CUDA_SUCCESS);
	set_access(one->address, size_of(one), CU_MEM_ACCESS_FLAGS_PROT_READ);
	check_block(one, pick((unsigned int)one->blocks));
	set_access(one->address, size_of(one), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

// Maps or unmaps an allocation that has a handle, or releases the handle.
static void change_mapping(struct allocation *one)
{
	if (!one->handle)
		CHECK_INT(cuMemRetainAllocationHandle(&one->handle, (void *)(uintptr_t)one->address), CUDA_SUCCESS);
	else if (one->is_parked)
		unpark(one);
	else if (one->alias)
		forget_alias(one);
	else if (pick(4) == 0)
		one->alias = map_anywhere(one);
	else if (pick(3) == 0)
		release(one);
	else if (pick(2))
		park(one);
	else
		change_access(one);
}

static void allocate_or_free(void)
{
	struct allocation *one = &allocations[pick(ALLOCATIONS)];

	if (one->address) {
		forget_graphs(one);
		if (one->is_mapping)
			free_mapping(one);
		else
			CHECK_INT(cuMemFree_v2(one->address), CUDA_SUCCESS);
		*one = (struct allocation){0};
		return;
	}
	// The first allocation may be larger than a chunk of the pager.
	one->blocks = one > allocations || pick(3) ? 8 + pick(20) : MOST_BLOCKS / (getenv("VIRGATE_SIM_HASH") ? 10 : 1);
	one->is_mapping = pick(2);
	if (one->is_mapping) {
		one->blocks &= ~(size_t)7; // a multiple of 2 MiB
		CHECK_INT(cuMemCreate(&one->handle, size_of(one), &plain, 0), CUDA_SUCCESS);
		one->address = map_anywhere(one);
	} else {
		CHECK_INT(cuMemAlloc_v2(&one->address, size_of(one)), CUDA_SUCCESS);
	}
	CHECK_INT(cuMemsetD32Async(one->address, 0, one->blocks * WORDS, stream), CUDA_SUCCESS);
	memset(one->values, 0, sizeof one->values);
}

static void write_block(struct allocation *one)
{
	size_t block = pick((unsigned int)one->blocks);
	uint32_t value = (uint32_t)rand_r(&seed);

	if (pick(2)) {
		launch_add(stream, some_address_of(one, block), value);
		one->values[block] += value;
	} else {
		CHECK_INT(cuMemsetD32Async(some_address_of(one, block), value, WORDS, stream), CUDA_SUCCESS);
		one->values[block] = value;
	}
}

static void copy_block(struct allocation *from, struct allocation *to)
{
	size_t source_block = pick((unsigned int)from->blocks), target = pick((unsigned int)to->blocks);

	CHECK_INT(cuMemcpyDtoDAsync_v2(some_address_of(to, target), some_address_of(from, source_block), BLOCK, stream),
		  CUDA_SUCCESS);
	to->values[target] = from->values[source_block];
}

static void capture(struct allocation *from, struct allocation *to)
{
	struct graph *graph = &graphs[pick(GRAPHS)];
	CUgraph captured;

	if (graph->executable)
		CHECK_INT(cuGraphExecDestroy(graph->executable), CUDA_SUCCESS);
	*graph = (struct graph){.from = from,
				.to = to,
				.from_block = pick((unsigned int)from->blocks),
				.to_block = pick((unsigned int)to->blocks),
				.added = pick(1000)};
	CHECK_INT(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
	launch_add(stream, address_of(from, graph->from_block), graph->added);
	CHECK_INT(cuMemcpyDtoDAsync_v2(address_of(to, graph->to_block), address_of(from, graph->from_block), BLOCK,
				       stream),
		  CUDA_SUCCESS);
	CHECK_INT(cuStreamEndCapture(stream, &captured), CUDA_SUCCESS);
	CHECK_INT(cuGraphInstantiateWithFlags(&graph->executable, captured, 0), CUDA_SUCCESS);
	CHECK_INT(cuGraphDestroy(captured), CUDA_SUCCESS);
}

static void replay(void)
{
	const struct graph *graph = &graphs[pick(GRAPHS)];

	if (!graph->executable || graph->from->is_parked || graph->to->is_parked)
		return;
	CHECK_INT(cuGraphLaunch(graph->executable, stream), CUDA_SUCCESS);
	graph->from->values[graph->from_block] += graph->added;
	graph->to->values[graph->to_block] = graph->from->values[graph->from_block];
}

static void do_something(void)
{
	struct allocation *one = pick_allocation(), *other = pick_allocation(), *any = &allocations[pick(ALLOCATIONS)];
	unsigned int what = pick(25);

	if (what >= 20 && any->is_mapping)
		change_mapping(any);
	else if (!one || !other || what == 0)
		allocate_or_free();
	else if (what < 8)
		write_block(one);
	else if (what < 11)
		copy_block(one, other);
	else if (what < 13)
		capture(one, other);
	else if (what < 17)
		replay();
	else
		check_block(one, pick((unsigned int)one->blocks));
}

static void *move_around(void *unused)
{
	unsigned int random = seed + 1;

	(void)unused;
	for (bool out = true; !ended || !out; out = !out) { // ends only with the memory on the device
		atomic_store(&slot->out, out);
		atomic_fetch_add(&slot->bell, 1);
		syscall(SYS_futex, &slot->bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
		while (atomic_load(&slot->answered) != atomic_load(&slot->bell))
			nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
		if (atomic_load(&slot->unchanged))
			has_unchanged = true;
		nanosleep(&(struct timespec){.tv_nsec = rand_r(&random) % (out ? 4000000 : 40000000)}, NULL);
	}
	return NULL;
}

static void random_body(void)
{
	const char *seconds = getenv("EVICT_SECONDS");
	uint64_t end_ns = vg_clock_monotonic_ns() + (seconds ? strtoull(seconds, NULL, 10) : 3) * UINT64_C(1000000000);
	unsigned long steps = 0;
	CUmodule module;
	pthread_t mover;

	alarm(180);
	CHECK_INT(cuInit(0), CUDA_SUCCESS);
	CHECK_INT(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
	CHECK_INT(cuCtxSetCurrent(context), CUDA_SUCCESS);
	CHECK_INT(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	CHECK_INT(cuModuleLoadData(&module, source), CUDA_SUCCESS);
	CHECK_INT(cuModuleGetFunction(&add, module, "add"), CUDA_SUCCESS);
	slot = vg_ledger_pager_slots(tenant_ledger);
	CHECK_INT(pthread_create(&mover, NULL, move_around, NULL), 0);
	for (; vg_clock_monotonic_ns() < end_ns || steps <= LEAST_STEPS || slot->moves <= LEAST_MOVES; steps++)
		do_something();
	ended = true;
	CHECK_INT(pthread_join(mover, NULL), 0);
	CHECK_INT(has_unchanged, getenv("VIRGATE_SIM_HASH") != NULL);
	for (struct allocation *one = allocations; one < allocations + ALLOCATIONS; one++) {
		if (one->is_parked)
			unpark(one);
		for (size_t block = 0; one->address && block < one->blocks; block++)
			check_block(one, block);
	}
	printf("# seed %s, %lu steps, %u moves\n", getenv("EVICT_SEED"), steps, slot->moves);
	fflush(stdout);
}

TEST(random_programs_compute_the_same_while_memory_moves)
{
	char text[16];

	snprintf(text, sizeof text, "%u", (unsigned int)vg_clock_realtime_ns());
	setenv("EVICT_SEED", text, 0);
	seed = (unsigned int)strtoul(getenv("EVICT_SEED"), NULL, 10);
	tenant_flags = VG_LEDGER_EVICTABLE;
	tenant_swap = 4 * GIB;
	TENANT(4 * GIB, 16 * MIB, random_body);
}
