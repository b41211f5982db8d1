// Manages the memory of allocation nodes of graphs. The physical memory is allocated when a graph is uploaded or first
// launched. When it is not needed any more, it is kept for other graphs until cuDeviceGraphMemTrim.
#include <stdlib.h>

#include "context.h"
#include "entry.h"
#include "graph.h"
#include "pool.h"
#include "process.h"

struct chunk { // unused physical memory
	struct sim_physical *physical;
	struct chunk *next;
};

struct account {
	struct chunk *spare;
	uint64_t used, used_high, reserved, reserved_high;
};

// How much memory graphs use and reserve, for each device. The last element is for host memory, which belongs to no
// device. Guarded by the memory lock.
static struct account accounts[SIM_DEVICES + 1];

static struct account *get_account(const struct sim_graph_memory *memory)
{
	return &accounts[memory->range->device ? memory->range->device->ordinal : SIM_DEVICES];
}

static bool is_managed(const struct sim_graph_memory *memory)
{
	return memory->params.poolProps.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
}

static void update_high(struct account *account)
{
	if (account->used > account->used_high)
		account->used_high = account->used;
	if (account->reserved > account->reserved_high)
		account->reserved_high = account->reserved;
}

static CUresult check_params(const CUDA_MEM_ALLOC_NODE_PARAMS_v2 *params)
{
	const CUmemPoolProps *props = &params->poolProps;
	struct sim_device *device;

	if (!params->bytesize || props->handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
	    (params->accessDescCount && !params->accessDescs) ||
	    params->accessDescCount > (size_t)sim_process.device_count)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < params->accessDescCount; i++) {
		if (params->accessDescs[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		    params->accessDescs[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			return CUDA_ERROR_INVALID_VALUE;
		SIM_TRY(sim_device_get(params->accessDescs[i].location.id, &device));
	}
	SIM_TRY(sim_pool_check_location(&props->location, props->allocType, &(CUmemLocation){0}));
	return props->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_graph_memory_new(struct sim_context *context, const CUDA_MEM_ALLOC_NODE_PARAMS_v2 *params,
			      struct sim_graph_memory **ret_memory)
{
	SIM_TRY(check_params(params));
	size_t size = sim_round_up(params->bytesize, SIM_GRAPH_CHUNK);
	if (!size || size > sim_process.window_size)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct sim_graph_memory *memory = calloc(1, sizeof *memory);
	if (!memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_memory_lock();
	CUresult result = sim_range_reserve(size, SIM_GRANULE, 0, SIM_RANGE_GRAPH, &memory->range);
	if (result == CUDA_SUCCESS) {
		memory->range->asked = params->bytesize;
		memory->range->context = context->parent;
		if (params->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
		    params->poolProps.allocType == CU_MEM_ALLOCATION_TYPE_PINNED)
			memory->range->device = &sim_process.devices[params->poolProps.location.id];
		memory->range->owner = memory;
	}
	sim_memory_unlock();
	if (result != CUDA_SUCCESS) {
		free(memory);
		return result;
	}
	atomic_init(&memory->references, 1);
	memory->context = context->parent;
	memory->address = memory->range->base;
	memory->size = size;
	memory->params = *params;
	memory->params.dptr = memory->address;
	for (size_t i = 0; i < params->accessDescCount; i++)
		memory->access[i] = params->accessDescs[i];
	memory->params.accessDescs = params->accessDescCount ? memory->access : NULL;
	*ret_memory = memory;
	return CUDA_SUCCESS;
}

struct sim_graph_memory *sim_graph_memory_ref(struct sim_graph_memory *memory)
{
	atomic_fetch_add(&memory->references, 1);
	return memory;
}

void sim_graph_memory_unref(struct sim_graph_memory *memory)
{
	if (!memory || atomic_fetch_sub(&memory->references, 1) != 1)
		return;
	struct account *account = get_account(memory);
	sim_memory_lock();
	if (memory->backed) {
		struct sim_physical *physical = memory->range->mappings->physical;
		struct chunk *chunk = malloc(sizeof *chunk);
		account->used -= memory->size;
		if (chunk) {
			atomic_fetch_add(&physical->references, 1);
			*chunk = (struct chunk){physical, account->spare};
			account->spare = chunk;
		} else {
			account->reserved -= memory->size;
		}
	}
	memory->range->owner = NULL;
	sim_range_free(memory->range);
	sim_memory_unlock();
	free(memory);
}

// Returns unused memory of the right size, or allocates new memory. Call it with the memory lock held.
static CUresult find_physical(struct sim_graph_memory *memory, struct sim_physical **ret_physical)
{
	struct account *account = get_account(memory);

	for (struct chunk **link = &account->spare; *link; link = &(*link)->next) {
		struct chunk *chunk = *link;
		if (chunk->physical->size != memory->size)
			continue;
		*link = chunk->next;
		*ret_physical = chunk->physical;
		free(chunk);
		return CUDA_SUCCESS;
	}
	SIM_TRY(memory->range->device ? sim_physical_create(memory->range->device, memory->size, ret_physical)
				      : sim_physical_create_on_host(memory->size, ret_physical));
	account->reserved += memory->size;
	return CUDA_SUCCESS;
}

// Gives devices and the host access to the memory. A device can access its own memory. All devices can access managed
// memory. The host and the context's device can access host memory. The node's parameters may name more devices.
static void open_memory(struct sim_graph_memory *memory)
{
	struct sim_mapping *mapping = memory->range->mappings;

	for (int i = 0; i < sim_process.device_count; i++) {
		const struct sim_device *owner =
			memory->range->device ? memory->range->device : memory->context->device;
		bool open = is_managed(memory) || owner == &sim_process.devices[i];
		for (size_t d = 0; d < memory->params.accessDescCount; d++)
			open |= memory->access[d].location.id == i;
		if (open)
			sim_mapping_set_access(mapping, &sim_process.devices[i], CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	}
	if (!memory->range->device)
		(void)sim_mapping_open_to_host(mapping); // if this fails, an access by the host faults
}

// Maps physical memory at the addresses of the node. Call it with the memory lock held.
static CUresult back_memory(struct sim_graph_memory *memory)
{
	struct account *account = get_account(memory);
	struct sim_physical *physical;

	if (memory->backed)
		return CUDA_SUCCESS;
	SIM_TRY(find_physical(memory, &physical));
	CUresult result = sim_range_map(memory->range, memory->address, physical);
	sim_physical_unref(physical);
	if (result != CUDA_SUCCESS) {
		account->reserved -= memory->size;
		return result;
	}
	open_memory(memory);
	memory->backed = true;
	account->used += memory->size;
	update_high(account);
	return CUDA_SUCCESS;
}

CUresult sim_graph_memory_upload(struct sim_graph_memory *memory)
{
	sim_memory_lock();
	CUresult result = back_memory(memory);
	sim_memory_unlock();
	return result;
}

CUresult sim_graph_check_free(const struct CUgraph_st *graph, CUdeviceptr address)
{
	sim_memory_lock();
	const struct sim_range *range = sim_range_find(address);
	bool known = range && range->kind == SIM_RANGE_GRAPH && range->base == address && range->owner;
	sim_memory_unlock();
	for (const struct CUgraphNode_st *node = graph->first; node && known; node = node->next)
		known = node->type != CU_GRAPH_NODE_TYPE_MEM_FREE || node->freed != address;
	return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool sim_graph_memory_is_live(CUdeviceptr address)
{
	sim_memory_lock();
	const struct sim_range *range = sim_range_find(address);
	const struct sim_graph_memory *memory = range && range->kind == SIM_RANGE_GRAPH ? range->owner : NULL;
	bool live = memory && memory->live;
	sim_memory_unlock();
	return live;
}

CUresult sim_graph_memory_check_live(const struct sim_graph_memory *memory, bool free_first)
{
	return memory->live && !free_first ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult sim_graph_memory_mark_live(struct sim_graph_memory *memory, bool free_first)
{
	CUresult result = CUDA_SUCCESS;

	sim_memory_lock();
	if (!memory->live) {
		memory->live = true;
		sim_graph_memory_ref(memory);
	} else if (!free_first) {
		result = CUDA_ERROR_INVALID_VALUE;
	}
	sim_memory_unlock();
	return result;
}

CUresult sim_graph_memory_free(CUdeviceptr address)
{
	struct sim_graph_memory *memory = NULL;

	sim_memory_lock();
	struct sim_range *range = sim_range_find(address);
	if (range && range->kind == SIM_RANGE_GRAPH && range->base == address && range->owner) {
		memory = range->owner;
		if (memory->live)
			memory->live = false;
		else
			memory = NULL;
	}
	sim_memory_unlock();
	if (!memory)
		return CUDA_ERROR_INVALID_VALUE;
	sim_graph_memory_unref(memory);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	SIM_ENTER(cuDeviceGraphMemTrim);
	if (device < 0 || device >= sim_process.device_count)
		return CUDA_ERROR_INVALID_DEVICE;
	sim_memory_lock();
	struct account *account = &accounts[device];
	while (account->spare) {
		struct chunk *chunk = account->spare;
		account->spare = chunk->next;
		account->reserved -= chunk->physical->size;
		sim_physical_unref(chunk->physical);
		free(chunk);
	}
	sim_memory_unlock();
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
	CUresult result = CUDA_SUCCESS;
	uint64_t figure = 0;

	SIM_ENTER(cuDeviceGetGraphMemAttribute);
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (device < 0 || device >= sim_process.device_count)
		return CUDA_ERROR_INVALID_DEVICE;
	sim_memory_lock();
	const struct account *account = &accounts[device];
	switch (attr) {
	case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
		figure = account->used;
		break;
	case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
		figure = account->used_high;
		break;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
		figure = account->reserved;
		break;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
		figure = account->reserved_high;
		break;
	default:
		result = CUDA_ERROR_INVALID_VALUE;
	}
	sim_memory_unlock();
	if (result == CUDA_SUCCESS)
		memcpy(value, &figure, sizeof figure);
	return result;
}

// Resets a high-water mark to the current value.
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
	uint64_t figure;

	SIM_ENTER(cuDeviceSetGraphMemAttribute);
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (device < 0 || device >= sim_process.device_count)
		return CUDA_ERROR_INVALID_DEVICE;
	memcpy(&figure, value, sizeof figure);
	if (figure || (attr != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH && attr != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
		return CUDA_ERROR_INVALID_VALUE;
	sim_memory_lock();
	struct account *account = &accounts[device];
	if (attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
		account->used_high = account->used;
	else
		account->reserved_high = account->reserved;
	sim_memory_unlock();
	return CUDA_SUCCESS;
}
