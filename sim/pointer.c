// Pointer attributes.
#include "context.h"
#include "entry.h"
#include "graph_memory.h"
#include "pool.h"
#include "process.h"

// Returns whether the address is in a range of cuMemAddressReserve. In such a range, each mapping counts as an
// allocation.
static bool is_reserved(const struct sim_pointer *pointer)
{
	return pointer->range && pointer->range->kind == SIM_RANGE_RESERVED;
}

static int get_handle_types(const struct sim_pointer *pointer)
{
	int types = 0;

	sim_memory_lock();
	struct sim_mapping *mapping = sim_mapping_find(pointer->base);
	if (is_reserved(pointer) && mapping)
		types = (int)mapping->physical->properties.requestedHandleTypes;
	sim_memory_unlock();
	return types;
}

static CUresult get_access_flags(int *ret_flags, CUdeviceptr ptr)
{
	struct sim_context *context;

	SIM_TRY(sim_context_current_any(&context));
	*ret_flags = sim_memory_translate(context->device, ptr, 1, SIM_WRITE)
			     ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
		     : sim_memory_translate(context->device, ptr, 1, SIM_READ) ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
									       : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
	return CUDA_SUCCESS;
}

// Returns those attributes of a pointer that concern the memory behind it.
static CUresult get_memory(void *data, CUpointer_attribute attribute, CUdeviceptr ptr,
			   const struct sim_pointer *pointer)
{
	const struct sim_range *range = pointer->range;
	bool reserved = is_reserved(pointer);

	switch (attribute) {
	// A range of cuMemAddressReserve is reported as a whole.
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)data = reserved ? range->base : pointer->base;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)data = reserved ? range->asked : pointer->size;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(int *)data = pointer->mapped;
		break;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(unsigned long long *)data = (unsigned)get_handle_types(pointer);
		break;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		*(int *)data = false;
		break;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return get_access_flags(data, ptr);
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(CUmemoryPool *)data =
			range && range->kind == SIM_RANGE_POOL ? sim_pool_handle_of(pointer->range) : NULL;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*(CUdeviceptr *)data = range && !reserved ? range->base : pointer->base;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*(size_t *)data = range && !reserved ? range->size : pointer->size;
		break;
	// CU_POINTER_ATTRIBUTE_P2P_TOKENS is not supported by drivers any more.
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static bool is_of_pool(const struct sim_pointer *pointer)
{
	return pointer->range && pointer->range->kind == SIM_RANGE_POOL;
}

// Returns whether the pointer is to memory of a pool in the host. The driver then reports the current context.
static bool find_host_pool_context(const struct sim_pointer *pointer, struct sim_context **ret_context)
{
	return is_of_pool(pointer) && !pointer->device && sim_context_current(ret_context) == CUDA_SUCCESS;
}

// Returns whether an attribute can be queried for a reserved address where nothing is mapped.
static bool is_of_range(CUpointer_attribute attribute)
{
	return attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR || attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE ||
	       attribute == CU_POINTER_ATTRIBUTE_MAPPED;
}

// Returns an attribute. Boolean ones have four bytes; NVIDIA's header does not say so.
static CUresult get_attribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct sim_pointer p;
	bool known = sim_pointer_find(ptr, &p);

	if (!known || (p.range && p.range->kind == SIM_RANGE_GRAPH && !sim_graph_memory_is_live(p.base)) ||
	    (is_reserved(&p) && !p.mapped && !is_of_range(attribute)))
		return CUDA_ERROR_INVALID_VALUE;
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		if (!p.context && !find_host_pool_context(&p, &p.context) && !is_of_pool(&p) && !is_reserved(&p))
			return CUDA_ERROR_INVALID_VALUE; // the memory belongs to no context
		*(CUcontext *)data = p.context ? sim_context_handle(p.context) : NULL;
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(CUmemorytype *)data = p.type;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)data = ptr;
		break;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (!p.host_access)
			return CUDA_ERROR_INVALID_VALUE;
		*(void **)data = (void *)(uintptr_t)ptr;
		break;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*(int *)data = p.range && p.range->sync_memops;
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*(unsigned long long *)data = p.buffer_id;
		break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(int *)data = p.managed;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		if (!p.device && find_host_pool_context(&p, &p.context))
			p.device = p.context->device;
		*(int *)data = p.device ? p.device->ordinal : CU_DEVICE_CPU;
		break;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(int *)data = p.range && (p.range->kind == SIM_RANGE_DEVICE || p.range->kind == SIM_RANGE_BLOCK);
		break;
	default:
		return get_memory(data, attribute, ptr, &p);
	}
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	SIM_ENTER(cuPointerGetAttribute);
	return data ? get_attribute(data, attribute, ptr) : CUDA_ERROR_INVALID_VALUE;
}

// Returns the size of an attribute. If the driver does not know the pointer, it sets that many bytes of the result to
// 0.
static size_t get_size(CUpointer_attribute attribute)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		return sizeof(int);
	default:
		return sizeof(void *);
	}
}

CUresult CUDAAPI cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes, void **data,
					CUdeviceptr ptr)
{
	SIM_ENTER(cuPointerGetAttributes);
	if (!attributes || !data || numAttributes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < numAttributes; i++) {
		if (!data[i] || (int)attributes[i] <= 0 ||
		    attributes[i] > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE)
			return CUDA_ERROR_INVALID_VALUE;
		if (get_attribute(data[i], attributes[i], ptr) == CUDA_SUCCESS)
			continue;
		memset(data[i], 0, get_size(attributes[i]));
		if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
			*(int *)data[i] = CU_DEVICE_INVALID;
	}
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct sim_pointer pointer;

	SIM_ENTER(cuPointerSetAttribute);
	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !sim_pointer_find(ptr, &pointer) ||
	    !pointer.range)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_reserved(&pointer))
		return CUDA_ERROR_NOT_SUPPORTED;
	pointer.range->sync_memops = *(const int *)value != 0;
	return CUDA_SUCCESS;
}
