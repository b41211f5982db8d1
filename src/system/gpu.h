// Declares the GPU object. A GPU is identified by its UUID, so that a forked child finds it again. Any thread.
#pragma once
#include "base/status.h"
#include "system/nvml.h"
#include "virgate/gpu.h"

#include <stdatomic.h>

struct vg_gpu {
	struct vg_gpu *next;
	_Atomic(nvmlDevice_t) handle;
	_Atomic(pid_t) found_by; // the process that found `handle`, which is valid only there
	char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
	char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
	char pci_bus_id[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
};

// The arguments of a call of NVML about a GPU: the table of NVML's functions, and NVML's handle of the GPU.
struct gpu_call {
	const struct vg_nvml *nvml;
	nvmlDevice_t handle;
};
// Initialises NVML if necessary, and finds the GPU's handle for this process. Fails with INVALID if `gpu` is NULL.
enum vg_status gpu_call_begin(struct vg_gpu *gpu, struct gpu_call *ret_call);
// Finds or creates the object for a handle of this process.
enum vg_status gpu_find(const struct vg_nvml *nvml, nvmlDevice_t handle, struct vg_gpu **ret_gpu);

// Sets *ret_count, and returns whether the caller's array has room for `have` elements. If it returns false, the
// calling function must return *ret_status. That is VG_OK if only the count was asked for.
bool gpu_list_fits(const void *array, size_t capacity, size_t have, const char *what, size_t *ret_count,
		   enum vg_status *ret_status);

// Converts one of several figures that a function reads. If NVML does not know the figure, sets it to -1 and returns
// VG_OK. Returns the status of any other failure.
enum vg_status gpu_figure(nvmlReturn_t result, const unsigned *value, const struct vg_gpu *gpu, const char *entry,
			  int *ret_figure);

// Defines a public function that reads one number: `type` is the public type, `nvml_type` NVML's.
#define GPU_NUMBER(name, type, entry, nvml_type)                  \
	enum vg_status name(struct vg_gpu *gpu, type *ret_number) \
	{                                                         \
		VG_ENTRY();                                       \
		nvml_type number = 0;                             \
                                                                  \
		GPU_CALL(gpu);                                    \
		SYSTEM_NEEDED(ret_number);                        \
		GPU_ASK(entry, &number);                          \
		*ret_number = (type)number;                       \
		return VG_OK;                                     \
	}

// Defines a public function that makes one NVML call with no arguments except the GPU.
#define GPU_COMMAND(name, entry)                                                             \
	enum vg_status name(struct vg_gpu *gpu)                                              \
	{                                                                                    \
		VG_ENTRY();                                                                  \
		GPU_CALL(gpu);                                                               \
		nvmlReturn_t result = call.nvml->entry(call.handle);                         \
		return result ? system_nvml_failed(result, #entry, "%s", gpu->uuid) : VG_OK; \
	}

// Returns whether `gpu` is a MIG device, not a whole GPU.
static inline bool gpu_is_mig_device(const struct vg_gpu *gpu)
{
	return gpu->uuid[0] == 'M';
}
