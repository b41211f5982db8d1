/* Waiting for what happens to GPUs. Errors as system.h says. A set of events is one thread's at a time, and the
 * process's that made it. */
#ifndef VIRGATE_GPU_EVENT_H
#define VIRGATE_GPU_EVENT_H

#include <virgate/gpu.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bits, NVML's. */
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
/* "xid_critical_error" for one bit, "none" for 0; "unknown". */
VG_PUBLIC const char *vg_gpu_event_type_name(uint64_t type);
/* The bits that a GPU can tell. Source: nvmlDeviceGetSupportedEventTypes. */
VG_PUBLIC enum vg_status vg_gpu_supported_events(struct vg_gpu *gpu, uint64_t *ret_types);

struct vg_gpu_events;

/* A set that waits for `types` on a GPU. The caller owns *ret_events. UNSUPPORTED: the GPU does not tell all of these.
 * Source: nvmlEventSetCreate, nvmlDeviceRegisterEvents. */
VG_PUBLIC enum vg_status vg_gpu_events_create(struct vg_gpu *gpu, uint64_t types, struct vg_gpu_events **ret_events);
/* Waits for another GPU's too. */
VG_PUBLIC enum vg_status vg_gpu_events_add(struct vg_gpu_events *events, struct vg_gpu *gpu, uint64_t types);
/* NULL is fine. Source: nvmlEventSetFree. */
VG_PUBLIC void vg_gpu_events_destroy(struct vg_gpu_events *events);

struct vg_gpu_event {
	struct vg_gpu *gpu;
	uint64_t type;	 /* one bit */
	uint64_t data;	 /* of an XID: its number */
	int in_instance; /* of an XID on a part of a GPU: the two below are its instances */
	unsigned gpu_instance, compute_instance;
};
/* The next event. `timeout_ms` 0: waits for ever. NOT_READY: nothing in this time. STATE: made by another process,
 * before fork. Source: nvmlEventSetWait. */
VG_PUBLIC enum vg_status vg_gpu_events_wait(struct vg_gpu_events *events, unsigned timeout_ms,
					    struct vg_gpu_event *ret_event);

/* ---- of the machine: drivers that take GPUs and let them go ---- */

enum vg_system_event_type { VG_SYSTEM_EVENT_UNBIND = 1, VG_SYSTEM_EVENT_BIND = 2 }; /* bits */

struct vg_system_events;

/* UNSUPPORTED: the NVML of an older driver has none. The caller owns *ret_events. Source: nvmlSystemEventSetCreate,
 * nvmlSystemRegisterEvents. */
VG_PUBLIC enum vg_status vg_system_events_create(uint64_t types, struct vg_system_events **ret_events);
/* NULL is fine. Source: nvmlSystemEventSetFree. */
VG_PUBLIC void vg_system_events_destroy(struct vg_system_events *events);

struct vg_system_event {
	uint64_t type;	    /* one bit */
	unsigned id;	    /* the GPU's number for the kernel driver: domain << 16 | bus << 8 | device */
	struct vg_gpu *gpu; /* NULL: NVML does not show it, as after UNBIND */
};
/* What has happened, up to `capacity` events at once; at least one. `timeout_ms` and errors as vg_gpu_events_wait().
 * Source: nvmlSystemEventSetWait. */
VG_PUBLIC enum vg_status vg_system_events_wait(struct vg_system_events *events, unsigned timeout_ms,
					       struct vg_system_event *events_seen, size_t capacity, size_t *ret_count);

#ifdef __cplusplus
}
#endif
#endif
