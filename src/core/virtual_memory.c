#include "core/virtual_memory.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>

// ---- physical memory ----------------------------------------------------------------------------

static enum vg_status close_memory(struct core_object *object)
{
	// The driver keeps the memory as long as it is mapped.
	CUresult r = core_driver->cuMemRelease(((struct vg_physical_memory *)object)->handle);

	return r ? core_driver_failed(r, "cuMemRelease", "%s", "") : VG_OK;
}

static void free_object(struct core_object *object)
{
	free(object);
}

static const struct core_class memory_class = {"physical memory", close_memory, free_object};

static struct vg_physical_memory *create_memory(size_t size)
{
	struct vg_physical_memory *memory = calloc(1, sizeof *memory);

	if (memory) {
		core_object_init(&memory->object, &memory_class);
		memory->size = size;
	}
	return memory;
}

enum vg_status core_physical_memory_create(const struct core_memory_plan *plan, size_t size,
					   struct vg_physical_memory **ret_memory)
{
	struct vg_physical_memory *memory = create_memory(size);
	CUmemAllocationProp properties = plan->properties;
	unsigned node;

	if (!memory)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for physical memory");
	if (plan->current_node && getcpu(NULL, &node) == 0)
		properties.location.id = (int)node;
	CUresult r = core_driver->cuMemCreate(&memory->handle, size, &properties, 0);
	if (r) {
		free(memory);
		return core_allocation_failed(r, "cuMemCreate", size);
	}
	memory->shareable = properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	*ret_memory = memory;
	return VG_OK;
}

enum vg_status vg_physical_memory_create(struct vg_device *device, size_t size,
					 const struct vg_virtual_memory_options *options,
					 struct vg_physical_memory **ret_memory)
{
	VG_ENTRY();
	struct vg_virtual_memory_options o;
	struct core_memory_plan *plan;

	CORE_NEEDED(device);
	CORE_NEEDED(ret_memory);
	CORE_OPTIONS(o, options);
	if (size == 0)
		return vg_fail(VG_INVALID, 0, "size is 0: physical memory has at least one granule");
	CORE_TRY(core_memory_plan(device, &o, &plan));
	enum vg_status status = core_memory_plan_round(plan, size, &size);
	if (status == VG_OK)
		status = core_physical_memory_create(plan, size, ret_memory);
	free(plan);
	return status;
}

enum vg_status vg_physical_memory_export(struct vg_physical_memory *memory, int *ret_descriptor)
{
	VG_ENTRY();
	int descriptor;

	CORE_USABLE(memory, "memory");
	CORE_NEEDED(ret_descriptor);
	if (!memory->shareable)
		return vg_fail(VG_STATE, 0, "the memory was made without VG_HANDLE_POSIX_FD, and has no descriptor");
	CORE_CALL(cuMemExportToShareableHandle, &descriptor, memory->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		  0);
	(void)fcntl(descriptor, F_SETFD, FD_CLOEXEC);
	*ret_descriptor = descriptor;
	return VG_OK;
}

enum vg_status vg_physical_memory_import(struct vg_device *device, int descriptor, size_t size,
					 struct vg_physical_memory **ret_memory)
{
	VG_ENTRY();
	CORE_NEEDED(device);
	CORE_NEEDED(ret_memory);
	if (size == 0)
		return vg_fail(VG_INVALID, 0, "size is 0: the exporter knows how many bytes there are");
	if (fcntl(descriptor, F_GETFD) < 0)
		return vg_fail(VG_INVALID, 0, "descriptor %d is not open", descriptor);
	struct vg_physical_memory *memory = create_memory(size);
	if (!memory)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for physical memory");
	CUresult r = core_driver->cuMemImportFromShareableHandle(&memory->handle, (void *)(intptr_t)descriptor,
								 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	if (r) {
		free(memory);
		return core_driver_failed(r, "cuMemImportFromShareableHandle", "descriptor %d", descriptor);
	}
	memory->shareable = true;
	*ret_memory = memory;
	return VG_OK;
}

void vg_physical_memory_destroy(struct vg_physical_memory *memory)
{
	core_object_release(memory ? &memory->object : NULL);
}

enum vg_status vg_physical_memory_close(struct vg_physical_memory *memory)
{
	VG_ENTRY();
	CORE_NEEDED(memory);
	return core_object_close(&memory->object);
}

size_t vg_physical_memory_size(const struct vg_physical_memory *memory)
{
	return memory && !atomic_load(&memory->object.closed) ? memory->size : 0;
}

// ---- addresses ----------------------------------------------------------------------------------

static enum vg_status close_range(struct core_object *object)
{
	struct vg_address_range *range = (struct vg_address_range *)object;
	CUresult r = core_driver->cuMemAddressFree(range->address, range->size);

	return r ? core_driver_failed(r, "cuMemAddressFree", "%zu bytes at 0x%llx", range->size, range->address)
		 : VG_OK;
}

static const struct core_class range_class = {"address range", close_range, free_object};

enum vg_status core_address_range_create(size_t size, size_t alignment, CUdeviceptr hint,
					 struct vg_address_range **ret_range)
{
	struct vg_address_range *range = calloc(1, sizeof *range);

	if (!range)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for an address range");
	CUresult r = core_driver->cuMemAddressReserve(&range->address, size, alignment, hint, 0);
	if (r) {
		free(range);
		return core_driver_failed(r, "cuMemAddressReserve", "%zu bytes, aligned to %zu", size, alignment);
	}
	core_object_init(&range->object, &range_class);
	range->size = size;
	*ret_range = range;
	return VG_OK;
}

enum vg_status vg_address_range_create(size_t size, size_t alignment, vg_address hint,
				       struct vg_address_range **ret_range)
{
	VG_ENTRY();
	enum { PAGE = 4096 };

	CORE_NEEDED(ret_range);
	if (size == 0 || size % PAGE)
		return vg_fail(VG_INVALID, 0, "%zu bytes of addresses: they come in multiples of %d", size, PAGE);
	if (alignment & (alignment - 1))
		return vg_fail(VG_INVALID, 0, "alignment is %zu: it must be a power of two", alignment);
	CORE_TRY(core_open());
	return core_address_range_create(size, alignment, hint, ret_range);
}

void vg_address_range_destroy(struct vg_address_range *range)
{
	core_object_release(range ? &range->object : NULL);
}

enum vg_status vg_address_range_close(struct vg_address_range *range)
{
	VG_ENTRY();
	CORE_NEEDED(range);
	return core_object_close(&range->object);
}

vg_address vg_address_range_address(const struct vg_address_range *range)
{
	return range && !atomic_load(&range->object.closed) ? range->address : 0;
}

size_t vg_address_range_size(const struct vg_address_range *range)
{
	return range && !atomic_load(&range->object.closed) ? range->size : 0;
}

// ---- mappings -----------------------------------------------------------------------------------

static enum vg_status close_mapping(struct core_object *object)
{
	struct vg_mapping *mapping = (struct vg_mapping *)object;
	CUresult r = core_driver->cuMemUnmap(mapping->address, mapping->memory->size);

	return r ? core_driver_failed(r, "cuMemUnmap", "%zu bytes at 0x%llx", mapping->memory->size, mapping->address)
		 : VG_OK;
}

static void free_mapping(struct core_object *object)
{
	struct vg_mapping *mapping = (struct vg_mapping *)object;

	core_object_release(&mapping->memory->object);
	core_object_release(&mapping->range->object);
	free(mapping);
}

static const struct core_class mapping_class = {"mapping", close_mapping, free_mapping};

enum vg_status core_mapping_create(struct vg_address_range *range, size_t offset, struct vg_physical_memory *memory,
				   struct vg_mapping **ret_mapping)
{
	struct vg_mapping *mapping = calloc(1, sizeof *mapping);

	if (!mapping)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a mapping");
	mapping->address = range->address + offset;
	CUresult r = core_driver->cuMemMap(mapping->address, memory->size, 0, memory->handle, 0);
	if (r) {
		free(mapping);
		return core_driver_failed(r, "cuMemMap", "%zu bytes at offset %zu of a range of %zu", memory->size,
					  offset, range->size);
	}
	core_object_init(&mapping->object, &mapping_class);
	core_object_retain(&range->object);
	core_object_retain(&memory->object);
	mapping->range = range;
	mapping->memory = memory;
	*ret_mapping = mapping;
	return VG_OK;
}

enum vg_status vg_mapping_create(struct vg_address_range *range, size_t offset, struct vg_physical_memory *memory,
				 struct vg_mapping **ret_mapping)
{
	VG_ENTRY();
	CORE_USABLE(range, "range");
	CORE_USABLE(memory, "memory");
	CORE_NEEDED(ret_mapping);
	if (offset > range->size || memory->size > range->size - offset)
		return vg_fail(VG_INVALID, 0, "%zu bytes at offset %zu: the range has %zu", memory->size, offset,
			       range->size);
	return core_mapping_create(range, offset, memory, ret_mapping);
}

enum vg_status core_memory_set_access(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count)
{
	if (count == 0)
		return VG_OK; // the driver rejects a call with a count of 0
	CUresult r = core_driver->cuMemSetAccess(address, size, access, count);
	return r ? core_driver_failed(r, "cuMemSetAccess", "%zu bytes, for %zu locations", size, count) : VG_OK;
}

enum vg_status core_mapping_set_access(struct vg_mapping *mapping, const CUmemAccessDesc *access, size_t count)
{
	return core_memory_set_access(mapping->address, mapping->memory->size, access, count);
}

enum vg_status vg_mapping_set_access(struct vg_mapping *mapping, struct vg_device *const *devices, size_t count,
				     enum vg_access access)
{
	VG_ENTRY();
	static const CUmemAccess_flags flags[] = {CU_MEM_ACCESS_FLAGS_PROT_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_READ,
						  CU_MEM_ACCESS_FLAGS_PROT_NONE};

	CORE_USABLE(mapping, "mapping");
	if (count == 0)
		return vg_fail(VG_INVALID, 0, "count is 0: name the devices");
	CORE_NEEDED(devices);
	if ((unsigned)access > VG_ACCESS_NONE)
		return vg_fail(VG_INVALID, 0, "access is %d: READ_WRITE, READ or NONE", access);
	for (size_t i = 0; i < count; i++)
		if (!devices[i])
			return vg_fail(VG_INVALID, 0, "devices[%zu] is NULL", i);
	CUmemAccessDesc *list = calloc(count, sizeof *list);
	if (!list)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of %zu devices", count);
	for (size_t i = 0; i < count; i++)
		list[i] = (CUmemAccessDesc){{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = devices[i]->ordinal},
					    flags[access]};
	enum vg_status status = core_mapping_set_access(mapping, list, count);
	free(list);
	return status;
}

void vg_mapping_destroy(struct vg_mapping *mapping)
{
	core_object_release(mapping ? &mapping->object : NULL);
}

enum vg_status vg_mapping_close(struct vg_mapping *mapping)
{
	VG_ENTRY();
	CORE_NEEDED(mapping);
	return core_object_close(&mapping->object);
}

vg_address vg_mapping_address(const struct vg_mapping *mapping)
{
	return mapping && !atomic_load(&mapping->object.closed) ? mapping->address : 0;
}

size_t vg_mapping_size(const struct vg_mapping *mapping)
{
	return mapping && !atomic_load(&mapping->object.closed) ? mapping->memory->size : 0;
}
