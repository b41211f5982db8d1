// Implements the memory resource of virtual memory.
//
// A buffer is a row of adjacent mappings. When a buffer grows, the new buffer uses the mappings of the old one, or maps
// the same physical memory again at other addresses. Mappings and physical memory are reference-counted: the last user
// frees them.
#include "core/buffer.h"
#include "core/pending.h"
#include "core/virtual_memory.h"

#include <stdlib.h>

struct virtual_resource {
	struct vg_memory_resource resource;
	struct core_memory_plan *plan;
};

// The row of mappings of an allocation; the allocation's `user` points to it.
struct row {
	size_t count;
	struct vg_mapping *mappings[]; // owns references; in the order of their addresses
};

static struct row *create_row(size_t capacity)
{
	struct row *row = calloc(1, sizeof *row + capacity * sizeof row->mappings[0]);

	if (!row)
		vg_fail(VG_NO_MEMORY, 0, "no memory for a list of %zu mappings", capacity);
	return row;
}

// Closes every mapping, and returns the first error.
static enum vg_status free_row(struct row *row)
{
	enum vg_status result = VG_OK;

	for (size_t i = 0; row && i < row->count; i++) {
		enum vg_status status = core_object_close(&row->mappings[i]->object);
		result = result ? result : status;
		vg_mapping_destroy(row->mappings[i]);
	}
	free(row);
	return result;
}

// Frees a row after a failure. Keeps the last error.
static void undo_row(struct row *row)
{
	struct vg_kept_error kept;

	vg_error_keep(&kept);
	free_row(row);
	vg_error_restore(&kept);
}

// Maps new physical memory at `offset` of the address range, sets the access, and adds the mapping to the row.
static enum vg_status append_mapping(struct row *row, const struct core_memory_plan *plan, size_t size,
				     struct vg_address_range *range, size_t offset)
{
	struct vg_physical_memory *memory;
	struct vg_mapping *mapping;

	CORE_TRY(core_physical_memory_create(plan, size, &memory));
	enum vg_status status = core_mapping_create(range, offset, memory, &mapping);
	vg_physical_memory_destroy(memory);
	if (status)
		return status;
	status = core_mapping_set_access(mapping, plan->access, plan->access_count);
	if (status)
		vg_mapping_destroy(mapping);
	else
		row->mappings[row->count++] = mapping;
	return status;
}

// ---- the resource -------------------------------------------------------------------------------

static enum vg_status allocate_virtual(struct vg_memory_resource *resource, size_t size, struct vg_stream *stream,
				       struct vg_allocation *ret_allocation)
{
	const struct core_memory_plan *plan = ((struct virtual_resource *)resource)->plan;
	struct vg_address_range *range;

	if (size == 0)
		return VG_OK;
	CORE_TRY(core_memory_plan_round(plan, size, &size));
	struct row *row = create_row(1);
	if (!row)
		return VG_NO_MEMORY;
	enum vg_status status = core_address_range_create(size, plan->alignment, plan->hint, &range);
	if (status == VG_OK) {
		status = append_mapping(row, plan, size, range, 0);
		vg_address_range_destroy(range);
	}
	if (status) {
		free(row);
		return status;
	}
	*ret_allocation = (struct vg_allocation){row->mappings[0]->address, size, row};
	return VG_OK;
}

static enum vg_status free_virtual(struct vg_memory_resource *resource, const struct vg_allocation *allocation,
				   struct vg_stream *stream)
{
	if (!allocation->user)
		return VG_OK;
	if (core_pending_needed(stream))
		return core_pending_add(resource, allocation, stream);
	if (stream) // wait for the stream, because unmapping does not wait for work that uses the memory
		core_stream_wait(stream);
	return free_row(allocation->user);
}

static void free_resource(struct core_object *object)
{
	struct virtual_resource *it = (struct virtual_resource *)object;

	free(it->plan);
	free(it);
}

static const struct core_resource_class virtual_class = {.object = {"virtual memory resource", NULL, free_resource},
							 .check = core_resource_refuse_capture,
							 .allocate = allocate_virtual,
							 .deallocate = free_virtual};

enum vg_status vg_virtual_memory_resource_create(struct vg_device *device,
						 const struct vg_virtual_memory_options *options,
						 struct vg_memory_resource **ret_resource)
{
	VG_ENTRY();
	struct vg_virtual_memory_options o;
	struct core_memory_plan *plan;

	CORE_NEEDED(device);
	CORE_NEEDED(ret_resource);
	CORE_OPTIONS(o, options);
	CORE_TRY(core_memory_plan(device, &o, &plan));
	struct virtual_resource *it = calloc(1, sizeof *it);
	if (!it) {
		free(plan);
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a virtual memory resource");
	}
	bool host = plan->properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE;
	core_object_init(&it->resource.object, &virtual_class.object);
	it->resource.keeps_notes = true;
	it->resource.properties =
		(struct vg_memory_properties){.device = host ? -1 : device->ordinal,
					      .device_accessible = plan->access_count > 0,
					      .host_accessible = host && o.self_access != VG_ACCESS_NONE,
					      .managed = plan->properties.type == CU_MEM_ALLOCATION_TYPE_MANAGED};
	it->plan = plan;
	*ret_resource = &it->resource;
	return VG_OK;
}

// ---- growth -------------------------------------------------------------------------------------

// Makes a row with the same mappings, and maps more memory at the addresses directly after them. Leaves *ret_row unset
// if those addresses are in use, or not aligned as the options require.
static enum vg_status grow_in_place(const struct vg_buffer *buffer, const struct core_memory_plan *plan, size_t more,
				    struct row **ret_row)
{
	const struct row *before = buffer->note;
	const CUdeviceptr end = buffer->address + buffer->size;
	struct vg_address_range *range;

	// The options may require another granularity than that of the buffer.
	if (end % plan->granularity || buffer->address % plan->alignment)
		return VG_OK;
	CORE_TRY(core_address_range_create(more, plan->granularity, end, &range));
	if (range->address != end) {
		vg_address_range_destroy(range);
		return VG_OK;
	}
	struct row *row = create_row(before->count + 1);
	if (!row) {
		vg_address_range_destroy(range);
		return VG_NO_MEMORY;
	}
	for (; row->count < before->count; row->count++) {
		row->mappings[row->count] = before->mappings[row->count];
		core_object_retain(&row->mappings[row->count]->object);
	}
	enum vg_status status = append_mapping(row, plan, more, range, 0);
	vg_address_range_destroy(range);
	if (status)
		undo_row(row);
	else
		*ret_row = row;
	return status;
}

// Maps the same physical memory again at other addresses, and maps more memory after it.
static enum vg_status grow_elsewhere(const struct vg_buffer *buffer, const struct core_memory_plan *plan, size_t more,
				     struct row **ret_row)
{
	const struct row *before = buffer->note;
	const size_t own = ((struct virtual_resource *)buffer->resource)->plan->granularity;
	struct vg_address_range *range;
	size_t alignment = plan->alignment, offset = 0;

	if (buffer->size % plan->granularity)
		return vg_fail(VG_INVALID, 0,
			       "the memory to be added comes in multiples of %zu bytes, and so do its addresses: they "
			       "cannot follow the buffer's %zu; create a buffer with these options, or ask for the "
			       "granularity of its own",
			       plan->granularity, buffer->size);
	struct row *row = create_row(before->count + 1);
	if (!row)
		return VG_NO_MEMORY;
	if (alignment < own)
		alignment = own;
	if (alignment < plan->granularity)
		alignment = plan->granularity;
	enum vg_status status = core_address_range_create(buffer->size + more, alignment, 0, &range);
	if (status) {
		free(row);
		return status;
	}
	for (size_t i = 0; i < before->count && status == VG_OK; i++) {
		struct vg_physical_memory *memory = before->mappings[i]->memory;
		status = core_mapping_create(range, offset, memory, &row->mappings[i]);
		if (status)
			break;
		row->count++;
		status = core_mapping_set_access(row->mappings[i], plan->access, plan->access_count);
		offset += memory->size;
	}
	if (status == VG_OK)
		status = append_mapping(row, plan, more, range, offset);
	vg_address_range_destroy(range);
	if (status)
		undo_row(row);
	else
		*ret_row = row;
	return status;
}

// Sets the access to all mappings in one call, so that a failure changes no mapping.
static enum vg_status set_buffer_access(const struct vg_buffer *buffer, const struct core_memory_plan *plan)
{
	return core_memory_set_access(buffer->address, buffer->size, plan->access, plan->access_count);
}

static enum vg_status grow_buffer(struct vg_buffer *buffer, const struct core_memory_plan *plan, size_t size,
				  bool new_access, struct vg_buffer **ret_buffer)
{
	struct row *row = NULL;
	size_t more;

	if (size <= buffer->size) {
		if (new_access)
			CORE_TRY(set_buffer_access(buffer, plan));
		*ret_buffer = vg_buffer_retain(buffer);
		return VG_OK;
	}
	CORE_TRY(core_memory_plan_round(plan, size - buffer->size, &more));
	if (more > SIZE_MAX - buffer->size)
		return vg_fail(VG_INVALID, 0, "%zu bytes: rounded up to multiples of %zu they are too many", size,
			       plan->granularity);
	CORE_TRY(grow_in_place(buffer, plan, more, &row));
	if (!row) {
		CORE_TRY(grow_elsewhere(buffer, plan, more, &row));
	} else if (new_access) {
		enum vg_status status = set_buffer_access(buffer, plan);
		if (status) {
			undo_row(row);
			return status;
		}
	}
	const struct vg_allocation allocation = {row->mappings[0]->address, buffer->size + more, row};
	struct vg_stream *stream = core_buffer_retain_stream(buffer);
	struct vg_buffer *grown = core_buffer_new(&allocation, buffer->resource, stream);
	vg_stream_destroy(stream);
	if (!grown) {
		undo_row(row);
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a buffer");
	}
	*ret_buffer = grown;
	return VG_OK;
}

enum vg_status vg_buffer_grow(struct vg_buffer *buffer, size_t size, const struct vg_virtual_memory_options *options,
			      struct vg_buffer **ret_buffer)
{
	VG_ENTRY();
	struct vg_virtual_memory_options o;
	struct core_memory_plan *own = NULL;

	CORE_USABLE(buffer, "buffer");
	CORE_NEEDED(ret_buffer);
	CORE_OPTIONS(o, options);
	if (!buffer->resource || core_resource_class(buffer->resource) != &virtual_class)
		return vg_fail(VG_INVALID, 0,
			       "a buffer of a %s cannot grow: only those of a virtual memory resource can",
			       buffer->resource ? vg_memory_resource_name(buffer->resource) : "borrowed address");
	CORE_USABLE(buffer->resource, "resource");
	if (buffer->size == 0)
		return vg_fail(VG_INVALID, 0, "the buffer has 0 bytes and no memory: create one of the size you need");
	const struct core_memory_plan *plan = ((struct virtual_resource *)buffer->resource)->plan;
	if (options)
		CORE_TRY(core_memory_plan(plan->device, &o, &own));
	enum vg_status status = grow_buffer(buffer, own ? own : plan, size, own, ret_buffer);
	free(own);
	return status;
}
