/* The machine's GPUs as NVML describes them: all of them, without a CUDA context. Errors as in system.h.
 *
 * There is one object for each GPU, which lives as long as the process, also in a child after fork; the program never
 * creates or destroys it. Any thread. Unknown values are marked as unknown, never 0. */
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

/* Returns the number of GPUs. Source: nvmlDeviceGetCount. */
VG_PUBLIC enum vg_status vg_gpu_count(unsigned *ret_count);
/* Finds a GPU by NVML's index, which follows the PCI bus and is not CUDA's ordinal. INVALID: no such index. Source:
 * nvmlDeviceGetHandleByIndex. */
VG_PUBLIC enum vg_status vg_gpu_by_index(unsigned index, struct vg_gpu **ret_gpu);
/* Finds a GPU by "GPU-…", "MIG-…", or a UUID without prefix, as in CUDA. INVALID (not a UUID), NOT_FOUND. Source:
 * nvmlDeviceGetHandleByUUID. */
VG_PUBLIC enum vg_status vg_gpu_by_uuid(const char *uuid, struct vg_gpu **ret_gpu);
/* Finds a GPU by "00000000:3B:00.0" or "3b:00.0". INVALID, NOT_FOUND. Source: nvmlDeviceGetHandleByPciBusId. */
VG_PUBLIC enum vg_status vg_gpu_by_pci_bus_id(const char *bus_id, struct vg_gpu **ret_gpu);
/* Lists all GPUs by index. *ret_count is their number; with `capacity` 0, `gpus` may be NULL, and only the count is
 * returned. LIMIT: more than `capacity`; nothing is written then. The same holds for all functions that fill an
 * array. */
VG_PUBLIC enum vg_status vg_gpu_all(struct vg_gpu **gpus, size_t capacity, size_t *ret_count);

/* Finds the GPU of a CUDA device, and the CUDA device of a GPU, by the UUID. NOT_FOUND: this process cannot use it with
 * CUDA (CUDA_VISIBLE_DEVICES), or NVML does not list it. The second function loads the CUDA driver. */
VG_PUBLIC enum vg_status vg_gpu_of_device(struct vg_device *device, struct vg_gpu **ret_gpu);
VG_PUBLIC enum vg_status vg_gpu_to_device(struct vg_gpu *gpu, struct vg_device **ret_device);

/* ---- identity ---- */

/* These functions return the UUID as "GPU-…" or "MIG-…"; the UUID without the prefix; the name; and the PCI bus id
 * as "00000000:3B:00.0" ("" for a MIG device). Valid as long as the process. "" for NULL. Source: nvmlDeviceGetUUID,
 * nvmlDeviceGetName, nvmlDeviceGetPciInfo. */
VG_PUBLIC const char *vg_gpu_uuid(const struct vg_gpu *gpu);
VG_PUBLIC const char *vg_gpu_uuid_without_prefix(const struct vg_gpu *gpu);
VG_PUBLIC const char *vg_gpu_name(const struct vg_gpu *gpu);
VG_PUBLIC const char *vg_gpu_pci_bus_id(const struct vg_gpu *gpu);

/* These functions read NVML's index; the minor number of /dev/nvidiaN; the position on the board, from 0; and the
 * host's NUMA node. UNSUPPORTED if the GPU has no such number. Source: nvmlDeviceGetIndex, nvmlDeviceGetMinorNumber,
 * nvmlDeviceGetModuleId, nvmlDeviceGetNumaNodeId. */
VG_PUBLIC enum vg_status vg_gpu_index(struct vg_gpu *gpu, unsigned *ret_index);
VG_PUBLIC enum vg_status vg_gpu_minor_number(struct vg_gpu *gpu, unsigned *ret_number);
VG_PUBLIC enum vg_status vg_gpu_module_id(struct vg_gpu *gpu, unsigned *ret_id);
VG_PUBLIC enum vg_status vg_gpu_numa_node(struct vg_gpu *gpu, unsigned *ret_node);
/* Reads the serial number, which is printed on the board. LIMIT: 30 bytes are enough. Source: nvmlDeviceGetSerial. */
VG_PUBLIC enum vg_status vg_gpu_serial(struct vg_gpu *gpu, char *ret_serial, size_t capacity);
/* Reads the brand: "Tesla", "GeForce RTX", "NVIDIA RTX", …; "Unknown". The library owns the text. Source:
 * nvmlDeviceGetBrand. */
VG_PUBLIC enum vg_status vg_gpu_brand(struct vg_gpu *gpu, const char **ret_brand);
/* Reads the compute capability, such as 9 and 0 for 9.0. Outputs may be NULL. Source:
 * nvmlDeviceGetCudaComputeCapability. */
VG_PUBLIC enum vg_status vg_gpu_compute_capability(struct vg_gpu *gpu, int *ret_major, int *ret_minor);

enum vg_gpu_architecture {
	VG_GPU_ARCHITECTURE_UNKNOWN = -1, /* newer than this library */
	VG_GPU_ARCHITECTURE_KEPLER = 2,
	VG_GPU_ARCHITECTURE_MAXWELL,
	VG_GPU_ARCHITECTURE_PASCAL,
	VG_GPU_ARCHITECTURE_VOLTA,
	VG_GPU_ARCHITECTURE_TURING,
	VG_GPU_ARCHITECTURE_AMPERE,
	VG_GPU_ARCHITECTURE_ADA,
	VG_GPU_ARCHITECTURE_HOPPER,
	VG_GPU_ARCHITECTURE_BLACKWELL
};
/* Reads the architecture. Source: nvmlDeviceGetArchitecture. */
VG_PUBLIC enum vg_status vg_gpu_architecture(struct vg_gpu *gpu, enum vg_gpu_architecture *ret_architecture);
/* Returns the name of an architecture, such as "hopper"; "unknown" for another value. */
VG_PUBLIC const char *vg_gpu_architecture_name(enum vg_gpu_architecture architecture);

enum vg_gpu_addressing {
	VG_GPU_ADDRESSING_NONE, /* kernels cannot access pageable memory */
	VG_GPU_ADDRESSING_HMM,	/* kernels can access pageable memory, by Linux's heterogeneous memory management */
	VG_GPU_ADDRESSING_ATS	/* kernels can access pageable memory, by address translation services */
};
/* Reads how kernels can access pageable memory. Source: nvmlDeviceGetAddressingMode. */
VG_PUBLIC enum vg_status vg_gpu_addressing_mode(struct vg_gpu *gpu, enum vg_gpu_addressing *ret_mode);
/* These functions read 1 or 0: the GPU is connected to the processor by chip-to-chip links; a display is connected;
 * a display is active. Source: nvmlDeviceGetC2cModeInfoV, nvmlDeviceGetDisplayMode, nvmlDeviceGetDisplayActive. */
VG_PUBLIC enum vg_status vg_gpu_c2c_enabled(struct vg_gpu *gpu, int *ret_enabled);
VG_PUBLIC enum vg_status vg_gpu_display_connected(struct vg_gpu *gpu, int *ret_connected);
VG_PUBLIC enum vg_status vg_gpu_display_active(struct vg_gpu *gpu, int *ret_active);
/* These functions read and set whether the driver stays loaded while no process uses the GPU. Setting it needs root:
 * DENIED. Source: nvmlDeviceGetPersistenceMode, nvmlDeviceSetPersistenceMode. */
VG_PUBLIC enum vg_status vg_gpu_persistence_mode(struct vg_gpu *gpu, int *ret_enabled);
VG_PUBLIC enum vg_status vg_gpu_set_persistence_mode(struct vg_gpu *gpu, int enabled);

enum vg_gpu_compute_mode {
	VG_GPU_COMPUTE_DEFAULT = 0,
	VG_GPU_COMPUTE_PROHIBITED = 2,	     /* no process may have a context */
	VG_GPU_COMPUTE_EXCLUSIVE_PROCESS = 3 /* only one process may have contexts */
};
/* Reads which processes may have contexts. Source: nvmlDeviceGetComputeMode. */
VG_PUBLIC enum vg_status vg_gpu_compute_mode(struct vg_gpu *gpu, enum vg_gpu_compute_mode *ret_mode);
/* Returns the name of a mode: "default", "prohibited", "exclusive-process"; "unknown" for another value. */
VG_PUBLIC const char *vg_gpu_compute_mode_name(enum vg_gpu_compute_mode mode);
/* Reads whether ECC is on (1 or 0), now and after the next reset. Outputs may be NULL. Source: nvmlDeviceGetEccMode. */
VG_PUBLIC enum vg_status vg_gpu_ecc_mode(struct vg_gpu *gpu, int *ret_enabled, int *ret_pending);

/* ---- memory, and processes that use it ---- */

struct vg_gpu_memory {
	uint64_t total, free, used;
	/* Bytes that the driver and the firmware use, if reserved_known; otherwise `used` includes them. */
	uint64_t reserved;
	int reserved_known;
};
/* Reads the memory figures, in bytes. Source: nvmlDeviceGetMemoryInfo. */
VG_PUBLIC enum vg_status vg_gpu_memory(struct vg_gpu *gpu, struct vg_gpu_memory *ret_memory);

struct vg_gpu_bar1 {
	uint64_t total, free, used;
};
/* Reads the bytes of the window through which the processor and other devices access the GPU's memory. Source:
 * nvmlDeviceGetBAR1MemoryInfo. */
VG_PUBLIC enum vg_status vg_gpu_bar1(struct vg_gpu *gpu, struct vg_gpu_bar1 *ret_bar1);

struct vg_gpu_process {
	pid_t pid;
	uint64_t memory; /* bytes, if memory_known */
	int memory_known;
	int in_instance; /* nonzero: on a MIG device, whose instances are the next two */
	unsigned gpu_instance, compute_instance;
};
/* Lists the processes that have a CUDA context on the GPU, in an array like vg_gpu_all(). Source:
 * nvmlDeviceGetComputeRunningProcesses. */
VG_PUBLIC enum vg_status vg_gpu_processes(struct vg_gpu *gpu, struct vg_gpu_process *processes, size_t capacity,
					  size_t *ret_count);

struct vg_gpu_utilization {
	/* Percent of the last sample period in which kernels ran, and in which memory was accessed. */
	unsigned gpu, memory;
};
/* Reads the utilization. Source: nvmlDeviceGetUtilizationRates. */
VG_PUBLIC enum vg_status vg_gpu_utilization(struct vg_gpu *gpu, struct vg_gpu_utilization *ret_utilization);

/* ---- MIG: parts of a GPU as devices ---- */

struct vg_gpu_mig {
	int is_device;	   /* 1: the object is a MIG device; the other fields describe its GPU */
	int mode, pending; /* 1 or 0: MIG is on now, and after the next reset; -1: the GPU has no MIG */
	int most_devices;  /* maximum number of MIG devices; -1: unknown */
};
/* Reads the MIG mode. Source: nvmlDeviceIsMigDeviceHandle, nvmlDeviceGetMigMode, nvmlDeviceGetMaxMigDeviceCount. */
VG_PUBLIC enum vg_status vg_gpu_mig(struct vg_gpu *gpu, struct vg_gpu_mig *ret_mig);
/* Turns MIG on or off; needs root and an idle GPU. DENIED, UNSUPPORTED; BUSY and others: the mode is set and takes
 * effect at the next reset. Source: nvmlDeviceSetMigMode. */
VG_PUBLIC enum vg_status vg_gpu_set_mig_mode(struct vg_gpu *gpu, int enabled);
/* Returns the GPU of a MIG device. INVALID: not a MIG device. Source: nvmlDeviceGetDeviceHandleFromMigDeviceHandle. */
VG_PUBLIC enum vg_status vg_gpu_mig_parent(struct vg_gpu *gpu, struct vg_gpu **ret_parent);
/* Finds the MIG device of an index below most_devices. NOT_FOUND: no device has this index. INVALID, UNSUPPORTED.
 * Source: nvmlDeviceGetMigDeviceHandleByIndex. */
VG_PUBLIC enum vg_status vg_gpu_mig_device(struct vg_gpu *gpu, unsigned index, struct vg_gpu **ret_device);
/* Lists all MIG devices, in an array as vg_gpu_all(); none if MIG is off or unknown. */
VG_PUBLIC enum vg_status vg_gpu_mig_devices(struct vg_gpu *gpu, struct vg_gpu **devices, size_t capacity,
					    size_t *ret_count);

struct vg_gpu_attributes {
	unsigned multiprocessors;
	unsigned copy_engines, decoders, encoders, jpeg_engines, ofa_engines; /* shared ones */
	unsigned gpu_instance_slices, compute_instance_slices;
	uint64_t memory_mib;
};
/* Reads the parts of a MIG device. UNSUPPORTED for whole GPUs. Source: nvmlDeviceGetAttributes. */
VG_PUBLIC enum vg_status vg_gpu_attributes(struct vg_gpu *gpu, struct vg_gpu_attributes *ret_attributes);

#ifdef __cplusplus
}
#endif
#endif
