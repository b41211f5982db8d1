// Answers queries about evictable memory. The answers are those for memory of cuMemAlloc(), also while the memory is in
// the host. The memory is reported as not capable of IPC and GPUDirect RDMA, because its physical memory changes with
// each move. cuPointerGetAttribute() returns CUDA_ERROR_INVALID_VALUE for attributes that this file does not answer.
#include <string.h>

#include "pager/gate.h"
#include "pager/mapping.h"
#include "pager/memory.h"
#include "shim/evict.h"

static bool find_range(CUdeviceptr address, struct pager_range *ret_range)
{
	return shim_evictable && pager_memory_find(address, ret_range);
}

// If the program itself has mapped memory at the address (cuMemMap), enters the pager's gate, which waits until the
// memory is on the device. The query for such an address then goes to the driver. Returns false for all other
// addresses.
static bool enter_if_mapped(enum vg_entry entry, CUdeviceptr address, struct pager_mapped *ret_mapped)
{
	if (!shim_evictable || !pager_mapping_find(address, ret_mapped))
		return false;
	pager_enter(entry);
	return true;
}

SHIM_EXPORT CUresult CUDAAPI cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
	struct pager_range range;
	struct pager_mapped mapped;
	CUresult result;

	if (!find_range(address, &range)) {
		bool entered = enter_if_mapped(VG_ENTRY_cuMemGetAddressRange_v2, address, &mapped);
		result = REAL(cuMemGetAddressRange_v2)(base, size, address);
		if (entered)
			pager_leave();
		return result;
	}
	if (base)
		*base = range.base;
	if (size)
		*size = range.asked;
	return CUDA_SUCCESS;
}

#define ANSWER(type, value)                    \
	do {                                   \
		*(type *)data = (type)(value); \
		return CUDA_SUCCESS;           \
	} while (0)

static CUresult get_attribute(const struct pager_range *range, CUdeviceptr address, CUpointer_attribute attribute,
			      void *data)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		ANSWER(CUcontext, range->context);
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		ANSWER(unsigned int, CU_MEMORYTYPE_DEVICE);
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		ANSWER(CUdeviceptr, address);
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		ANSWER(unsigned int, range->sync_memops);
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		// Bit 62 distinguishes this buffer ID from the driver's buffer IDs, which count up from 1.
		ANSWER(unsigned long long, range->number | 1ull << 62);
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		ANSWER(unsigned int, 0);
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		ANSWER(int, 0);
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		ANSWER(unsigned int, 0);
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		ANSWER(CUdeviceptr, range->base);
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		ANSWER(size_t, range->asked);
	case CU_POINTER_ATTRIBUTE_MAPPED:
		ANSWER(unsigned int, 1);
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		ANSWER(unsigned long long, 0);
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		ANSWER(unsigned int, 0);
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		ANSWER(unsigned int, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		ANSWER(CUmemoryPool, NULL);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

// Answers with a constant buffer ID, because the driver gives a mapping a new one each time that the memory returns to
// the device.
static void keep_number(const struct pager_mapped *mapped, CUpointer_attribute attribute, void *data)
{
	if (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID || attribute == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID)
		*(unsigned long long *)data = mapped->number;
}

SHIM_EXPORT CUresult CUDAAPI cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
	struct pager_range range;
	struct pager_mapped mapped;
	CUresult result;

	if (data && find_range(address, &range))
		return get_attribute(&range, address, attribute, data);
	if (!data || !enter_if_mapped(VG_ENTRY_cuPointerGetAttribute, address, &mapped))
		return REAL(cuPointerGetAttribute)(data, attribute, address);
	result = REAL(cuPointerGetAttribute)(data, attribute, address);
	pager_leave();
	if (result == CUDA_SUCCESS)
		keep_number(&mapped, attribute, data);
	return result;
}

static CUresult query_driver(unsigned int count, CUpointer_attribute *attributes, void **data, CUdeviceptr address)
{
	struct pager_mapped mapped;
	bool entered = enter_if_mapped(VG_ENTRY_cuPointerGetAttributes, address, &mapped);
	CUresult result = REAL(cuPointerGetAttributes)(count, attributes, data, address);

	if (!entered)
		return result;
	pager_leave();
	for (unsigned int i = 0; result == CUDA_SUCCESS && i < count; i++)
		keep_number(&mapped, attributes[i], data[i]);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data,
						    CUdeviceptr address)
{
	struct pager_range range;
	CUresult result;

	if (!attributes || !data || !find_range(address, &range))
		return query_driver(count, attributes, data, address);
	// For an unknown address the driver writes no results, but still rejects unknown attributes.
	result = REAL(cuPointerGetAttributes)(count, attributes, data, 0);
	for (unsigned int i = 0; result == CUDA_SUCCESS && i < count; i++)
		get_attribute(&range, address, attributes[i], data[i]);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
						   CUdeviceptr address)
{
	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !shim_is_evictable(address))
		return REAL(cuPointerSetAttribute)(value, attribute, address);
	return pager_memory_set_sync(address, *(const unsigned int *)value != 0) ? CUDA_SUCCESS
										 : CUDA_ERROR_INVALID_VALUE;
}
