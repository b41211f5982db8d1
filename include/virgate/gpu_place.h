/* Where a GPU is: on the PCI bus, at the other ends of its NVLinks, and near which processors, memory and other GPUs.
 * Errors as system.h says; arrays as vg_gpu_all() of gpu.h. Any thread. */
#ifndef VIRGATE_GPU_PLACE_H
#define VIRGATE_GPU_PLACE_H

#include <virgate/gpu.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_gpu_pci {
	unsigned domain, bus, device;
	unsigned vendor_id, device_id; /* 0x10de is NVIDIA */
	unsigned subsystem_id;	       /* the board's maker's */
	int base_class, sub_class;     /* 3 and 2: a 3D controller; -1: not known */
	char bus_id[32];	       /* "00000000:3B:00.0" */
};
/* UNSUPPORTED: a MIG device has no place of its own; ask vg_gpu_mig_parent(). So do the three below. Source:
 * nvmlDeviceGetPciInfoExt, nvmlDeviceGetPciInfo. */
VG_PUBLIC enum vg_status vg_gpu_pci(struct vg_gpu *gpu, struct vg_gpu_pci *ret_pci);

/* -1: not known. */
struct vg_gpu_pci_link {
	int generation, width;	       /* now: an idle link may be slower than it can be */
	int max_generation, max_width; /* of this GPU in this slot */
	int gpu_max_generation;	       /* of this GPU in the best of slots */
};
/* Source: nvmlDeviceGetCurrPcieLinkGeneration, …Width, nvmlDeviceGetMaxPcieLinkGeneration, …Width,
 * nvmlDeviceGetGpuMaxPcieLinkGeneration. */
VG_PUBLIC enum vg_status vg_gpu_pci_link(struct vg_gpu *gpu, struct vg_gpu_pci_link *ret_link);
/* KB/s to and from the GPU, measured for 20 ms each; an output that is NULL is not measured. Source:
 * nvmlDeviceGetPcieThroughput. */
VG_PUBLIC enum vg_status vg_gpu_pci_throughput(struct vg_gpu *gpu, unsigned *ret_received, unsigned *ret_sent);
/* How often the link had to send something again. Source: nvmlDeviceGetPcieReplayCounter. */
VG_PUBLIC enum vg_status vg_gpu_pci_replays(struct vg_gpu *gpu, unsigned *ret_count);

/* ---- NVLink ---- */

enum { VG_GPU_NVLINKS = 18 }; /* no GPU has more */

struct vg_gpu_nvlink {
	int active;			  /* 1 or 0 */
	int version_major, version_minor; /* 4 and 0; -1: not known */
};
/* How many links the GPU has. Source: the field NVLINK_LINK_COUNT of nvmlDeviceGetFieldValues. */
VG_PUBLIC enum vg_status vg_gpu_nvlink_count(struct vg_gpu *gpu, unsigned *ret_count);
/* One link, from 0 on. INVALID: VG_GPU_NVLINKS or more. UNSUPPORTED: the GPU has none of that number. Source:
 * nvmlDeviceGetNvLinkState, nvmlDeviceGetNvLinkVersion. */
VG_PUBLIC enum vg_status vg_gpu_nvlink(struct vg_gpu *gpu, unsigned link, struct vg_gpu_nvlink *ret_link);

/* ---- near what ---- */

enum vg_gpu_affinity_scope {
	VG_GPU_AFFINITY_NODE,  /* in the same NUMA node */
	VG_GPU_AFFINITY_SOCKET /* on the same socket */
};
/* Numbers of the processors, and of the NUMA nodes with memory, that are near. Source:
 * nvmlDeviceGetCpuAffinityWithinScope, nvmlDeviceGetMemoryAffinity. */
VG_PUBLIC enum vg_status vg_gpu_cpu_affinity(struct vg_gpu *gpu, enum vg_gpu_affinity_scope scope, unsigned *cpus,
					     size_t capacity, size_t *ret_count);
VG_PUBLIC enum vg_status vg_gpu_memory_affinity(struct vg_gpu *gpu, enum vg_gpu_affinity_scope scope, unsigned *nodes,
						size_t capacity, size_t *ret_count);
/* Lets the calling thread run on the processors near the GPU only, and on all again. Source:
 * nvmlDeviceSetCpuAffinity, nvmlDeviceClearCpuAffinity. */
VG_PUBLIC enum vg_status vg_gpu_set_thread_affinity(struct vg_gpu *gpu);
VG_PUBLIC enum vg_status vg_gpu_clear_thread_affinity(struct vg_gpu *gpu);
/* The GPUs near a processor. INVALID: there is no such processor. Source: nvmlSystemGetTopologyGpuSet. */
VG_PUBLIC enum vg_status vg_gpu_near_cpu(unsigned cpu, struct vg_gpu **gpus, size_t capacity, size_t *ret_count);

/* What two GPUs share on the way to each other, the nearest first. NVML's values. */
enum vg_gpu_topology {
	VG_GPU_TOPOLOGY_INTERNAL = 0,	 /* a board */
	VG_GPU_TOPOLOGY_SINGLE = 10,	 /* one PCI switch */
	VG_GPU_TOPOLOGY_MULTIPLE = 20,	 /* several, below one host bridge */
	VG_GPU_TOPOLOGY_HOSTBRIDGE = 30, /* a host bridge */
	VG_GPU_TOPOLOGY_NODE = 40,	 /* a NUMA node */
	VG_GPU_TOPOLOGY_SYSTEM = 50	 /* the machine */
};
/* "hostbridge"; "unknown". */
VG_PUBLIC const char *vg_gpu_topology_name(enum vg_gpu_topology topology);
/* Source: nvmlDeviceGetTopologyCommonAncestor. */
VG_PUBLIC enum vg_status vg_gpu_common_ancestor(struct vg_gpu *gpu, struct vg_gpu *other,
						enum vg_gpu_topology *ret_topology);
/* The other GPUs that share exactly this. Source: nvmlDeviceGetTopologyNearestGpus. */
VG_PUBLIC enum vg_status vg_gpu_nearest(struct vg_gpu *gpu, enum vg_gpu_topology topology, struct vg_gpu **gpus,
					size_t capacity, size_t *ret_count);

/* What one GPU may do with another's memory. NVML's values. */
enum vg_gpu_p2p { VG_GPU_P2P_READ, VG_GPU_P2P_WRITE, VG_GPU_P2P_NVLINK, VG_GPU_P2P_ATOMICS, VG_GPU_P2P_PCI };
enum vg_gpu_p2p_status {
	VG_GPU_P2P_OK,
	VG_GPU_P2P_CHIPSET_NOT_SUPPORTED,
	VG_GPU_P2P_GPU_NOT_SUPPORTED,
	VG_GPU_P2P_IOH_TOPOLOGY_NOT_SUPPORTED,
	VG_GPU_P2P_DISABLED_BY_REGKEY,
	VG_GPU_P2P_NOT_SUPPORTED,
	VG_GPU_P2P_UNKNOWN
};
/* "ok", "gpu_not_supported", …; "unknown". */
VG_PUBLIC const char *vg_gpu_p2p_status_name(enum vg_gpu_p2p_status status);
/* Source: nvmlDeviceGetP2PStatus. */
VG_PUBLIC enum vg_status vg_gpu_p2p_status(struct vg_gpu *gpu, struct vg_gpu *other, enum vg_gpu_p2p what,
					   enum vg_gpu_p2p_status *ret_status);

#ifdef __cplusplus
}
#endif
#endif
