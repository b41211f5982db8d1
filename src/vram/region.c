// Allocates, zeroes and frees regions.
#include "vram/trust.h"

#include "base/size.h"
#include "core/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

// ---- memory -----------------------------------------------------------------------------------------

// Zeroes all mapped bytes, including padding. The per-thread default stream waits for earlier writes on the legacy
// stream.
static enum vg_status zero_region(const struct vram_region *region)
{
	CORE_SCOPE scope = {false};

	CUresult r = core_enter(&scope, region->vram->context->handle);
	if (r == CUDA_SUCCESS && atomic_load(&region->lent))
		// Wait, because a kernel that was started during a loan must not write after the zeroing.
		r = core_driver->cuCtxSynchronize();
	if (r == CUDA_SUCCESS)
		r = core_driver->cuMemsetD8Async(region->base, 0, region->mapped, CU_STREAM_PER_THREAD);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuStreamSynchronize(CU_STREAM_PER_THREAD);
	if (r)
		// Wait, because queued work must not use the memory after it was freed.
		(void)core_driver->cuCtxSynchronize();
	return r ? core_driver_failed(r, "cuMemsetD8", "zeroing %zu bytes", region->mapped) : VG_OK;
}

// Frees or unmaps the region's memory.
static enum vg_status free_memory(struct vram_region *region)
{
	enum vg_status status = VG_OK;

	if (region->import.unmap)
		status = region->import.unmap(region->import.user);
	else if (region->plain.address)
		status = core_resource_deallocate(region->vram->plain, &region->plain, NULL);
	if (region->mapping) {
		status = core_object_close(&region->mapping->object);
		vg_mapping_destroy(region->mapping);
		vg_physical_memory_destroy(region->memory);
	}
	return status;
}

static enum vg_status allocate_plain(struct vram_region *region, size_t bytes)
{
	enum vg_status status = core_resource_allocate(region->vram->plain, bytes, NULL, &region->plain);

	if (status)
		return status;
	region->address = region->base = region->plain.address;
	region->mapped = region->plain.size;
	return VG_OK;
}

// Maps `region->memory` at new addresses, followed by `guard` bytes of reserved addresses.
static enum vg_status map_memory(struct vram_region *region, const struct core_memory_plan *plan, size_t guard)
{
	struct vg_address_range *range;

	enum vg_status status = core_address_range_create(region->mapped + guard, plan->alignment, 0, &range);
	if (status)
		return status;
	status = core_mapping_create(range, 0, region->memory, &region->mapping);
	vg_address_range_destroy(range);
	if (status)
		return status;
	return core_mapping_set_access(region->mapping, plan->access, plan->access_count);
}

// Allocates a region. If `guard` is not 0, that many bytes of addresses after the region stay unmapped, and the region
// ends directly before them.
static enum vg_status allocate_mapped(struct vram_region *region, const struct core_memory_plan *plan, size_t bytes,
				      size_t guard)
{
	enum vg_status status = core_memory_plan_round(plan, bytes, &region->mapped);

	if (status)
		return status;
	if (region->mapped > SIZE_MAX - guard)
		return vg_fail(VG_INVALID, 0, "%zu bytes: with a guard behind them they are too many", bytes);
	status = core_physical_memory_create(plan, region->mapped, &region->memory);
	if (status)
		return status;
	status = map_memory(region, plan, guard);
	if (status) {
		vg_mapping_destroy(region->mapping);
		vg_physical_memory_destroy(region->memory);
		return status;
	}
	region->base = region->mapping->address;
	region->address = guard ? region->base + region->mapped - bytes : region->base;
	return VG_OK;
}

// Sets INSUFFICIENT with the needed and the free bytes: the caller may try again later. Writes exact bytes if both
// sizes would be rounded to the same text.
static enum vg_status fail_insufficient(const struct vram_region *region, size_t bytes)
{
	const size_t need = region->mapped ? region->mapped : bytes;
	char needed[VG_SIZE_TEXT + 8], available[VG_SIZE_TEXT + 8];
	size_t have, total;
	CORE_SCOPE scope = {false};

	if (core_enter(&scope, region->vram->context->handle) || core_driver->cuMemGetInfo_v2(&have, &total))
		have = 0;
	if (strcmp(vg_size_format(need, needed), vg_size_format(have, available)) == 0) {
		snprintf(needed, sizeof needed, "%zu B", need);
		snprintf(available, sizeof available, "%zu B", have);
	}
	vg_fail(VG_INSUFFICIENT, CUDA_ERROR_OUT_OF_MEMORY,
		"device %d: a region of %zu bytes takes %s, and %s are free; free some, or try again later",
		region->vram->context->device->ordinal, bytes, needed, available);
	vg_fail_amounts(need, have);
	return VG_INSUFFICIENT;
}

// ---- handles ----------------------------------------------------------------------------------------

// Releases the table's entry and everything else of a region whose memory was freed already.
static void forget_region(struct vram_region *region)
{
	struct vg_vram *vram = region->vram;

	atomic_fetch_sub(&vram->used, region->mapped);
	atomic_fetch_sub(&vram->regions, 1);
	vram_forget_loans(region);
	vram_table_retire(region);
	core_object_release(&vram->object);
}

// Records the deallocation in the audit log. `freed`: result of freeing the memory.
static enum vg_status record_end(struct vram_region *region, enum vg_status freed)
{
	struct vg_kept_error kept;

	if (freed) {
		vram_record_failure(region, VRAM_EVENT_DEALLOCATED, NULL);
		return freed;
	}
	enum vg_status status = vram_record(region, VRAM_EVENT_DEALLOCATED, NULL);
	if (status == VG_OK)
		return VG_OK;
	vg_error_keep(&kept);
	return vg_fail(status, kept.error.code, "the region was freed, and that is not recorded: %s", kept.text);
}

enum vg_status vram_publish(struct vg_vram *vram, const struct vram_region *description,
			    struct vg_vram_handle *ret_handle)
{
	struct vram_region *region;

	int r = vram_table_allocate(&region);
	if (r == -ENOSPC)
		return vg_fail(VG_LIMIT, 0, "there are 4194304 regions: free some");
	if (r)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a region");
	vram_table_describe(region, description);
	region->vram = vram;
	region->shared = description->import.unmap != NULL;
	enum vg_status status = vram_record(region, VRAM_EVENT_ALLOCATED, NULL);
	if (status) {
		vram_table_retire(region);
		return status;
	}
	pthread_mutex_lock(&vram->lock);
	bool closed = atomic_load(&vram->object.closed);
	if (!closed) {
		core_object_retain(&vram->object);
		atomic_fetch_add(&vram->used, region->mapped);
		atomic_fetch_add(&vram->regions, 1);
		*ret_handle = vram_table_publish(region);
	}
	pthread_mutex_unlock(&vram->lock);
	if (!closed)
		return VG_OK;
	vram_record_failure(region, VRAM_EVENT_DEALLOCATED, NULL);
	vram_table_retire(region);
	return core_object_refuse(&vram->object, "vram");
}

enum vg_status vram_dispose(struct vram_region *region, enum vram_disposal how)
{
	struct vg_kept_error kept;

	enum vg_status status = region->import.unmap ? VG_OK : zero_region(region);
	if (status && how == VRAM_DISPOSE_ZEROED) {
		vram_table_reopen(region);
		return status;
	}
	if (status)
		vg_error_keep(&kept);
	enum vg_status freed = free_memory(region);
	if (status)
		vg_error_restore(&kept);
	status = record_end(region, status ? status : freed);
	forget_region(region);
	return status;
}

static enum vg_status allocate_region(struct vg_vram *vram, size_t bytes,
				      const struct vg_vram_allocate_options *options, struct vg_vram_handle *ret_handle)
{
	struct vram_region region = {.vram = vram, .size = bytes};
	struct vg_kept_error kept;

	enum vg_status status = vram_check_process();
	if (status)
		return status;
	status = options->guard	      ? allocate_mapped(&region, vram->guarded, bytes, vram->guarded->granularity)
		 : options->shareable ? allocate_mapped(&region, vram->shareable, bytes, 0)
				      : allocate_plain(&region, bytes);
	if (status == VG_DRIVER && vg_last_error()->code == CUDA_ERROR_OUT_OF_MEMORY)
		return fail_insufficient(&region, bytes);
	if (status)
		return status;
	status = zero_region(&region);
	if (status == VG_OK)
		status = vram_publish(vram, &region, ret_handle);
	if (status == VG_OK)
		return VG_OK;
	vg_error_keep(&kept);
	free_memory(&region);
	vg_error_restore(&kept);
	return status;
}

enum vg_status vg_vram_allocate(struct vg_vram *vram, size_t bytes, const struct vg_vram_allocate_options *options,
				struct vg_vram_handle *ret_handle)
{
	VG_ENTRY();
	struct vg_vram_allocate_options o;

	CORE_USABLE(vram, "vram");
	CORE_NEEDED(ret_handle);
	CORE_OPTIONS(o, options);
	if (bytes == 0)
		return vg_fail(VG_INVALID, 0, "bytes is 0: a region has at least one");
	if (o.guard && o.shareable)
		return vg_fail(
			VG_INVALID, 0,
			"guard and shareable: an importing process maps the memory without the guard; choose one of "
			"them");
	enum vg_status status = allocate_region(vram, bytes, &o, ret_handle);
	if (status)
		vram_audit_append_failure(vram->audit, &(struct vram_event){.kind = VRAM_EVENT_ALLOCATION_FAILED,
									    .bytes = bytes,
									    .device = vram->device_name});
	return status;
}

enum vg_status vg_vram_free(struct vg_vram_handle handle)
{
	VG_ENTRY();
	struct vram_region *region;

	enum vg_status status = vram_close_handle(handle, VRAM_CLOSE_UNLENT, &region);
	return status ? status : vram_dispose(region, VRAM_DISPOSE_ZEROED);
}

enum vg_status vg_vram_size(struct vg_vram_handle handle, size_t *ret_bytes)
{
	VG_ENTRY();
	struct vram_region *region;

	CORE_NEEDED(ret_bytes);
	enum vg_status status = vram_look(handle, &region);
	if (status)
		return status;
	*ret_bytes = region->size;
	vram_unpin(region, VRAM_READ);
	return VG_OK;
}

enum vg_status vg_vram_handle_device(struct vg_vram_handle handle, struct vg_device **ret_device)
{
	VG_ENTRY();
	struct vram_region *region;

	CORE_NEEDED(ret_device);
	enum vg_status status = vram_look(handle, &region);
	if (status)
		return status;
	*ret_device = region->vram->context->device;
	vram_unpin(region, VRAM_READ);
	return VG_OK;
}
