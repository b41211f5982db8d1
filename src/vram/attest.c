// Makes attestations: asks the driver what a region's memory is.
#include "vram/seal.h"

#include "base/clock.h"
#include "core/core.h"
#include "core/error.h"
#include "core/scope.h"
#include "vram/trust.h"

#include <string.h>

static void compute_mac(const struct vg_attestation *attestation, const struct vram_keys *keys,
			uint8_t ret_mac[VRAM_MAC])
{
	struct vram_mac mac;

	vram_mac_begin(&mac, keys->attestation, "virgate attestation 1");
	vram_mac_bytes(&mac, attestation->device, strnlen(attestation->device, sizeof attestation->device));
	vram_mac_number(&mac, attestation->handle);
	vram_mac_number(&mac, attestation->bytes);
	vram_mac_number(&mac, attestation->mapped);
	vram_mac_number(&mac, attestation->generation);
	vram_mac_number(&mac, attestation->time_ns);
	vram_mac_end(&mac, ret_mac);
}

static enum vg_status fail_unmapped(CUresult result, const char *call)
{
	if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_FOUND)
		return core_explained(
			vg_fail(VG_INTEGRITY, (int)result,
				"the driver does not know the region's memory: it is not mapped any more"));
	return core_driver_failed(result, call, "%s", "what the region's memory is");
}

// Checks that the driver knows the address as memory of the region's device.
static enum vg_status check_byte(const struct vram_region *region, CUdeviceptr address)
{
	CUmemorytype type = 0;
	unsigned managed = 0, mapped = 0; // some drivers write only one byte of each value
	int ordinal = -1, own = region->vram->context->device->ordinal;
	CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
					    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_MAPPED};
	void *values[] = {&type, &managed, &ordinal, &mapped};

	CUresult r = core_driver->cuPointerGetAttributes(4, attributes, values, address);
	if (r)
		return fail_unmapped(r, "cuPointerGetAttributes");
	if (type == 0 || mapped == 0)
		return fail_unmapped(CUDA_ERROR_INVALID_VALUE, "");
	if (type != CU_MEMORYTYPE_DEVICE || managed)
		return vg_fail(VG_INTEGRITY, 0, "the region is %s memory, not the device's own",
			       managed ? "managed" : "host");
	if (ordinal != own)
		return vg_fail(VG_INTEGRITY, 0, "the region lies on device %d, not on device %d", ordinal, own);
	return VG_OK;
}

// Checks where memory mapped with cuMemMap is. The pointer attributes only tell which device can access that memory.
static enum vg_status check_piece(const struct vram_region *region, CUdeviceptr address)
{
	CUmemGenericAllocationHandle piece;
	CUmemAllocationProp properties = {0};
	int own = region->vram->context->device->ordinal;

	CUresult r = core_driver->cuMemRetainAllocationHandle(&piece, (void *)address);
	if (r == CUDA_ERROR_INVALID_VALUE || r == CUDA_ERROR_NOT_SUPPORTED)
		return core_explained(VG_OK); // this memory was allocated by cuMemAlloc
	if (r)
		return core_driver_failed(r, "cuMemRetainAllocationHandle", "%s", "");
	r = core_driver->cuMemGetAllocationPropertiesFromHandle(&properties, piece);
	core_driver->cuMemRelease(piece);
	if (r)
		return core_driver_failed(r, "cuMemGetAllocationPropertiesFromHandle", "%s", "");
	if (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties.location.id != own)
		return vg_fail(VG_INTEGRITY, 0, "the region's memory lies at location %d of type %d, not on device %d",
			       properties.location.id, (int)properties.location.type, own);
	return VG_OK;
}

static enum vg_status check_memory(const struct vram_region *region, uint64_t *ret_mapped)
{
	CUdeviceptr first = region->address, last = first + region->size - 1, base;
	size_t size;
	CORE_SCOPE scope = {false};

	CUresult r = core_enter(&scope, region->vram->context->handle);
	if (r)
		return core_driver_failed(r, "cuCtxPushCurrent", "%s", "");
	enum vg_status status = check_byte(region, first);
	if (status == VG_OK)
		status = check_byte(region, last);
	if (status == VG_OK)
		status = check_piece(region, first);
	if (status)
		return status;
	r = core_driver->cuMemGetAddressRange_v2(&base, &size, first);
	if (r)
		return fail_unmapped(r, "cuMemGetAddressRange");
	if (first < base || last - base >= size)
		return vg_fail(VG_INTEGRITY, 0, "of the region's %zu bytes the driver has %llu mapped in one piece",
			       region->size, (unsigned long long)(first < base ? 0 : size - (first - base)));
	*ret_mapped = size;
	return VG_OK;
}

static enum vg_status attest_region(struct vram_region *region, struct vg_vram_handle handle,
				    struct vg_attestation *ret_attestation)
{
	struct vg_attestation attestation = {.size = sizeof attestation, .handle = handle.value, .bytes = region->size};

	enum vg_status status = vram_check_secret(region->vram);
	if (status)
		return status;
	status = check_memory(region, &attestation.mapped);
	if (status) {
		vram_record_failure(region, VRAM_EVENT_VERIFICATION_FAILED, NULL);
		return status;
	}
	attestation.generation = atomic_load(&region->sealed);
	attestation.time_ns = vg_clock_realtime_ns();
	memcpy(attestation.device, region->vram->device_name, sizeof attestation.device);
	compute_mac(&attestation, region->vram->keys, attestation.mac);
	status = vram_record(region, VRAM_EVENT_ATTESTED, NULL);
	if (status == VG_OK)
		*ret_attestation = attestation;
	return status;
}

enum vg_status vg_vram_attest(struct vg_vram_handle handle, struct vg_attestation *ret_attestation)
{
	VG_ENTRY();
	struct vram_region *region;

	CORE_NEEDED(ret_attestation);
	enum vg_status status = vram_pin(handle, VRAM_READ, &region);
	if (status)
		return status;
	status = attest_region(region, handle, ret_attestation);
	vram_unpin(region, VRAM_READ);
	return status;
}

enum vg_status vg_attestation_check(struct vg_vram *vram, const struct vg_attestation *attestation)
{
	VG_ENTRY();
	uint8_t mac[VRAM_MAC];

	CORE_USABLE(vram, "vram");
	CORE_NEEDED(attestation);
	if (attestation->size != sizeof *attestation)
		return vg_fail(VG_INVALID, 0, "attestation->size is %zu: it must be sizeof(struct vg_attestation), %zu",
			       attestation->size, sizeof *attestation);
	enum vg_status status = vram_check_secret(vram);
	if (status)
		return status;
	compute_mac(attestation, vram->keys, mac);
	if (sodium_memcmp(mac, attestation->mac, sizeof mac) != 0)
		return vg_fail(VG_INTEGRITY, 0,
			       "the attestation is not genuine: it was changed, or made with another secret or for "
			       "another vGPU");
	if (strcmp(attestation->device, vram->device_name) != 0)
		return vg_fail(VG_INTEGRITY, 0, "the attestation is of %s, and this context of %s", attestation->device,
			       vram->device_name);
	return VG_OK;
}
