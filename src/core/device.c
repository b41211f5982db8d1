#include "core/device.h"

#include "base/status.h"
#include "core/error.h"
#include "core/object.h"

#include <stdio.h>
#include <stdlib.h>

static struct vg_device *devices;
static int device_count;

static void format_uuid(const CUuuid *uuid, char ret_text[37])
{
	const unsigned char *b = (const unsigned char *)uuid->bytes;

	snprintf(ret_text, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2],
		 b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static CUresult describe_device(struct vg_device *device, int ordinal)
{
	device->ordinal = ordinal;
	CUresult r = core_driver->cuDeviceGet(&device->handle, ordinal);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuDeviceGetUuid_v2(&device->uuid, device->handle);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuDeviceGetName(device->name, sizeof device->name, device->handle);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuDeviceGetPCIBusId(device->pci_bus_id, sizeof device->pci_bus_id, device->handle);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuDeviceGetAttribute(&device->compute_major,
						      CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device->handle);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuDeviceGetAttribute(&device->compute_minor,
						      CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device->handle);
	format_uuid(&device->uuid, device->uuid_text);
	snprintf(device->arch, sizeof device->arch, "%d%d", device->compute_major, device->compute_minor);
	return r;
}

enum vg_status core_devices_open(void)
{
	int count;

	CUresult r = core_driver->cuDeviceGetCount(&count);
	if (r)
		return core_driver_failed(r, "cuDeviceGetCount", "%s", "");
	struct vg_device *table = calloc(count ? (size_t)count : 1, sizeof *table);
	if (!table)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a table of %d devices", count);
	for (int i = 0; i < count && r == CUDA_SUCCESS; i++)
		r = describe_device(&table[i], i);
	if (r) {
		free(table);
		return core_driver_failed(r, "cuDeviceGetUuid", "%s", "");
	}
	devices = table;
	device_count = count;
	return VG_OK;
}

struct vg_device *core_device_find(CUdevice handle)
{
	for (int i = 0; i < device_count; i++)
		if (devices[i].handle == handle)
			return &devices[i];
	return NULL;
}

enum vg_status vg_device_count(int *ret_count)
{
	VG_ENTRY();
	CORE_NEEDED(ret_count);
	CORE_TRY(core_open());
	*ret_count = device_count;
	return VG_OK;
}

enum vg_status vg_device_get(int ordinal, struct vg_device **ret_device)
{
	VG_ENTRY();
	CORE_NEEDED(ret_device);
	CORE_TRY(core_open());
	if (ordinal < 0 || ordinal >= device_count)
		return vg_fail(VG_INVALID, 0, "device %d: there are %d, counted from 0", ordinal, device_count);
	*ret_device = &devices[ordinal];
	return VG_OK;
}

enum vg_status vg_device_current(struct vg_device **ret_device)
{
	VG_ENTRY();
	CUcontext context;
	CUdevice handle;

	CORE_NEEDED(ret_device);
	CORE_TRY(core_open());
	CORE_CALL(cuCtxGetCurrent, &context);
	if (!context)
		return vg_device_get(0, ret_device);
	CORE_CALL(cuCtxGetDevice, &handle);
	*ret_device = core_device_find(handle);
	return VG_OK;
}

int vg_device_ordinal(const struct vg_device *device)
{
	return device ? device->ordinal : -1;
}

const char *vg_device_name(const struct vg_device *device)
{
	return device ? device->name : "";
}

const char *vg_device_uuid(const struct vg_device *device)
{
	return device ? device->uuid_text : "";
}

const char *vg_device_pci_bus_id(const struct vg_device *device)
{
	return device ? device->pci_bus_id : "";
}

void vg_device_compute_capability(const struct vg_device *device, int *ret_major, int *ret_minor)
{
	if (ret_major)
		*ret_major = device ? device->compute_major : 0;
	if (ret_minor)
		*ret_minor = device ? device->compute_minor : 0;
}

const char *vg_device_arch(const struct vg_device *device)
{
	return device ? device->arch : "";
}

enum vg_status vg_device_can_access_peer(struct vg_device *device, struct vg_device *peer, int *ret_can)
{
	VG_ENTRY();
	CORE_NEEDED(device);
	CORE_NEEDED(peer);
	CORE_NEEDED(ret_can);
	if (device == peer)
		*ret_can = 1;
	else
		CORE_CALL(cuDeviceCanAccessPeer, ret_can, device->handle, peer->handle);
	return VG_OK;
}

// Runs a driver call in the device's primary context, which is retained meanwhile.
static CUresult call_in_primary(struct vg_device *device, CUresult (*call)(void *), void *argument)
{
	CUcontext primary;

	CUresult r = core_driver->cuDevicePrimaryCtxRetain(&primary, device->handle);
	if (r)
		return r;
	{
		CORE_SCOPE scope;
		r = core_enter(&scope, primary);
		if (r == CUDA_SUCCESS)
			r = call(argument);
	}
	core_driver->cuDevicePrimaryCtxRelease_v2(device->handle);
	return r;
}

struct memory_info {
	size_t free, total;
};

static CUresult query_memory(void *info_)
{
	struct memory_info *info = info_;

	return core_driver->cuMemGetInfo_v2(&info->free, &info->total);
}

enum vg_status vg_device_memory_info(struct vg_device *device, size_t *ret_free, size_t *ret_total)
{
	VG_ENTRY();
	struct memory_info info;

	CORE_NEEDED(device);
	CUresult r = call_in_primary(device, query_memory, &info);
	if (r)
		return core_driver_failed(r, "cuMemGetInfo", "device %d", device->ordinal);
	if (ret_free)
		*ret_free = info.free;
	if (ret_total)
		*ret_total = info.total;
	return VG_OK;
}

static CUresult synchronize_context(void *nothing)
{
	(void)nothing;
	return core_driver->cuCtxSynchronize();
}

enum vg_status vg_device_sync(struct vg_device *device)
{
	VG_ENTRY();
	unsigned flags;
	int active;

	CORE_NEEDED(device);
	CORE_CALL(cuDevicePrimaryCtxGetState, device->handle, &flags, &active);
	CUresult r = active ? call_in_primary(device, synchronize_context, NULL)
			    : CUDA_SUCCESS; // if the primary context is not active, it has no queued work
	return r ? core_driver_failed(r, "cuCtxSynchronize", "device %d", device->ordinal) : VG_OK;
}
