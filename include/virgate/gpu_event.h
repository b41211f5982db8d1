/* Events of GPUs. Errors as in system.h. One thread at a time may use a set of events, and only in the process that
 * created it. */
#ifndef VIRGATE_GPU_EVENT_H
#define VIRGATE_GPU_EVENT_H

#include <virgate/gpu.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NVML's bits. */
enum vg_gpu_event_type {
	VG_GPU_EVENT_NONE = 0,
	VG_GPU_EVENT_SINGLE_BIT_ECC_ERROR = 0x1,
	VG_GPU_EVENT_DOUBLE_BIT_ECC_ERROR = 0x2,
	VG_GPU_EVENT_PSTATE = 0x4,
	VG_GPU_EVENT_XID_CRITICAL_ERROR = 0x8,
	VG_GPU_EVENT_CLOCK = 0x10,
	VG_GPU_EVENT_POWER_SOURCE_CHANGE = 0x80,
	VG_GPU_EVENT_MIG_CONFIG_CHANGE = 0x100,
	VG_GPU_EVENT_SINGLE_BIT_ECC_ERROR_STORM = 0x200,
	VG_GPU_EVENT_DRAM_RETIREMENT_EVENT = 0x400,
	VG_GPU_EVENT_DRAM_RETIREMENT_FAILURE = 0x800,
	VG_GPU_EVENT_NON_FATAL_POISON_ERROR = 0x1000,
	VG_GPU_EVENT_FATAL_POISON_ERROR = 0x2000,
	VG_GPU_EVENT_GPU_UNAVAILABLE_ERROR = 0x4000,
	VG_GPU_EVENT_GPU_RECOVERY_ACTION = 0x8000
};
/* Returns the name of an event type: "xid_critical_error" for one bit, "none" for 0; "unknown" for another value. */
VG_PUBLIC const char *vg_gpu_event_type_name(uint64_t type);
/* Returns the events that a GPU can report. Source: nvmlDeviceGetSupportedEventTypes. */
VG_PUBLIC enum vg_status vg_gpu_supported_events(struct vg_gpu *gpu, uint64_t *ret_types);

struct vg_gpu_events;

/* Creates a set that waits for `types` on a GPU. The caller owns *ret_events. UNSUPPORTED: the GPU cannot report all.
 * Source: nvmlEventSetCreate, nvmlDeviceRegisterEvents. */
VG_PUBLIC enum vg_status vg_gpu_events_create(struct vg_gpu *gpu, uint64_t types, struct vg_gpu_events **ret_events);
/* Adds events of another GPU to the set. */
VG_PUBLIC enum vg_status vg_gpu_events_add(struct vg_gpu_events *events, struct vg_gpu *gpu, uint64_t types);
/* Destroys the set. Accepts NULL. Source: nvmlEventSetFree. */
VG_PUBLIC void vg_gpu_events_destroy(struct vg_gpu_events *events);

struct vg_gpu_event {
	struct vg_gpu *gpu;
	uint64_t type;	 /* one bit */
	uint64_t data;	 /* the number of an XID */
	int in_instance; /* nonzero: an XID on a MIG device, whose instances are the next two */
	unsigned gpu_instance, compute_instance;
};
/* Waits for the next event. `timeout_ms` 0: for ever. NOT_READY: timeout. STATE: another process created the set,
 * before fork. Source: nvmlEventSetWait. */
VG_PUBLIC enum vg_status vg_gpu_events_wait(struct vg_gpu_events *events, unsigned timeout_ms,
					    struct vg_gpu_event *ret_event);

/* ---- of the machine: GPUs that are bound to a driver, and unbound ---- */

enum vg_system_event_type { VG_SYSTEM_EVENT_UNBIND = 1, VG_SYSTEM_EVENT_BIND = 2 }; /* bits */

struct vg_system_events;

/* Creates a set. UNSUPPORTED: the driver's NVML is too old. The caller owns *ret_events. Source:
 * nvmlSystemEventSetCreate, nvmlSystemRegisterEvents. */
VG_PUBLIC enum vg_status vg_system_events_create(uint64_t types, struct vg_system_events **ret_events);
/* Destroys the set. Accepts NULL. Source: nvmlSystemEventSetFree. */
VG_PUBLIC void vg_system_events_destroy(struct vg_system_events *events);

struct vg_system_event {
	uint64_t type;	    /* one bit */
	unsigned id;	    /* the kernel driver's number of the GPU: domain << 16 | bus << 8 | device */
	struct vg_gpu *gpu; /* the GPU; NULL: NVML does not list it, as after UNBIND */
};
/* Waits for at least one event, and returns up to `capacity`. `timeout_ms` and errors as vg_gpu_events_wait().
 * Source: nvmlSystemEventSetWait. */
VG_PUBLIC enum vg_status vg_system_events_wait(struct vg_system_events *events, unsigned timeout_ms,
					       struct vg_system_event *events_seen, size_t capacity, size_t *ret_count);

#ifdef __cplusplus
}
#endif
#endif
