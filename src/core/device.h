// A device, as this room sees it. Devices are as many as the driver has, and live as long as the process.
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#include "core/core.h"
#include "virgate/device.h"

struct vg_memory_resource;

enum { CORE_PROPERTIES = 148 }; // numbers below it
#define CORE_PROPERTY_KNOWN (1ull << 32)

struct vg_device {
	int ordinal;
	CUdevice handle;
	CUuuid uuid;
	char uuid_text[37]; // 8-4-4-4-12, without "GPU-"
	char name[256];
	char pci_bus_id[16], arch[8];
	int compute_major, compute_minor;
	// By number: what was asked once, with CORE_PROPERTY_KNOWN.
	_Atomic uint64_t properties[CORE_PROPERTIES];
	struct vg_memory_resource *memory_resource; // held, under a lock of default_resource.c; NULL: not chosen yet
};

// Fills the table; called by core_open() under its lock.
enum vg_status core_devices_open(void);
// The device of a driver handle; NULL if there is none.
struct vg_device *core_device_of(CUdevice handle);
