// Declares the objects of virtual memory: physical memory, address ranges and mappings. Any thread.
#pragma once
#include "core/device.h"
#include "core/resource.h"
#include "virgate/virtual_memory.h"

struct vg_physical_memory {
	struct core_object object;
	CUmemGenericAllocationHandle handle;
	size_t size;
	bool shareable; // the memory can be exported as a descriptor
};

struct vg_address_range {
	struct core_object object;
	CUdeviceptr address;
	size_t size; // the size that was reserved: the driver frees only exactly that
};

struct vg_mapping {
	struct core_object object;
	struct vg_address_range *range;	   // owns a reference
	struct vg_physical_memory *memory; // owns a reference
	CUdeviceptr address;
};

// The options of virtual memory in the driver's form, for one device.
struct core_memory_plan {
	struct vg_device *device;
	CUmemAllocationProp properties;
	bool current_node; // allocate on the NUMA node of the calling thread
	size_t granularity, alignment;
	CUdeviceptr hint;
	size_t access_count;
	CUmemAccessDesc access[]; // entries for the device, the host and the peers
};
// Checks the options and converts them. The caller frees the plan with free(). INVALID, UNSUPPORTED, NO_MEMORY, DRIVER.
enum vg_status core_memory_plan(struct vg_device *device, const struct vg_virtual_memory_options *options,
				struct core_memory_plan **ret_plan);
// Rounds up to a multiple of the granularity. INVALID: overflow.
enum vg_status core_memory_plan_round(const struct core_memory_plan *plan, size_t size, size_t *ret_size);

enum vg_status core_physical_memory_create(const struct core_memory_plan *plan, size_t size,
					   struct vg_physical_memory **ret_memory);
enum vg_status core_address_range_create(size_t size, size_t alignment, CUdeviceptr hint,
					 struct vg_address_range **ret_range);
enum vg_status core_mapping_create(struct vg_address_range *range, size_t offset, struct vg_physical_memory *memory,
				   struct vg_mapping **ret_mapping);
// Sets the access to adjacent mappings in one driver call. If `count` is 0, makes no call.
enum vg_status core_memory_set_access(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count);
enum vg_status core_mapping_set_access(struct vg_mapping *mapping, const CUmemAccessDesc *access, size_t count);
