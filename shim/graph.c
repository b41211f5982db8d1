// Physical memory for allocation nodes comes at upload or launch. The driver gives nodes
// whose lifetimes do not overlap the same addresses, so what a graph occupies is the union of
// its nodes' ranges; that is reserved when the graph is instantiated. What graphs have used
// stays reserved by the driver until it is trimmed: the charge is the larger of the two.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim/graph.h"
#include "shim/local.h"
#include "shim/reclaim.h"
#include "shim/undeclared.h"

_Atomic bool shim_graph_memory;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t charged;  // in the ledger
static uint64_t declared; // of the executable graphs alive
static _Atomic unsigned int executables; // with memory

struct range {
	CUdeviceptr begin, end;
};

struct ranges {
	struct range *list;
	size_t count, capacity;
	uint64_t unplaced; // bytes of nodes without an address
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

static int by_begin(const void *left, const void *right)
{
	const struct range *a = left, *b = right;

	return a->begin < b->begin ? -1 : a->begin > b->begin;
}

static uint64_t union_of(struct ranges *ranges)
{
	uint64_t bytes = ranges->unplaced;
	CUdeviceptr covered = 0;

	if (ranges->count)
		qsort(ranges->list, ranges->count, sizeof *ranges->list, by_begin);
	for (size_t i = 0; i < ranges->count; i++) {
		CUdeviceptr begin = ranges->list[i].begin > covered ? ranges->list[i].begin : covered;
		if (ranges->list[i].end > begin) {
			bytes += ranges->list[i].end - begin;
			covered = ranges->list[i].end;
		}
	}
	return bytes;
}

static void collect(CUgraph graph, struct ranges *ranges);

static void collect_node(CUgraphNode node, struct ranges *ranges)
{
	CUDA_MEM_ALLOC_NODE_PARAMS parameters;
	CUgraphNodeType type;
	CUgraph child;

	if (REAL(cuGraphNodeGetType)(node, &type) != CUDA_SUCCESS)
		return;
	if (type == CU_GRAPH_NODE_TYPE_GRAPH && REAL(cuGraphChildGraphNodeGetGraph)(node, &child) == CUDA_SUCCESS)
		collect(child, ranges);
	if (type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		return;
	memset(&parameters, 0, sizeof parameters);
	if (REAL(cuGraphMemAllocNodeGetParams)(node, &parameters) == CUDA_SUCCESS)
		add_range(ranges, parameters.dptr, parameters.bytesize);
}

static void collect(CUgraph graph, struct ranges *ranges)
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

// UINT64_MAX when it cannot be told for lack of host memory.
static uint64_t memory_of(CUgraph graph)
{
	SHIM_RELAXED;
	struct ranges ranges = {0};
	uint64_t bytes;

	collect(graph, &ranges);
	bytes = ranges.failed ? UINT64_MAX : union_of(&ranges);
	free(ranges.list);
	return bytes;
}

// The driver reserves for graphs in steps of 32 MiB.
static uint64_t in_steps(uint64_t bytes)
{
	const uint64_t step = 32ull << 20;

	return bytes > UINT64_MAX - step ? bytes : (bytes + step - 1) & ~(step - 1);
}

// With the lock held: sets the charge to what it should be. CUDA_ERROR_OUT_OF_MEMORY: the
// quota has no room for that, and the charge is as it was.
static CUresult settle(void)
{
	cuuint64_t reserved = 0;
	uint64_t wanted = in_steps(declared);
	CUresult result = CUDA_SUCCESS;

	if (REAL(cuDeviceGetGraphMemAttribute)(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved) != CUDA_SUCCESS)
		reserved = charged;
	if (wanted < reserved)
		wanted = reserved;
	if (wanted < charged)
		shim_refund(VG_LEDGER_GRAPH, charged - wanted);
	else if (wanted > charged)
		result = shim_charge_quietly(VG_LEDGER_GRAPH, wanted - charged);
	if (result == CUDA_SUCCESS)
		charged = wanted;
	return result;
}

void shim_graphs_settle(void)
{
	SHIM_RELAXED;

	pthread_mutex_lock(&lock);
	if (charged || declared)
		settle();
	pthread_mutex_unlock(&lock);
}

void shim_graphs_trim(void)
{
	bool worthwhile;

	pthread_mutex_lock(&lock);
	worthwhile = charged > 0;
	pthread_mutex_unlock(&lock);
	if (worthwhile)
		REAL(cuDeviceGraphMemTrim)(0);
}

static CUresult declare(uint64_t bytes)
{
	SHIM_RELAXED;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	pthread_mutex_lock(&lock);
	if (!__builtin_add_overflow(declared, bytes, &declared)) {
		result = settle();
		if (result != CUDA_SUCCESS)
			declared -= bytes;
	} else {
		declared -= bytes;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

static void undeclare(uint64_t bytes)
{
	SHIM_RELAXED;

	pthread_mutex_lock(&lock);
	declared -= bytes;
	settle();
	pthread_mutex_unlock(&lock);
}

// Reserves what a graph's allocations occupy, before it is instantiated.
static CUresult prepare(enum vg_entry entry, CUgraph graph, uint64_t *ret_bytes)
{
	uint64_t bytes = shim_graph_memory && shim_enforcing() ? memory_of(graph) : 0;
	CUresult result = CUDA_SUCCESS;

	if (bytes && shim_counting())
		shim_undeclared_follow(shim_session_ledger(), bytes);
	if (bytes)
		result = declare(bytes);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && shim_reclaim())
		result = declare(bytes);
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		return shim_refuse(entry, bytes);
	if (result == CUDA_SUCCESS)
		*ret_bytes = bytes;
	return result;
}

static CUresult finish(CUresult result, CUgraphExec *executable, uint64_t bytes)
{
	struct shim_record record = {.bytes = bytes, .what = SHIM_GRAPH_EXEC, .kind = VG_LEDGER_GRAPH};

	if (!bytes)
		return result;
	if (result == CUDA_SUCCESS) {
		record.key = (uintptr_t)*executable;
		record.context = shim_current_context();
		if (shim_record_put(&record) == 0) {
			executables++;
			return CUDA_SUCCESS;
		}
		REAL(cuGraphExecDestroy)(*executable);
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	undeclare(bytes);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *executable, CUgraph graph, CUgraphNode *node, char *log,
						size_t size)
{
	uint64_t bytes;
	CUresult result = prepare(VG_ENTRY_cuGraphInstantiate, graph, &bytes);

	return result != CUDA_SUCCESS
		       ? result
		       : finish(REAL(cuGraphInstantiate)(executable, graph, node, log, size), executable, bytes);
}

SHIM_EXPORT CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec *executable, CUgraph graph, CUgraphNode *node, char *log,
						   size_t size)
{
	uint64_t bytes;
	CUresult result = prepare(VG_ENTRY_cuGraphInstantiate_v2, graph, &bytes);

	return result != CUDA_SUCCESS
		       ? result
		       : finish(REAL(cuGraphInstantiate_v2)(executable, graph, node, log, size), executable, bytes);
}

SHIM_EXPORT CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph,
							 unsigned long long flags)
{
	uint64_t bytes;
	CUresult result = prepare(VG_ENTRY_cuGraphInstantiateWithFlags, graph, &bytes);

	return result != CUDA_SUCCESS
		       ? result
		       : finish(REAL(cuGraphInstantiateWithFlags)(executable, graph, flags), executable, bytes);
}

SHIM_EXPORT CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec *executable, CUgraph graph,
							  CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
{
	uint64_t bytes;
	CUresult result = prepare(VG_ENTRY_cuGraphInstantiateWithParams, graph, &bytes);

	return result != CUDA_SUCCESS
		       ? result
		       : finish(REAL(cuGraphInstantiateWithParams)(executable, graph, parameters), executable, bytes);
}

SHIM_EXPORT CUresult CUDAAPI cuGraphInstantiateWithParams_ptsz(CUgraphExec *executable, CUgraph graph,
							       CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
{
	uint64_t bytes;
	CUresult result = prepare(VG_ENTRY_cuGraphInstantiateWithParams_ptsz, graph, &bytes);

	return result != CUDA_SUCCESS ? result
				      : finish(REAL(cuGraphInstantiateWithParams_ptsz)(executable, graph, parameters),
					       executable, bytes);
}

void shim_graph_forget(const struct shim_record *record)
{
	executables--;
	undeclare(record->bytes);
}

SHIM_EXPORT CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec executable)
{
	struct shim_record record;
	CUresult result;

	if (!shim_counting() || !shim_record_take(SHIM_GRAPH_EXEC, (uintptr_t)executable, &record))
		return REAL(cuGraphExecDestroy)(executable);
	result = REAL(cuGraphExecDestroy)(executable);
	if (result == CUDA_SUCCESS)
		shim_graph_forget(&record);
	else
		shim_record_put(&record);
	return result;
}

// With graphs that allocate, a launch or an upload may have made the driver reserve more.
static inline CUresult settle_after(CUresult result)
{
	if (__builtin_expect(executables != 0, 0))
		shim_graphs_settle();
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuGraphLaunch(CUgraphExec executable, CUstream stream)
{
	return settle_after(REAL(cuGraphLaunch)(executable, stream));
}

SHIM_EXPORT CUresult CUDAAPI cuGraphLaunch_ptsz(CUgraphExec executable, CUstream stream)
{
	return settle_after(REAL(cuGraphLaunch_ptsz)(executable, stream));
}

SHIM_EXPORT CUresult CUDAAPI cuGraphUpload(CUgraphExec executable, CUstream stream)
{
	return settle_after(REAL(cuGraphUpload)(executable, stream));
}

SHIM_EXPORT CUresult CUDAAPI cuGraphUpload_ptsz(CUgraphExec executable, CUstream stream)
{
	return settle_after(REAL(cuGraphUpload_ptsz)(executable, stream));
}

SHIM_EXPORT CUresult CUDAAPI cuDeviceGraphMemTrim(CUdevice device)
{
	CUresult result = REAL(cuDeviceGraphMemTrim)(device);

	if (result == CUDA_SUCCESS && shim_counting())
		shim_graphs_settle();
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
						    size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *parameters)
{
	shim_graph_memory = true;
	return REAL(cuGraphAddMemAllocNode)(node, graph, dependencies, count, parameters);
}

// The general form of the same.
SHIM_EXPORT CUresult CUDAAPI cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
					    size_t count, CUgraphNodeParams *parameters)
{
	CUresult result = shim_local_node(VG_ENTRY_cuGraphAddNode, parameters);

	if (parameters && parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		shim_graph_memory = true;
	return result != CUDA_SUCCESS ? result : REAL(cuGraphAddNode)(node, graph, dependencies, count, parameters);
}

SHIM_EXPORT CUresult CUDAAPI cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
					       const CUgraphEdgeData *edges, size_t count,
					       CUgraphNodeParams *parameters)
{
	CUresult result = shim_local_node(VG_ENTRY_cuGraphAddNode_v2, parameters);

	if (parameters && parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		shim_graph_memory = true;
	return result != CUDA_SUCCESS ? result
				      : REAL(cuGraphAddNode_v2)(node, graph, dependencies, edges, count, parameters);
}
