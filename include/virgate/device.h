/* The GPUs that this process may use.
 *
 * A device object lives as long as the process, and is never created or destroyed by the program. */
#ifndef VIRGATE_DEVICE_H
#define VIRGATE_DEVICE_H

#include <stddef.h>

#include <virgate/device_property.h>
#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_device;

/* Returns the number of devices that CUDA_VISIBLE_DEVICES permits. The first call loads the driver. NO_DRIVER,
 * NOT_FOUND (no device), DRIVER. Any thread. Source: cuInit, cuDeviceGetCount. */
VG_PUBLIC enum vg_status vg_device_count(int *ret_count);
/* Returns the device of an ordinal, counted from 0; always the same object. INVALID for other ordinals, and as
 * vg_device_count(). Any thread. Source: cuDeviceGet. */
VG_PUBLIC enum vg_status vg_device_get(int ordinal, struct vg_device **ret_device);

/* Returns the device of the calling thread's current context; device 0 if it has none. Otherwise like
 * vg_device_get(). Any thread. Source: cuCtxGetDevice. */
VG_PUBLIC enum vg_status vg_device_current(struct vg_device **ret_device);

/* Returns the device's ordinal; -1 for NULL. */
VG_PUBLIC int vg_device_ordinal(const struct vg_device *device);
/* These functions return the name and the UUID, valid as long as the process. The UUID is 8-4-4-4-12 lower-case
 * hexadecimal digits, without "GPU-". */
VG_PUBLIC const char *vg_device_name(const struct vg_device *device);
VG_PUBLIC const char *vg_device_uuid(const struct vg_device *device);
/* Returns the PCI bus id as the kernel names it, such as "0000:3b:00.0". Valid as long as the process. Source:
 * cuDeviceGetPCIBusId. */
VG_PUBLIC const char *vg_device_pci_bus_id(const struct vg_device *device);
/* Returns the compute capability, such as 9 and 0 for 9.0; both 0 for NULL. Outputs may be NULL. */
VG_PUBLIC void vg_device_compute_capability(const struct vg_device *device, int *ret_major, int *ret_minor);
/* Returns the number after "sm_" and "compute_", such as "90". Valid as long as the process. */
VG_PUBLIC const char *vg_device_arch(const struct vg_device *device);

/* Reads a property, VG_DEVICE_… of device_property.h. Values that do not change are read once. INVALID (no such
 * property), DRIVER. Any thread. Source: cuDeviceGetAttribute. */
VG_PUBLIC enum vg_status vg_device_property(struct vg_device *device, enum vg_device_property property, int *ret_value);
/* Reads a property by its name, such as "warp_size". */
VG_PUBLIC enum vg_status vg_device_property_by_name(struct vg_device *device, const char *name, int *ret_value);

/* Tells whether kernels on `device` can access memory of `peer`: 1 or 0; 1 for the device itself. INVALID, DRIVER.
 * Any thread. Source: cuDeviceCanAccessPeer. */
VG_PUBLIC enum vg_status vg_device_can_access_peer(struct vg_device *device, struct vg_device *peer, int *ret_can);
/* Returns the free and the total bytes; inside a vGPU those of its limit. Outputs may be NULL. Creates the primary
 * context for this call if the process has none. INVALID, DRIVER. Any thread. Source: cuMemGetInfo. */
VG_PUBLIC enum vg_status vg_device_memory_info(struct vg_device *device, size_t *ret_free, size_t *ret_total);
/* Waits for all work that this process queued in the device's primary context and in green contexts.
 * INVALID, DRIVER (also for the error of an earlier kernel). Any thread. Source: cuCtxSynchronize. */
VG_PUBLIC enum vg_status vg_device_sync(struct vg_device *device);

#ifdef __cplusplus
}
#endif
#endif
