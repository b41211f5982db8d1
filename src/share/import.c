// Imports a range of an offer as a region.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "share/kind.h"
#include "share/offer.h"
#include "share/step.h"
#include "vram/trust.h"
#include "vram/vram.h"

// The objects that must be freed together with an imported region. The address range needs no member, because the
// mapping keeps a reference to it.
struct import {
	struct vg_physical_memory *memory;
	struct vg_mapping *mapping;
};

static enum vg_status unmap_import(void *user)
{
	struct import *import = user;
	enum vg_status status = core_object_close(&import->mapping->object);

	vg_mapping_destroy(import->mapping);
	vg_physical_memory_destroy(import->memory);
	free(import);
	return status;
}

static enum vg_status check_request(const struct vg_vram *vram, const struct share_range *range, size_t index,
				    const struct vg_share_import_options *options)
{
	char there[SHARE_UUID_TEXT], here[SHARE_UUID_TEXT];
	const uint8_t *own = (const uint8_t *)vg_vram_device(vram)->uuid.bytes;
	const size_t granularity = vram->shareable->granularity;

	if (memcmp(range->uuid, own, sizeof range->uuid) != 0)
		return vg_fail(
			VG_INVALID, 0,
			"range %zu lies on %s, and this context is of %s: import it in a context of its own device",
			index, share_uuid_text(range->uuid, there), share_uuid_text(own, here));
	if (range->mapped % granularity)
		return vg_fail(
			VG_PROTOCOL, 0,
			"range %zu: %llu bytes are mapped, which is no multiple of this device's granularity %zu",
			index, (unsigned long long)range->mapped, granularity);
	if (range->seal && share_seal_check(range, VG_PROTOCOL, NULL))
		return VG_PROTOCOL;
	if (options->verify && !range->seal)
		return vg_fail(VG_INVALID, 0, "range %zu has no seal: there is nothing to verify it against", index);
	if (options->verify && vram_check_secret(vram))
		return VG_STATE;
	if (options->generation && options->generation != range->generation)
		return vg_fail(VG_INVALID, 0, "range %zu has generation %llu of its contents, not %llu", index,
			       (unsigned long long)range->generation, (unsigned long long)options->generation);
	if (options->writable && !range->writable)
		return vg_fail(VG_POLICY, 0, "range %zu is offered for reading: it cannot be mapped for writing",
			       index);
	if (options->address && options->same_address)
		return vg_fail(VG_INVALID, 0, "address and same_address: take one of them");
	if (options->address % granularity)
		return vg_fail(VG_INVALID, 0, "address 0x%llx is not a multiple of the granularity %zu",
			       (unsigned long long)options->address, granularity);
	return VG_OK;
}

// Returns whether an import failed because the peer's description of the memory is wrong.
static bool is_false_claim(enum vg_status status)
{
	static const CUresult blamed[] = {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_DEVICE,
					  CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_NOT_SUPPORTED};

	for (size_t i = 0; i < sizeof blamed / sizeof *blamed; i++)
		if (status == VG_DRIVER && vg_last_error()->code == (int)blamed[i])
			return true;
	return false;
}

// Returns whether the import failed because the descriptor is not one for exported memory. The driver may report that
// as CUDA_ERROR_UNKNOWN.
static bool is_no_export(enum vg_status status)
{
	return is_false_claim(status) || (status == VG_DRIVER && vg_last_error()->code == CUDA_ERROR_UNKNOWN);
}

static enum vg_status fail_insufficient(const struct share_range *range, size_t index)
{
	size_t have, total;

	if (core_driver->cuMemGetInfo_v2(&have, &total))
		have = 0;
	vg_fail(VG_INSUFFICIENT, CUDA_ERROR_OUT_OF_MEMORY,
		"range %zu counts as %llu bytes here, and %zu are free: free some, or raise the vGPU's limit", index,
		(unsigned long long)range->mapped, have);
	vg_fail_amounts(range->mapped, have);
	return VG_INSUFFICIENT;
}

static enum vg_status import_memory(struct import *import, struct vg_vram *vram, const struct share_range *range,
				    size_t index)
{
	struct vg_device *device = vg_vram_device(vram);
	CUmemAllocationProp properties = {0};
	char what[300];

	if (!share_descriptor_is_memory(range->descriptor, what, sizeof what))
		return vg_fail(VG_PROTOCOL, 0, "the descriptor of range %zu is %s, not one of device memory", index,
			       what);
	enum vg_status status = vg_physical_memory_import(device, range->descriptor, range->mapped, &import->memory);
	if (is_no_export(status))
		return vg_fail(VG_PROTOCOL, vg_last_error()->code,
			       "the descriptor of range %zu is not one of memory that was exported on this device",
			       index);
	if (status)
		return status;
	CUresult r = core_driver->cuMemGetAllocationPropertiesFromHandle(&properties, import->memory->handle);
	if (r)
		return core_driver_failed(r, "cuMemGetAllocationPropertiesFromHandle", "range %zu", index);
	if (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties.location.id != device->ordinal)
		return vg_fail(VG_PROTOCOL, 0,
			       "the memory of range %zu does not lie on device %d, where the sender says it does",
			       index, device->ordinal);
	return VG_OK;
}

static enum vg_status map_memory(struct import *import, struct vg_vram *vram, const struct share_range *range,
				 size_t index, const struct vg_share_import_options *options)
{
	struct vg_device *device = vg_vram_device(vram);
	vg_address asked = options->same_address ? range->address : options->address;
	struct vg_address_range *addresses;

	enum vg_status status = core_address_range_create(range->mapped, vram->shareable->alignment, asked, &addresses);
	if (status)
		return status;
	SHARE_STEP("addresses reserved");
	if (asked && vg_address_range_address(addresses) != asked)
		status = vg_fail(VG_EXISTS, 0,
				 "range %zu cannot be mapped at 0x%llx: something else is there, or the "
				 "driver gives no address that it is asked for",
				 index, (unsigned long long)asked);
	if (status == VG_OK)
		status = core_mapping_create(addresses, 0, import->memory, &import->mapping);
	vg_address_range_destroy(addresses);
	if (is_false_claim(status))
		return vg_fail(
			VG_PROTOCOL, vg_last_error()->code,
			"the memory behind the descriptor of range %zu has another size than the %llu bytes that "
			"the sender says",
			index, (unsigned long long)range->mapped);
	SHARE_STEP("mapped");
	return status ? status
		      : vg_mapping_set_access(import->mapping, &device, 1,
					      options->writable ? VG_ACCESS_READ_WRITE : VG_ACCESS_READ);
}

static enum vg_status import_range(struct vg_vram *vram, const struct share_range *range, size_t index,
				   const struct vg_share_import_options *options, struct vg_vram_handle *ret_handle)
{
	struct vg_kept_error kept;

	struct import *import = calloc(1, sizeof *import);
	if (!import)
		return vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for an import");
	enum vg_status status = import_memory(import, vram, range, index);
	SHARE_STEP("memory imported");
	if (status == VG_OK)
		status = map_memory(import, vram, range, index, options);
	if (status == VG_DRIVER && vg_last_error()->code == CUDA_ERROR_OUT_OF_MEMORY)
		status = fail_insufficient(range, index);
	if (status == VG_OK) {
		vg_address address = vg_mapping_address(import->mapping);
		const struct vram_region region = {.address = address,
						   .size = range->bytes,
						   .base = address,
						   .mapped = range->mapped,
						   .import = {unmap_import, import, !options->writable}};
		status = vram_publish(vram, &region, ret_handle);
	}
	if (status) {
		vg_error_keep(&kept);
		vg_mapping_destroy(import->mapping);
		vg_physical_memory_destroy(import->memory);
		free(import);
		vg_error_restore(&kept);
	}
	return status;
}

// Gives the region the seal that the exporter made, and verifies that the region's contents match it. Frees the region
// on failure.
static enum vg_status verify_region(struct vg_vram_handle handle, const struct share_range *range)
{
	struct vg_kept_error kept;
	struct vg_seal seal;

	enum vg_status status = share_seal_check(range, VG_PROTOCOL, &seal);
	if (status == VG_OK)
		status = vram_adopt_seal(handle, &seal);
	if (status == VG_OK)
		status = vg_vram_verify(handle, &seal);
	if (status == VG_OK)
		return VG_OK;
	vg_error_keep(&kept);
	(void)vg_vram_free(handle);
	vg_error_restore(&kept);
	return status;
}

enum vg_status vg_share_import(struct vg_vram *vram, const struct vg_share_offer *offer, size_t index,
			       const struct vg_share_import_options *options, struct vg_vram_handle *ret_handle)
{
	VG_ENTRY();
	struct vg_share_import_options o;

	CORE_USABLE(vram, "vram");
	CORE_NEEDED(offer);
	CORE_NEEDED(ret_handle);
	CORE_OPTIONS(o, options);
	if (index >= offer->count)
		return vg_fail(VG_INVALID, 0, "range %zu: the offer has %zu, from 0 up", index, offer->count);
	enum vg_status status = vram_check_process();
	if (status == VG_OK)
		status = check_request(vram, &offer->ranges[index], index, &o);
	if (status)
		return status;
	struct vg_vram_handle handle;
	CORE_ENTER(scope, vram->context->handle);
	status = import_range(vram, &offer->ranges[index], index, &o, &handle);
	if (status == VG_OK && o.verify)
		status = verify_region(handle, &offer->ranges[index]);
	if (status == VG_OK)
		*ret_handle = handle;
	return status;
}
