/* The GPUs that this process may use.
 *
 * A device is found, never created: it lives as long as the process, and needs no release. */
#ifndef VIRGATE_DEVICE_H
#define VIRGATE_DEVICE_H

#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_device;

/* How many there are, CUDA_VISIBLE_DEVICES respected. The first call loads the driver. NO_DRIVER,
 * NOT_FOUND (no device), DRIVER. Any thread. Source: cuInit, cuDeviceGetCount. */
VG_PUBLIC enum vg_status vg_device_count(int *ret_count);
/* The device of an ordinal from 0 up; the same object each time. INVALID outside the range, and as
 * vg_device_count(). Any thread. Source: cuDeviceGet. */
VG_PUBLIC enum vg_status vg_device_get(int ordinal, struct vg_device **ret_device);

VG_PUBLIC int vg_device_ordinal(const struct vg_device *device);
/* Valid as long as the process. The UUID is 8-4-4-4-12 lower-case hexadecimal digits, without "GPU-". */
VG_PUBLIC const char *vg_device_name(const struct vg_device *device);
VG_PUBLIC const char *vg_device_uuid(const struct vg_device *device);

#ifdef __cplusplus
}
#endif
#endif
