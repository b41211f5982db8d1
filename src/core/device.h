// Declares the device object: one for each device of the driver, for the lifetime of the process. Any thread.
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#include "core/core.h"
#include "virgate/device.h"

struct vg_memory_resource;

enum { CORE_PROPERTIES = 148 }; // the number of every property is less than this
#define CORE_PROPERTY_KNOWN (1ull << 32)

struct vg_device {
	int ordinal;
	CUdevice handle;
	CUuuid uuid;
	char uuid_text[37]; // 8-4-4-4-12, without "GPU-"
	char name[256];
	char pci_bus_id[16], arch[8];
	int compute_major, compute_minor;
	// Cached property values, by property number, with the flag CORE_PROPERTY_KNOWN. 0: the driver was not asked
	// yet.
	_Atomic uint64_t properties[CORE_PROPERTIES];
	struct vg_memory_resource
		*memory_resource; // owns a reference; NULL: not chosen yet; the lock in default_resource.c protects it
};

// Fills the table of devices. Called by core_open() under its lock.
enum vg_status core_devices_open(void);
// Returns the device of a driver handle, or NULL.
struct vg_device *core_device_find(CUdevice handle);
