// Gives advice about managed memory, prefetches it and discards it.
#include "core/buffer.h"
#include "core/device.h"
#include "core/resource.h"
#include "core/some_context.h"
#include "virgate/managed_memory.h"

#include <stdlib.h>

static enum vg_status check_managed(const struct vg_buffer *buffer)
{
	struct vg_memory_properties properties;

	CORE_TRY(vg_buffer_properties(buffer, &properties));
	if (properties.managed)
		return VG_OK;
	return vg_fail(VG_INVALID, 0,
		       "the buffer is not a managed-memory allocation: it neither moves nor takes advice");
}

// Checks a location. HOST_NUMA and HOST_NUMA_CURRENT are valid only if `nodes` is true.
static enum vg_status check_location(struct vg_memory_location location, bool nodes)
{
	int count = 0;

	switch (location.type) {
	case VG_LOCATION_DEVICE:
		if (vg_device_count(&count) == VG_OK && location.id >= 0 && location.id < count)
			return VG_OK;
		return vg_fail(VG_INVALID, 0, "location.id is %d: there are %d devices", location.id, count);
	case VG_LOCATION_HOST:
		return VG_OK;
	case VG_LOCATION_HOST_NUMA:
		if (nodes && location.id < 0)
			return vg_fail(VG_INVALID, 0, "location.id is %d: a NUMA node is 0 or more", location.id);
		if (nodes)
			return VG_OK;
		break;
	case VG_LOCATION_HOST_NUMA_CURRENT:
		if (nodes)
			return VG_OK;
		break;
	default:
		break;
	}
	return vg_fail(VG_INVALID, 0, "location.type is %d: a device or the host%s", location.type,
		       nodes ? ", or one of its nodes" : "");
}

static CUmemLocation convert_location(struct vg_memory_location location)
{
	bool counted = location.type == VG_LOCATION_DEVICE || location.type == VG_LOCATION_HOST_NUMA;

	return (CUmemLocation){.type = (CUmemLocationType)location.type, .id = counted ? location.id : 0};
}

// ---- advice -------------------------------------------------------------------------------------

static enum vg_status give_advice(struct vg_buffer *buffer, CUmem_advise advice, struct vg_memory_location location)
{
	__attribute__((cleanup(core_leave_some))) struct core_some_context some;

	CUresult r = core_enter_some(&some);
	if (r == CUDA_SUCCESS && buffer->size)
		r = core_driver->cuMemAdvise_v2(buffer->address, buffer->size, advice, convert_location(location));
	return r ? core_driver_failed(r, "cuMemAdvise", "advice %d, location %d of type %d", advice, location.id,
				      location.type)
		 : VG_OK;
}

static enum vg_status query_attribute(const struct vg_buffer *buffer, CUmem_range_attribute attribute, size_t count,
				      int *ret_values)
{
	__attribute__((cleanup(core_leave_some))) struct core_some_context some;

	CUresult r = core_enter_some(&some);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuMemRangeGetAttribute(ret_values, count * sizeof *ret_values, attribute,
							buffer->address, buffer->size);
	return r ? core_driver_failed(r, "cuMemRangeGetAttribute", "attribute %d", attribute) : VG_OK;
}

enum vg_status vg_buffer_set_read_mostly(struct vg_buffer *buffer, int read_mostly)
{
	VG_ENTRY();
	CORE_TRY(check_managed(buffer));
	return give_advice(buffer, read_mostly ? CU_MEM_ADVISE_SET_READ_MOSTLY : CU_MEM_ADVISE_UNSET_READ_MOSTLY,
			   (struct vg_memory_location){VG_LOCATION_HOST, 0});
}

enum vg_status vg_buffer_read_mostly(const struct vg_buffer *buffer, int *ret_read_mostly)
{
	VG_ENTRY();
	int value = 0;

	CORE_TRY(check_managed(buffer));
	CORE_NEEDED(ret_read_mostly);
	CORE_TRY(query_attribute(buffer, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, 1, &value));
	*ret_read_mostly = value != 0;
	return VG_OK;
}

enum vg_status vg_buffer_set_preferred_location(struct vg_buffer *buffer, struct vg_memory_location location)
{
	VG_ENTRY();
	CORE_TRY(check_managed(buffer));
	if (location.type == VG_LOCATION_NONE)
		return give_advice(buffer, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION,
				   (struct vg_memory_location){VG_LOCATION_HOST, 0});
	CORE_TRY(check_location(location, true));
	return give_advice(buffer, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, location);
}

enum vg_status vg_buffer_preferred_location(const struct vg_buffer *buffer, struct vg_memory_location *ret_location)
{
	VG_ENTRY();
	int type = 0, id = 0;

	CORE_TRY(check_managed(buffer));
	CORE_NEEDED(ret_location);
	CORE_TRY(query_attribute(buffer, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, 1, &type));
	if (type == VG_LOCATION_DEVICE || type == VG_LOCATION_HOST_NUMA)
		CORE_TRY(query_attribute(buffer, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID, 1, &id));
	*ret_location = (struct vg_memory_location){(enum vg_location_type)type, id};
	return VG_OK;
}

enum vg_status vg_buffer_set_accessed_by(struct vg_buffer *buffer, struct vg_memory_location location, int accessed)
{
	VG_ENTRY();
	CORE_TRY(check_managed(buffer));
	CORE_TRY(check_location(location, false));
	return give_advice(buffer, accessed ? CU_MEM_ADVISE_SET_ACCESSED_BY : CU_MEM_ADVISE_UNSET_ACCESSED_BY,
			   location);
}

// Lists the locations that the driver returned (-2: unused entry): devices in ascending order, then the host. If
// `ret_locations` is NULL, only counts them.
static size_t sort_users(const int *users, int room, struct vg_memory_location *ret_locations)
{
	size_t count = 0;

	for (int device = 0; device < room; device++) // the last iteration is for the host
		for (int i = 0; i < room; i++) {
			bool host = device == room - 1;
			if (users[i] != (host ? CU_DEVICE_CPU : device))
				continue;
			if (ret_locations)
				ret_locations[count] = (struct vg_memory_location){
					host ? VG_LOCATION_HOST : VG_LOCATION_DEVICE, host ? 0 : device};
			count++;
			break;
		}
	return count;
}

enum vg_status vg_buffer_accessed_by(const struct vg_buffer *buffer, struct vg_memory_location *ret_locations,
				     size_t capacity, size_t *ret_count)
{
	VG_ENTRY();
	int device_count;

	CORE_TRY(check_managed(buffer));
	CORE_NEEDED(ret_count);
	if (capacity)
		CORE_NEEDED(ret_locations);
	CORE_TRY(vg_device_count(&device_count));
	int room = device_count + 1, *users = calloc((size_t)room, sizeof *users);
	if (!users)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of %d locations", room);
	enum vg_status status = query_attribute(buffer, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, (size_t)room, users);
	if (status) {
		free(users);
		return status;
	}
	size_t count = sort_users(users, room, NULL);
	if (capacity && count > capacity) {
		free(users);
		return core_no_room(count, capacity, "locations");
	}
	if (capacity)
		sort_users(users, room, ret_locations);
	free(users);
	*ret_count = count;
	return VG_OK;
}

// ---- prefetches and discards --------------------------------------------------------------------

struct batch {
	CUdeviceptr *addresses;
	size_t *sizes, *indices; // `indices`: index of the first buffer for each location
	CUmemLocation *locations;
	size_t count; // number of buffers that are not empty
};

static void finish_batch(struct batch *batch)
{
	free(batch->addresses);
	free(batch->sizes);
	free(batch->indices);
	free(batch->locations);
}

static enum vg_status fill_batch(struct batch *batch, struct vg_buffer *const *buffers, size_t count,
				 const struct vg_memory_location *locations, size_t location_count)
{
	for (size_t i = 0; i < count; i++) {
		CORE_TRY(check_managed(buffers[i]));
		if (locations)
			CORE_TRY(check_location(locations[location_count == 1 ? 0 : i], true));
		if (buffers[i]->size == 0)
			continue;
		batch->addresses[batch->count] = buffers[i]->address;
		batch->sizes[batch->count] = buffers[i]->size;
		batch->indices[batch->count] = batch->count;
		if (locations)
			batch->locations[batch->count] = convert_location(locations[location_count == 1 ? 0 : i]);
		batch->count++;
	}
	return VG_OK;
}

// Checks the arguments and allocates the batch. `locations` is NULL if none are needed.
static enum vg_status start_batch(struct batch *batch, struct vg_buffer *const *buffers, size_t count,
				  const struct vg_memory_location *locations, size_t location_count,
				  struct vg_stream *stream)
{
	CORE_USABLE(stream, "stream");
	if (count && !buffers)
		return vg_fail(VG_INVALID, 0, "buffers is NULL, and count %zu", count);
	if (count > SIZE_MAX / sizeof(CUmemLocation))
		return vg_fail(VG_INVALID, 0, "%zu buffers: there cannot be so many", count);
	batch->addresses = calloc(count + 1, sizeof *batch->addresses);
	batch->sizes = calloc(count + 1, sizeof *batch->sizes);
	batch->indices = calloc(count + 1, sizeof *batch->indices);
	batch->locations = calloc(count + 1, sizeof *batch->locations);
	if (!batch->addresses || !batch->sizes || !batch->indices || !batch->locations)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of %zu buffers", count);
	return fill_batch(batch, buffers, count, locations, location_count);
}

static enum vg_status start_moves(struct batch *batch, struct vg_buffer *const *buffers, size_t count,
				  const struct vg_memory_location *locations, size_t location_count,
				  struct vg_stream *stream)
{
	if (!locations)
		return vg_fail(VG_INVALID, 0, "locations is NULL");
	if (location_count != 1 && location_count != count)
		return vg_fail(VG_INVALID, 0, "%zu locations for %zu buffers: give one for all, or one for each",
			       location_count, count);
	return start_batch(batch, buffers, count, locations, location_count, stream);
}

enum vg_status vg_buffers_prefetch(struct vg_buffer *const *buffers, size_t count,
				   const struct vg_memory_location *locations, size_t location_count,
				   struct vg_stream *stream)
{
	VG_ENTRY();
	__attribute__((cleanup(finish_batch))) struct batch b = {0};

	enum vg_status status = start_moves(&b, buffers, count, locations, location_count, stream);
	if (status || b.count == 0)
		return status;
	if (b.count > 1 && core_driver_version() < 13000)
		return core_needs_driver(13000, "prefetching several buffers at once");
	CORE_ENTER(scope, stream->context->handle);
	if (b.count == 1)
		CORE_CALL(cuMemPrefetchAsync_v2, b.addresses[0], b.sizes[0], b.locations[0], 0, stream->handle);
	else
		CORE_CALL(cuMemPrefetchBatchAsync, b.addresses, b.sizes, b.count, b.locations, b.indices, b.count, 0,
			  stream->handle);
	return VG_OK;
}

enum vg_status vg_buffers_discard(struct vg_buffer *const *buffers, size_t count, struct vg_stream *stream)
{
	VG_ENTRY();
	__attribute__((cleanup(finish_batch))) struct batch b = {0};

	enum vg_status status = start_batch(&b, buffers, count, NULL, 0, stream);
	if (status || b.count == 0)
		return status;
	if (core_driver_version() < 13000)
		return core_needs_driver(13000, "discarding");
	CORE_ENTER(scope, stream->context->handle);
	CORE_CALL(cuMemDiscardBatchAsync, b.addresses, b.sizes, b.count, 0, stream->handle);
	return VG_OK;
}

enum vg_status vg_buffers_discard_and_prefetch(struct vg_buffer *const *buffers, size_t count,
					       const struct vg_memory_location *locations, size_t location_count,
					       struct vg_stream *stream)
{
	VG_ENTRY();
	__attribute__((cleanup(finish_batch))) struct batch b = {0};

	enum vg_status status = start_moves(&b, buffers, count, locations, location_count, stream);
	if (status || b.count == 0)
		return status;
	if (core_driver_version() < 13000)
		return core_needs_driver(13000, "discarding");
	CORE_ENTER(scope, stream->context->handle);
	CORE_CALL(cuMemDiscardAndPrefetchBatchAsync, b.addresses, b.sizes, b.count, b.locations, b.indices, b.count, 0,
		  stream->handle);
	return VG_OK;
}
