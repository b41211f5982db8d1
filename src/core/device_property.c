// Reads the properties of a device, and caches their values in the device object. VG_DEVICE_PROPERTY_LIST in the public
// header lists the properties.
#include "base/status.h"
#include "core/device.h"
#include "core/error.h"
#include "core/object.h"

#include <strings.h>

enum kind { NUMBER = 1, FLAG = 2, LIVE = 4, LIVE_NUMBER = LIVE | NUMBER, LIVE_FLAG = LIVE | FLAG };

static const struct {
	const char *name;
	enum kind kind;
	int fallback;
} properties[CORE_PROPERTIES] = {
#define X(NAME, name, number, kind, fallback) [number] = {#name, kind, fallback},
	VG_DEVICE_PROPERTY_LIST(X)
#undef X
};

#define X(NAME, name, number, kind, fallback) _Static_assert(number == (int)CU_DEVICE_ATTRIBUTE_##NAME, #name);
VG_DEVICE_PROPERTY_LIST(X)
#undef X

static bool is_property(enum vg_device_property property)
{
	return (int)property > 0 && (int)property < CORE_PROPERTIES && properties[property].name;
}

const char *vg_device_property_name(enum vg_device_property property)
{
	return is_property(property) ? properties[property].name : NULL;
}

int vg_device_property_is_flag(enum vg_device_property property)
{
	return is_property(property) && (properties[property].kind & FLAG);
}

enum vg_device_property vg_device_property_find(const char *name)
{
	for (int i = 0; name && i < CORE_PROPERTIES; i++)
		if (properties[i].name && strcasecmp(properties[i].name, name) == 0)
			return (enum vg_device_property)i;
	return 0;
}

static enum vg_status query_property(struct vg_device *device, enum vg_device_property property, int *ret_value)
{
	int value;

	CUresult r = core_driver->cuDeviceGetAttribute(&value, (CUdevice_attribute)property, device->handle);
	if (r && r != CUDA_ERROR_INVALID_VALUE)
		return core_driver_failed(r, "cuDeviceGetAttribute", "%s of device %d", properties[property].name,
					  device->ordinal);
	if (core_asked(r)) // an older driver does not know the property
		value = properties[property].fallback;
	if (!(properties[property].kind & LIVE))
		atomic_store_explicit(&device->properties[property], CORE_PROPERTY_KNOWN | (uint32_t)value,
				      memory_order_relaxed);
	*ret_value = value;
	return VG_OK;
}

enum vg_status vg_device_property(struct vg_device *device, enum vg_device_property property, int *ret_value)
{
	VG_ENTRY();
	CORE_NEEDED(device);
	CORE_NEEDED(ret_value);
	if (!is_property(property))
		return vg_fail(VG_INVALID, 0, "%d is no device property: take one of VG_DEVICE_PROPERTY_LIST",
			       property);
	uint64_t known = atomic_load_explicit(&device->properties[property], memory_order_relaxed);
	if (!known)
		return query_property(device, property, ret_value);
	*ret_value = (int)(uint32_t)known;
	return VG_OK;
}

enum vg_status vg_device_property_by_name(struct vg_device *device, const char *name, int *ret_value)
{
	VG_ENTRY();
	CORE_NEEDED(name);
	enum vg_device_property property = vg_device_property_find(name);
	if (!property)
		return vg_fail(VG_INVALID, 0, "\"%s\" is no device property: take a name of VG_DEVICE_PROPERTY_LIST",
			       name);
	return vg_device_property(device, property, ret_value);
}
