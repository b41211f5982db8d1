// Makes memory of cuMemCreate() evictable. The pager's gate (pager/gate.h) calls the functions of this file instead of
// the driver's. Before each call, the gate brings the memory to the device and keeps it there until the call returns.
// The rest of the interposer treats the handles that these functions return like the driver's.
#include <pthread.h>
#include <string.h>

#include "pager/handle.h"
#include "pager/mapping.h"
#include "pager/pager.h"
#include "shim/evict.h"
#include "shim/mapping.h"

// Lists the driver's functions that take, return or map handles. Also lists cuDeviceGetAttribute, by which programs ask
// what memory the device supports.
#define HANDLE_CALLS(X)                           \
	X(cuMemCreate)                            \
	X(cuMemRelease)                           \
	X(cuMemMap)                               \
	X(cuMemUnmap)                             \
	X(cuMemSetAccess)                         \
	X(cuMemRetainAllocationHandle)            \
	X(cuMemGetAllocationPropertiesFromHandle) \
	X(cuMemExportToShareableHandle)           \
	X(cuMemMapArrayAsync)                     \
	X(cuMemMapArrayAsync_ptsz)                \
	X(cuMulticastBindMem)                     \
	X(cuMulticastBindAddr)                    \
	X(cuDeviceGetAttribute)

static struct {
#define X(abi) __typeof__(&abi) abi;
	HANDLE_CALLS(X)
#undef X
} driver;

#define X(abi) static __typeof__(abi) with_##abi;
HANDLE_CALLS(X)
#undef X

void shim_evict_handles_start(void)
{
#define X(abi)                               \
	driver.abi = REAL(abi);              \
	if (shim_driver_has(VG_ENTRY_##abi)) \
		__atomic_store_n(&shim_slots[VG_ENTRY_##abi], (void *)with_##abi, __ATOMIC_RELEASE);
	HANDLE_CALLS(X)
#undef X
}

void shim_evict_handles_stop(void)
{
#define X(abi) shim_evict_below[VG_ENTRY_##abi] = (void *)driver.abi;
	HANDLE_CALLS(X)
#undef X
}

bool shim_evict_can_create(size_t size, const CUmemAllocationProp *properties, unsigned long long flags)
{
	static const __typeof__(properties->allocFlags) plain;
	const size_t granule = 2u << 20;

	return properties && flags == 0 && size % granule == 0 && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
	       properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE && properties->location.id == 0 &&
	       !properties->win32HandleMetaData && memcmp(&properties->allocFlags, &plain, sizeof plain) == 0;
}

bool shim_evict_is_mapped(CUdeviceptr address, size_t size)
{
	return shim_evictable && pager_mapping_can_leave(address, address + size);
}

// Reports that the device supports neither GPUDirect RDMA nor dma-bufs. Otherwise programs such as PyTorch would create
// all their memory so that GPUDirect RDMA can reach it. Memory of that kind must stay on the device, because other
// devices learn its physical addresses.
static CUresult CUDAAPI with_cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	CUresult result = driver.cuDeviceGetAttribute(value, attribute, device);

	if (result == CUDA_SUCCESS && (attribute == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED ||
				       attribute == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED ||
				       attribute == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED))
		*value = 0;
	return result;
}

static CUresult CUDAAPI with_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
					 const CUmemAllocationProp *properties, unsigned long long flags)
{
	struct shim_evict_attempt attempt = shim_evict_begin(VG_ENTRY_cuMemCreate);
	CUresult result;

	if (!handle || !shim_evict_can_create(size, properties, flags))
		return driver.cuMemCreate(handle, size, properties, flags);
	do
		result = pager_handle_create(handle, size, properties);
	while (shim_evict_try_again(&attempt, result));
	pager_note_bytes();
	return result;
}

static CUresult CUDAAPI with_cuMemRelease(CUmemGenericAllocationHandle handle)
{
	CUresult result;

	if (!pager_handle_is_ours(handle))
		return driver.cuMemRelease(handle);
	result = pager_handle_release(handle);
	pager_note_bytes();
	return result;
}

static CUresult CUDAAPI with_cuMemMap(CUdeviceptr address, size_t size, size_t offset,
				      CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	if (!pager_handle_is_ours(handle))
		return driver.cuMemMap(address, size, offset, handle, flags);
	return pager_mapping_add(address, size, offset, handle, flags);
}

static CUresult CUDAAPI with_cuMemUnmap(CUdeviceptr address, size_t size)
{
	CUresult result = pager_mapping_remove(address, size);

	pager_note_bytes();
	return result;
}

static CUresult CUDAAPI with_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
	CUdeviceptr at = (CUdeviceptr)(uintptr_t)address;
	struct pager_mapped mapped;
	struct pager_handle *ours = handle ? pager_mapping_hold(at, at + 1, &mapped) : NULL;

	if (!ours)
		return driver.cuMemRetainAllocationHandle(handle, address);
	*handle = pager_handle_hand_out(ours);
	return CUDA_SUCCESS;
}

// Replaces the program's handle with the driver's handle of the same memory. Takes a reference, which the caller
// releases after the driver's call.
static CUresult begin_call(CUmemGenericAllocationHandle *handle, struct pager_handle **ret_held)
{
	*ret_held = NULL;
	if (!pager_handle_is_ours(*handle))
		return CUDA_SUCCESS;
	*ret_held = pager_handle_hold(*handle);
	if (!*ret_held)
		return CUDA_ERROR_INVALID_VALUE;
	*handle = (*ret_held)->real;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI with_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
								    CUmemGenericAllocationHandle handle)
{
	struct pager_handle *ours;
	CUresult result = begin_call(&handle, &ours);

	if (result == CUDA_SUCCESS)
		result = driver.cuMemGetAllocationPropertiesFromHandle(properties, handle);
	pager_handle_drop(ours);
	return result;
}

// For each allocation, guards two things that change together: whether the memory must stay on the device, and how it
// is charged.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// Charges memory that cannot move any more against the limit for such memory. Call it with the lock held.
static CUresult charge_as_fixed(struct shim_physical *physical)
{
	if (!physical)
		return CUDA_ERROR_INVALID_VALUE; // another thread has just released the last reference to the handle
	if (shim_charge_as_fixed(shim_physical_set_evictable(physical, false)))
		return CUDA_SUCCESS;
	shim_physical_set_evictable(physical, true);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

// Keeps memory on the device from now on, and charges it as memory that cannot move. Call it before the driver call
// that needs the memory to stay.
static CUresult keep_on_device(enum vg_entry entry, struct shim_physical *physical, struct pager_handle *ours)
{
	CUresult result;

	pthread_mutex_lock(&lock);
	result = pager_handle_can_leave(ours) ? charge_as_fixed(physical) : CUDA_SUCCESS;
	if (result == CUDA_SUCCESS)
		pager_handle_keep_on_device(ours);
	pthread_mutex_unlock(&lock);
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		shim_fixed_refuse(entry, ours->size);
	pager_note_bytes();
	return result;
}

// Undoes keep_on_device() after the driver call failed.
static void let_leave(struct shim_physical *physical, struct pager_handle *ours)
{
	pthread_mutex_lock(&lock);
	if (pager_handle_let_leave(ours) && physical)
		shim_charge_as_evictable(shim_physical_set_evictable(physical, true));
	pthread_mutex_unlock(&lock);
	pager_note_bytes();
}

static CUresult CUDAAPI with_cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
							  CUmemAllocationHandleType type, unsigned long long flags)
{
	uint64_t bytes;
	struct shim_physical *physical = shim_handle_find(handle, &bytes);
	struct pager_handle *ours;
	CUresult result = begin_call(&handle, &ours);
	// Exported memory stays on the device, because other processes can use it. But the driver refuses to export
	// memory that was created without handles of this type, so such memory need not stay.
	bool stays = ours && ours->properties.requestedHandleTypes & type;

	if (stays)
		result = keep_on_device(VG_ENTRY_cuMemExportToShareableHandle, physical, ours);
	if (result == CUDA_SUCCESS) {
		result = driver.cuMemExportToShareableHandle(shareable, handle, type, flags);
		if (result != CUDA_SUCCESS && stays)
			let_leave(physical, ours);
	}
	shim_physical_unref(physical);
	pager_handle_drop(ours);
	return result;
}

// If `stays` is true, the memory that is mapped in the range must not leave the GPU from now on; else it may leave
// again. On failure, *ret_end is the address of the failure.
static CUresult change_range(enum vg_entry entry, CUdeviceptr address, CUdeviceptr end, bool stays,
			     CUdeviceptr *ret_end)
{
	CUresult result = CUDA_SUCCESS;
	struct pager_mapped mapped = {.begin = address};
	struct pager_handle *ours;

	*ret_end = end;
	while (result == CUDA_SUCCESS &&
	       (ours = pager_mapping_hold(mapped.begin + mapped.size, end, &mapped)) != NULL) {
		uint64_t bytes;
		struct shim_physical *physical = shim_mapping_find(mapped.begin, 1, &bytes);
		if (stays)
			result = keep_on_device(entry, physical, ours);
		else
			let_leave(physical, ours);
		if (result != CUDA_SUCCESS)
			*ret_end = mapped.begin;
		shim_physical_unref(physical);
		pager_handle_drop(ours);
	}
	return result;
}

static CUresult keep_range_on_device(enum vg_entry entry, CUdeviceptr address, size_t size)
{
	CUdeviceptr end, unused;
	CUresult result = change_range(entry, address, address + size, true, &end);

	if (result != CUDA_SUCCESS)
		change_range(entry, address, end, false, &unused);
	return result;
}

static void let_range_leave(enum vg_entry entry, CUdeviceptr address, size_t size)
{
	CUdeviceptr unused;

	change_range(entry, address, address + size, false, &unused);
}

static bool is_own_device(const CUmemAccessDesc *access)
{
	return access->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
	       (access->location.type == CU_MEM_LOCATION_TYPE_DEVICE && access->location.id == 0);
}

static void deny_access(CUdeviceptr address, size_t size, const CUmemAccessDesc *access)
{
	const CUmemAccessDesc none = {.location = access->location, .flags = CU_MEM_ACCESS_FLAGS_PROT_NONE};

	driver.cuMemSetAccess(address, size, &none, 1);
}

// If the program gives other devices access to memory, this memory stays on the GPU from then on, because the pager can
// restore access rights for the vGPU's device only. The driver is called first, since it refuses most of these calls.
static CUresult CUDAAPI with_cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access,
					    size_t count)
{
	CUresult result = driver.cuMemSetAccess(address, size, access, count);
	bool stays = false;

	for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++)
		stays |= !is_own_device(&access[i]);
	if (!stays)
		return result;
	result = keep_range_on_device(VG_ENTRY_cuMemSetAccess, address, size);
	for (size_t i = 0; result != CUDA_SUCCESS && i < count; i++)
		if (!is_own_device(&access[i]))
			deny_access(address, size, &access[i]);
	return result;
}

// Refuses evictable memory as tiles of a sparse array. Tiles use memory that was created for tile pools, which is never
// evictable.
static CUresult map_arrays(CUresult (*real)(CUarrayMapInfo *, unsigned int, CUstream), CUarrayMapInfo *list,
			   unsigned int count, CUstream stream)
{
	for (unsigned int i = 0; list && i < count; i++)
		if (list[i].memHandleType == CU_MEM_HANDLE_TYPE_GENERIC &&
		    pager_handle_is_ours(list[i].memHandle.memHandle))
			return CUDA_ERROR_INVALID_VALUE;
	return real(list, count, stream);
}

static CUresult CUDAAPI with_cuMemMapArrayAsync(CUarrayMapInfo *list, unsigned int count, CUstream stream)
{
	return map_arrays(driver.cuMemMapArrayAsync, list, count, stream);
}

static CUresult CUDAAPI with_cuMemMapArrayAsync_ptsz(CUarrayMapInfo *list, unsigned int count, CUstream stream)
{
	return map_arrays(driver.cuMemMapArrayAsync_ptsz, list, count, stream);
}

static CUresult CUDAAPI with_cuMulticastBindMem(CUmemGenericAllocationHandle multicast, size_t offset,
						CUmemGenericAllocationHandle handle, size_t handle_offset, size_t size,
						unsigned long long flags)
{
	uint64_t bytes;
	struct shim_physical *physical = shim_handle_find(handle, &bytes);
	struct pager_handle *ours;
	CUresult result = begin_call(&handle, &ours);

	if (ours)
		result = keep_on_device(VG_ENTRY_cuMulticastBindMem, physical, ours);
	if (result == CUDA_SUCCESS) {
		result = driver.cuMulticastBindMem(multicast, offset, handle, handle_offset, size, flags);
		if (result != CUDA_SUCCESS && ours)
			let_leave(physical, ours);
	}
	shim_physical_unref(physical);
	pager_handle_drop(ours);
	return result;
}

static CUresult CUDAAPI with_cuMulticastBindAddr(CUmemGenericAllocationHandle multicast, size_t offset,
						 CUdeviceptr address, size_t size, unsigned long long flags)
{
	CUresult result = keep_range_on_device(VG_ENTRY_cuMulticastBindAddr, address, size);

	if (result != CUDA_SUCCESS)
		return result;
	result = driver.cuMulticastBindAddr(multicast, offset, address, size, flags);
	if (result != CUDA_SUCCESS)
		let_range_leave(VG_ENTRY_cuMulticastBindAddr, address, size);
	return result;
}
