/* The machine's GPUs as NVML knows them: all of them, without a CUDA context. Errors as system.h says.
 *
 * A GPU is found, never created: the same one is the same object each time, which lives as long as the process, also
 * in a child after fork, and needs no release. Any thread. "Not known" is said, never 0. */
#ifndef VIRGATE_GPU_H
#define VIRGATE_GPU_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_gpu;
struct vg_device;

/* ---- finding ---- */

/* How many there are. Source: nvmlDeviceGetCount. */
VG_PUBLIC enum vg_status vg_gpu_count(unsigned *ret_count);
/* By NVML's index, which follows the PCI bus and is not CUDA's ordinal. INVALID: there are not so many. Source:
 * nvmlDeviceGetHandleByIndex. */
VG_PUBLIC enum vg_status vg_gpu_by_index(unsigned index, struct vg_gpu **ret_gpu);
/* "GPU-…", "MIG-…", or a GPU's without the prefix, as CUDA has it. INVALID (no UUID at all), NOT_FOUND. Source:
 * nvmlDeviceGetHandleByUUID. */
VG_PUBLIC enum vg_status vg_gpu_by_uuid(const char *uuid, struct vg_gpu **ret_gpu);
/* "00000000:3B:00.0" or shorter, "3b:00.0". INVALID, NOT_FOUND. Source: nvmlDeviceGetHandleByPciBusId. */
VG_PUBLIC enum vg_status vg_gpu_by_pci_bus_id(const char *bus_id, struct vg_gpu **ret_gpu);
/* All of them by index. *ret_count is how many there are; with `capacity` 0, `gpus` may be NULL, and only the count
 * is told. LIMIT: more than `capacity`; nothing is written then. All functions below that fill an array do so too. */
VG_PUBLIC enum vg_status vg_gpu_all(struct vg_gpu **gpus, size_t capacity, size_t *ret_count);

/* The GPU that a CUDA device is, and the CUDA device that a GPU is: the one of the same UUID. NOT_FOUND: this process
 * may not use it with CUDA (CUDA_VISIBLE_DEVICES), or NVML may not see it. The second one loads the CUDA driver. */
VG_PUBLIC enum vg_status vg_gpu_of_device(struct vg_device *device, struct vg_gpu **ret_gpu);
VG_PUBLIC enum vg_status vg_gpu_to_device(struct vg_gpu *gpu, struct vg_device **ret_device);

/* ---- identity ---- */

/* "GPU-…" or "MIG-…"; the same without the prefix; the name; "00000000:3B:00.0", "" for a MIG device. Valid as long as
 * the process. "" for NULL. Source: nvmlDeviceGetUUID, nvmlDeviceGetName, nvmlDeviceGetPciInfo. */
VG_PUBLIC const char *vg_gpu_uuid(const struct vg_gpu *gpu);
VG_PUBLIC const char *vg_gpu_uuid_without_prefix(const struct vg_gpu *gpu);
VG_PUBLIC const char *vg_gpu_name(const struct vg_gpu *gpu);
VG_PUBLIC const char *vg_gpu_pci_bus_id(const struct vg_gpu *gpu);

/* ---- memory, and who uses it ---- */

struct vg_gpu_memory {
	uint64_t total, free, used;
	uint64_t reserved; /* by the driver and the firmware, if reserved_known; `used` has it in otherwise */
	int reserved_known;
};
/* Bytes. Source: nvmlDeviceGetMemoryInfo. */
VG_PUBLIC enum vg_status vg_gpu_memory(struct vg_gpu *gpu, struct vg_gpu_memory *ret_memory);

struct vg_gpu_bar1 {
	uint64_t total, free, used;
};
/* Bytes of the window through which the processor and other devices see the GPU's memory. Source:
 * nvmlDeviceGetBAR1MemoryInfo. */
VG_PUBLIC enum vg_status vg_gpu_bar1(struct vg_gpu *gpu, struct vg_gpu_bar1 *ret_bar1);

struct vg_gpu_process {
	pid_t pid;
	uint64_t memory; /* bytes, if memory_known */
	int memory_known;
	int in_instance; /* on a MIG device: the two below are its instances */
	unsigned gpu_instance, compute_instance;
};
/* The processes that have a CUDA context on it. An array, as vg_gpu_all(). Source: nvmlDeviceGetComputeRunningProcesses. */
VG_PUBLIC enum vg_status vg_gpu_processes(struct vg_gpu *gpu, struct vg_gpu_process *processes, size_t capacity,
					  size_t *ret_count);

struct vg_gpu_utilization {
	unsigned gpu, memory; /* percent of the last sample's time in which kernels ran, memory was read or written */
};
/* Source: nvmlDeviceGetUtilizationRates. */
VG_PUBLIC enum vg_status vg_gpu_utilization(struct vg_gpu *gpu, struct vg_gpu_utilization *ret_utilization);

#ifdef __cplusplus
}
#endif
#endif
