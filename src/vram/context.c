#include "vram/trust.h"

#include "base/log.h"
#include "base/size.h"
#include "core/error.h"
#include "virgate/memory_resource.h"

#include <sched.h>
#include <stdlib.h>

static void free_vram(struct core_object *object)
{
	struct vg_vram *vram = (struct vg_vram *)object;

	vram_trust_close(vram);
	free(vram->guarded);
	free(vram->shareable);
	vram_scratch_list_finish(&vram->staging);
	vg_memory_resource_destroy(vram->plain);
	vg_context_destroy(vram->context);
	pthread_mutex_destroy(&vram->lock);
	free(vram);
}

static const struct core_class vram_class = {"VRAM context", NULL, free_vram};

static enum vg_status open_resources(struct vg_vram *vram, struct vg_device *device)
{
	struct vg_virtual_memory_options options = {.size = sizeof options, .handle_type = VG_HANDLE_NONE};

	enum vg_status status = vg_context_primary(device, &vram->context);
	if (status)
		return status;
	status = vg_synchronous_resource_create(vram->context, &vram->plain);
	if (status)
		return status;
	status = vg_legacy_pinned_resource_create(vram->context, &vram->staging.resource);
	if (status)
		return status;
	status = core_memory_plan(device, &options, &vram->guarded);
	if (status)
		return status;
	options.handle_type = VG_HANDLE_POSIX_FD;
	return core_memory_plan(device, &options, &vram->shareable);
}

enum vg_status vg_vram_open(const struct vg_vram_options *options, struct vg_vram **ret_vram)
{
	VG_ENTRY();
	struct vg_vram_options o;

	CORE_NEEDED(ret_vram);
	CORE_OPTIONS(o, options);
	enum vg_status status = vram_check_process();
	if (status == VG_OK && !o.device)
		status = vg_device_get(0, &o.device);
	if (status)
		return status;
	struct vg_vram *vram = calloc(1, sizeof *vram);
	if (!vram)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a VRAM context");
	core_object_init(&vram->object, &vram_class);
	pthread_mutex_init(&vram->lock, NULL);
	status = open_resources(vram, o.device);
	if (status == VG_OK)
		status = vram_trust_open(vram, &o);
	if (status)
		core_object_release(&vram->object);
	else
		*ret_vram = vram;
	return status;
}

struct vg_device *vg_vram_device(const struct vg_vram *vram)
{
	return vram ? vram->context->device : NULL;
}

enum vg_status vg_vram_capacity(struct vg_vram *vram, struct vg_vram_capacity *ret_capacity)
{
	VG_ENTRY();
	size_t unused, total;

	CORE_USABLE(vram, "vram");
	CORE_NEEDED(ret_capacity);
	enum vg_status status = vram_check_process();
	if (status)
		return status;
	CORE_ENTER(scope, vram->context->handle);
	CORE_CALL(cuMemGetInfo_v2, &unused, &total);
	*ret_capacity = (struct vg_vram_capacity){total, unused, atomic_load(&vram->used), atomic_load(&vram->regions)};
	return VG_OK;
}

// ---- closing ----------------------------------------------------------------------------------------

// Frees the region of the handle if it belongs to this context and still exists. Sets the last error if the driver
// fails.
static enum vg_status free_one(struct vg_vram *vram, struct vg_vram_handle handle, struct vg_vram_report *report)
{
	struct vram_region *region;
	enum vg_status status;

	while ((status = vram_look(handle, &region)) == VG_BUSY)
		sched_yield();
	if (status)
		return VG_OK; // another thread has freed the region
	bool is_own = region->vram == vram;
	size_t bytes = region->size;
	vram_unpin(region, VRAM_READ);
	if (!is_own || vram_close_handle(handle, VRAM_CLOSE_ALWAYS, &region))
		return VG_OK;
	report->regions++;
	report->bytes += bytes;
	report->loans += vram_table_count_loans(region);
	status = vram_dispose(region, VRAM_DISPOSE_ALWAYS);
	if (status == VG_OK)
		return VG_OK;
	report->failures++;
	vg_log(VG_LOG_ERROR, "closing a VRAM context: a region of %zu bytes: %s", bytes, vg_last_error()->text);
	return status;
}

static enum vg_status free_all(struct vg_vram *vram, struct vg_vram_report *report)
{
	struct vg_vram_handle handle;
	struct vg_kept_error kept;
	enum vg_status result = VG_OK;
	uint32_t cursor = 0;

	pthread_mutex_lock(&vram->lock);
	atomic_store(&vram->object.closed, true);
	pthread_mutex_unlock(
		&vram->lock); // vram_publish() reads `closed` under the lock, so no region is added after this
	while (vram_table_next(&cursor, &handle)) {
		enum vg_status status = free_one(vram, handle, report);
		if (status && !result) {
			result = status;
			vg_error_keep(&kept);
		}
	}
	if (result)
		vg_error_restore(&kept);
	return result;
}

enum vg_status vg_vram_close(struct vg_vram *vram, struct vg_vram_report *ret_report)
{
	VG_ENTRY();
	struct vg_vram_report report = {0};

	CORE_NEEDED(vram);
	enum vg_status status = vram_check_process();
	if (status)
		return status;
	status = free_all(vram, &report);
	if (ret_report)
		*ret_report = report;
	return status ? status : vram_audit_sync(vram->audit);
}

void vg_vram_destroy(struct vg_vram *vram)
{
	struct vg_vram_report report = {0};
	char bytes[VG_SIZE_TEXT];

	if (!vram)
		return;
	struct vg_kept_error kept;
	vg_error_keep(&kept);
	if (!core_forked)
		free_all(vram, &report);
	if (report.regions)
		vg_log(VG_LOG_WARNING, "destroying a VRAM context: %zu regions with %s were still allocated",
		       report.regions, vg_size_format(report.bytes, bytes));
	vg_error_restore(&kept);
	core_object_release(&vram->object);
}
