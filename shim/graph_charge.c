// Charges the memory of allocation nodes in graphs. The driver allocates this memory when a graph is uploaded or
// launched. Nodes whose lifetimes do not overlap get the same addresses, so a graph occupies the union of its nodes'
// ranges. The driver keeps memory that graphs have used reserved until the memory is trimmed. The charge is the larger
// of two sums: the declared bytes, which the allocation nodes of all executable graphs occupy, and the bytes that the
// driver has reserved.
#include "shim/graph_charge.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim/contexts.h"
#include "shim/reclaim.h"
#include "shim/undeclared.h"

_Atomic bool shim_may_have_graph_memory;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
// For each device: the bytes charged in the ledger, and the bytes that the allocation nodes of the live executable
// graphs occupy.
static struct sums {
	uint64_t charged, declared;
} sums[SHIM_DEVICES];
_Atomic unsigned int shim_graph_count;

struct range {
	CUdeviceptr begin, end;
};

struct ranges {
	struct range *list;
	size_t count, capacity;
	uint64_t unplaced; // bytes of allocation nodes that have no address
	bool failed;
};

static void add_range(struct ranges *ranges, CUdeviceptr address, uint64_t bytes)
{
	bytes = shim_round_granularity(bytes);
	if (!address) {
		ranges->unplaced += bytes;
		return;
	}
	if (ranges->count == ranges->capacity) {
		size_t capacity = ranges->capacity ? ranges->capacity * 2 : 32;
		struct range *grown = realloc(ranges->list, capacity * sizeof *grown);
		if (!grown) {
			ranges->failed = true;
			return;
		}
		ranges->list = grown;
		ranges->capacity = capacity;
	}
	ranges->list[ranges->count++] = (struct range){address, address + bytes};
}

static int compare_begins(const void *left, const void *right)
{
	const struct range *a = left, *b = right;

	return a->begin < b->begin ? -1 : a->begin > b->begin;
}

static uint64_t measure_union(struct ranges *ranges)
{
	uint64_t bytes = ranges->unplaced;
	CUdeviceptr covered = 0;

	if (ranges->count)
		qsort(ranges->list, ranges->count, sizeof *ranges->list, compare_begins);
	for (size_t i = 0; i < ranges->count; i++) {
		CUdeviceptr begin = ranges->list[i].begin > covered ? ranges->list[i].begin : covered;
		if (ranges->list[i].end > begin) {
			bytes += ranges->list[i].end - begin;
			covered = ranges->list[i].end;
		}
	}
	return bytes;
}

static void collect_graph(CUgraph graph, struct ranges *ranges);

static void collect_node(CUgraphNode node, struct ranges *ranges)
{
	CUDA_MEM_ALLOC_NODE_PARAMS parameters;
	CUgraphNodeType type;
	CUgraph child;

	if (REAL(cuGraphNodeGetType)(node, &type) != CUDA_SUCCESS)
		return;
	if (type == CU_GRAPH_NODE_TYPE_GRAPH && REAL(cuGraphChildGraphNodeGetGraph)(node, &child) == CUDA_SUCCESS)
		collect_graph(child, ranges);
	if (type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		return;
	memset(&parameters, 0, sizeof parameters);
	if (REAL(cuGraphMemAllocNodeGetParams)(node, &parameters) == CUDA_SUCCESS)
		add_range(ranges, parameters.dptr, parameters.bytesize);
}

static void collect_graph(CUgraph graph, struct ranges *ranges)
{
	size_t count = 0;
	CUgraphNode *nodes;

	if (REAL(cuGraphGetNodes)(graph, NULL, &count) != CUDA_SUCCESS || count == 0)
		return;
	nodes = calloc(count, sizeof(CUgraphNode));
	if (!nodes)
		ranges->failed = true;
	else if (REAL(cuGraphGetNodes)(graph, nodes, &count) == CUDA_SUCCESS)
		for (size_t i = 0; i < count; i++)
			collect_node(nodes[i], ranges);
	free(nodes);
}

// Returns how much memory a graph's allocation nodes occupy; UINT64_MAX if host memory ran out.
static uint64_t measure_graph(CUgraph graph)
{
	SHIM_RELAXED;
	struct ranges ranges = {0};
	uint64_t bytes;

	collect_graph(graph, &ranges);
	bytes = ranges.failed ? UINT64_MAX : measure_union(&ranges);
	free(ranges.list);
	return bytes;
}

// Rounds up to the steps of 32 MiB in which the driver reserves memory for graphs.
static uint64_t round_to_step(uint64_t bytes)
{
	const uint64_t step = 32ull << 20;

	return bytes > UINT64_MAX - step ? bytes : (bytes + step - 1) & ~(step - 1);
}

// Sets the charge to the larger of the declared and the reserved bytes. CUDA_ERROR_OUT_OF_MEMORY: the limit has no
// room, and the charge is unchanged. Call it with the lock held.
static CUresult reconcile_graphs(void)
{
	struct sums *sum = &sums[shim_device()];
	cuuint64_t reserved = 0;
	uint64_t wanted = round_to_step(sum->declared);
	CUresult result = CUDA_SUCCESS;

	if (REAL(cuDeviceGetGraphMemAttribute)((CUdevice)shim_device(), CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
					       &reserved) != CUDA_SUCCESS)
		reserved = sum->charged;
	if (wanted < reserved)
		wanted = reserved;
	if (wanted < sum->charged)
		shim_refund(VG_LEDGER_GRAPH, sum->charged - wanted);
	else if (wanted > sum->charged)
		result = shim_charge_quietly(VG_LEDGER_GRAPH, wanted - sum->charged);
	if (result == CUDA_SUCCESS)
		sum->charged = wanted;
	return result;
}

void shim_graphs_reconcile(void)
{
	SHIM_RELAXED;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < shim_device_count; i++) {
		SHIM_ON_DEVICE(i);
		if (sums[i].charged || sums[i].declared)
			reconcile_graphs();
	}
	pthread_mutex_unlock(&lock);
}

void shim_graphs_trim(void)
{
	bool is_charged;

	for (unsigned int i = 0; i < shim_device_count; i++) {
		pthread_mutex_lock(&lock);
		is_charged = sums[i].charged > 0;
		pthread_mutex_unlock(&lock);
		if (is_charged)
			REAL(cuDeviceGraphMemTrim)((CUdevice)i);
	}
}

static CUresult add_declared(uint64_t bytes)
{
	SHIM_RELAXED;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t *declared = &sums[shim_device()].declared, before;

	pthread_mutex_lock(&lock);
	before = *declared;
	if (!__builtin_add_overflow(*declared, bytes, declared))
		result = reconcile_graphs();
	if (result != CUDA_SUCCESS)
		*declared = before;
	pthread_mutex_unlock(&lock);
	return result;
}

static void remove_declared(uint64_t bytes)
{
	SHIM_RELAXED;

	pthread_mutex_lock(&lock);
	sums[shim_device()].declared -= bytes;
	reconcile_graphs();
	pthread_mutex_unlock(&lock);
}

CUresult shim_graph_begin_instantiate(enum vg_entry entry, CUgraph graph, uint64_t *ret_bytes)
{
	uint64_t bytes = shim_may_have_graph_memory && shim_enforcing() ? measure_graph(graph) : 0;
	CUresult result;

	if (!bytes) {
		*ret_bytes = 0;
		return CUDA_SUCCESS;
	}
	if (shim_counting())
		shim_undeclared_update(shim_session_ledger(), bytes);
	result = add_declared(bytes);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && shim_reclaim())
		result = add_declared(bytes);
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		return shim_refuse(entry, bytes);
	if (result != CUDA_SUCCESS)
		return result;
	*ret_bytes = bytes;
	return CUDA_SUCCESS;
}

CUresult shim_graph_end_instantiate(CUresult result, CUgraphExec *executable, uint64_t bytes)
{
	struct shim_record record = {.bytes = bytes, .type = SHIM_GRAPH_EXEC, .kind = VG_LEDGER_GRAPH};

	if (!bytes)
		return result;
	if (result != CUDA_SUCCESS) {
		remove_declared(bytes);
		return result;
	}
	record.key = (uintptr_t)*executable;
	record.context = shim_current_context();
	if (shim_record_put(&record) == 0) {
		shim_graph_count++;
		return CUDA_SUCCESS;
	}
	REAL(cuGraphExecDestroy)(*executable);
	remove_declared(bytes);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

void shim_graph_forget(const struct shim_record *record)
{
	SHIM_ON_DEVICE(record->device - 1);

	shim_graph_count--;
	remove_declared(record->bytes);
}
