// A GPU, as this room sees it: known by its UUID, so that it is found again in a child after fork.
#pragma once
#include "base/status.h"
#include "system/nvml.h"
#include "virgate/gpu.h"

#include <stdatomic.h>

struct vg_gpu {
	struct vg_gpu *next;
	_Atomic(nvmlDevice_t) handle;
	_Atomic(pid_t) found_by; // the process whose handle that is
	char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
	char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
	char pci_bus_id[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
};

// What a question about a GPU needs.
struct gpu_call {
	const struct vg_nvml *nvml;
	nvmlDevice_t handle;
};
enum vg_status gpu_call_begin(struct vg_gpu *gpu, struct gpu_call *ret_call);
// The object of a handle of this process; made if it is the first time.
enum vg_status gpu_of_handle(const struct vg_nvml *nvml, nvmlDevice_t handle, struct vg_gpu **ret_gpu);

// For functions that fill an array of the caller: true if `have` go into it; otherwise the function returns
// *ret_status, which is VG_OK where only the count was asked for.
bool gpu_list_fits(const void *array, size_t capacity, size_t have, const char *what, size_t *ret_count,
		   enum vg_status *ret_status);

// One figure of a group: -1 where there is none to know. VG_OK, or what else went wrong.
enum vg_status gpu_figure(nvmlReturn_t result, const unsigned *value, const struct vg_gpu *gpu, const char *entry,
			  int *ret_figure);

// Public functions that ask for one number: of our type, in NVML's.
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

// Public functions that only tell NVML to do something.
#define GPU_ORDER(name, entry)                                                               \
	enum vg_status name(struct vg_gpu *gpu)                                              \
	{                                                                                    \
		VG_ENTRY();                                                                  \
		GPU_CALL(gpu);                                                               \
		nvmlReturn_t result = call.nvml->entry(call.handle);                         \
		return result ? system_nvml_failed(result, #entry, "%s", gpu->uuid) : VG_OK; \
	}

// A part of a GPU.
static inline bool gpu_is_part(const struct vg_gpu *gpu)
{
	return gpu->uuid[0] == 'M';
}
