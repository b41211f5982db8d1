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

static CUresult describe(struct vg_device *device, int ordinal)
{
	device->ordinal = ordinal;
	CUresult r = core_driver->cuDeviceGet(&device->handle, ordinal);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuDeviceGetUuid_v2(&device->uuid, device->handle);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuDeviceGetName(device->name, sizeof device->name, device->handle);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuDeviceGetAttribute(&device->compute_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
						      device->handle);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuDeviceGetAttribute(&device->compute_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
						      device->handle);
	format_uuid(&device->uuid, device->uuid_text);
	return r;
}

enum vg_status core_devices_open(const char *function)
{
	int count;

	CUresult r = core_driver->cuDeviceGetCount(&count);
	if (r)
		return core_driver_failed(r, function, "cuDeviceGetCount", "%s", "");
	struct vg_device *table = calloc(count ? (size_t)count : 1, sizeof *table);
	if (!table)
		return vg_fail(VG_NO_MEMORY, 0, function, "no memory for a table of %d devices", count);
	for (int i = 0; i < count && r == CUDA_SUCCESS; i++)
		r = describe(&table[i], i);
	if (r) {
		free(table);
		return core_driver_failed(r, function, "cuDeviceGetUuid", "%s", "");
	}
	devices = table;
	device_count = count;
	return VG_OK;
}

struct vg_device *core_device_of(CUdevice handle)
{
	for (int i = 0; i < device_count; i++)
		if (devices[i].handle == handle)
			return &devices[i];
	return NULL;
}

enum vg_status vg_device_count(int *ret_count)
{
	CORE_NEEDED(ret_count);
	enum vg_status status = core_open(__func__);
	if (status == VG_OK)
		*ret_count = device_count;
	return status;
}

enum vg_status vg_device_get(int ordinal, struct vg_device **ret_device)
{
	CORE_NEEDED(ret_device);
	enum vg_status status = core_open(__func__);
	if (status)
		return status;
	if (ordinal < 0 || ordinal >= device_count)
		return vg_fail(VG_INVALID, 0, __func__, "device %d: there are %d, counted from 0", ordinal, device_count);
	*ret_device = &devices[ordinal];
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
