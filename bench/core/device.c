#include "cases.h"

static struct vg_device *device;
static CUdevice handle;
static int value;

static void open_family(void)
{
	LIBRARY(vg_device_get(0, &device));
	RAW(cuDeviceGet(&handle, 0));
}

static void close_family(void)
{
}

SIDES(get, LIBRARY(vg_device_get(0, &device)), RAW(cuDeviceGet(&handle, 0)))
SIDES(cached, LIBRARY(vg_device_property(device, VG_DEVICE_WARP_SIZE, &value)),
      RAW(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, handle)))
SIDES(live, LIBRARY(vg_device_property(device, VG_DEVICE_COMPUTE_MODE, &value)),
      RAW(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, handle)))

static const struct bench_case cases[] = {
	{"device_get", 50, 500, get_library, get_raw, NULL},
	{"device_get_attribute", 50, 500, cached_library, cached_raw, NULL},
	{"device_get_attribute, a live one", 50, 500, live_library, live_raw, NULL},
};
const struct bench_family bench_device = {open_family, cases, sizeof cases / sizeof *cases, close_family};
