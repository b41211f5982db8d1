// A device, as this room sees it. Devices are as many as the driver has, and live as long as the process.
#pragma once
#include <pthread.h>
#include <stdint.h>

#include "core/core.h"
#include "virgate/device.h"

struct vg_device {
	int ordinal;
	CUdevice handle;
	CUuuid uuid;
	char uuid_text[37]; // 8-4-4-4-12, without "GPU-"
	char name[256];
	int compute_major, compute_minor;
};

// Fills the table; called by core_open() under its lock.
enum vg_status core_devices_open(const char *function);
// The device of a driver handle; NULL if there is none.
struct vg_device *core_device_of(CUdevice handle);
