/* The location of a GPU: on the PCI bus, its NVLinks, and the processors, memory nodes and other GPUs near it.
 * Errors as in system.h; arrays as vg_gpu_all() in gpu.h. Any thread. */
#ifndef VIRGATE_GPU_PLACE_H
#define VIRGATE_GPU_PLACE_H

#include <virgate/gpu.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_gpu_pci {
	unsigned domain, bus, device;
	unsigned vendor_id, device_id; /* 0x10de is NVIDIA */
	unsigned subsystem_id;	       /* id of the board */
	int base_class, sub_class;     /* 3 and 2: a 3D controller; -1: unknown */
	char bus_id[32];	       /* "00000000:3B:00.0" */
};
/* Reads the PCI ids. UNSUPPORTED: a MIG device has no PCI device; use vg_gpu_mig_parent(). The next three functions
 * also return that. Source: nvmlDeviceGetPciInfoExt, nvmlDeviceGetPciInfo. */
VG_PUBLIC enum vg_status vg_gpu_pci(struct vg_gpu *gpu, struct vg_gpu_pci *ret_pci);

/* -1: unknown. */
struct vg_gpu_pci_link {
	int generation, width;	       /* the link as it is used now; an idle link may be slower */
	int max_generation, max_width; /* maximum of this GPU in this slot */
	int gpu_max_generation;	       /* maximum of this GPU in any slot */
};
/* Reads the generation and the width of the PCI link. Source: nvmlDeviceGetCurrPcieLinkGeneration, …Width,
 * nvmlDeviceGetMaxPcieLinkGeneration, …Width, nvmlDeviceGetGpuMaxPcieLinkGeneration. */
VG_PUBLIC enum vg_status vg_gpu_pci_link(struct vg_gpu *gpu, struct vg_gpu_pci_link *ret_link);
/* Measures KB/s to and from the GPU, for 20 ms each; outputs that are NULL are not measured. Source:
 * nvmlDeviceGetPcieThroughput. */
VG_PUBLIC enum vg_status vg_gpu_pci_throughput(struct vg_gpu *gpu, unsigned *ret_received, unsigned *ret_sent);
/* Reads the number of retransmissions on the PCI link. Source: nvmlDeviceGetPcieReplayCounter. */
VG_PUBLIC enum vg_status vg_gpu_pci_replays(struct vg_gpu *gpu, unsigned *ret_count);

/* ---- NVLink ---- */

enum { VG_GPU_NVLINKS = 18 }; /* maximum number of NVLinks of a GPU */

struct vg_gpu_nvlink {
	int active;			  /* 1 or 0 */
	int version_major, version_minor; /* 4 and 0; -1: unknown */
};
/* Reads the number of NVLinks of the GPU. Source: the field NVLINK_LINK_COUNT of nvmlDeviceGetFieldValues. */
VG_PUBLIC enum vg_status vg_gpu_nvlink_count(struct vg_gpu *gpu, unsigned *ret_count);
/* Reads one link, counted from 0. INVALID: VG_GPU_NVLINKS or more. UNSUPPORTED: the GPU has no such link. Source:
 * nvmlDeviceGetNvLinkState, nvmlDeviceGetNvLinkVersion. */
VG_PUBLIC enum vg_status vg_gpu_nvlink(struct vg_gpu *gpu, unsigned link, struct vg_gpu_nvlink *ret_link);

/* ---- processors and GPUs near it ---- */

enum vg_gpu_affinity_scope {
	VG_GPU_AFFINITY_NODE,  /* processors in the same NUMA node as the GPU */
	VG_GPU_AFFINITY_SOCKET /* processors on the same socket as the GPU */
};
/* Lists the numbers of the processors, and of the NUMA nodes with memory, near the GPU. Source:
 * nvmlDeviceGetCpuAffinityWithinScope, nvmlDeviceGetMemoryAffinity. */
VG_PUBLIC enum vg_status vg_gpu_cpu_affinity(struct vg_gpu *gpu, enum vg_gpu_affinity_scope scope, unsigned *cpus,
					     size_t capacity, size_t *ret_count);
VG_PUBLIC enum vg_status vg_gpu_memory_affinity(struct vg_gpu *gpu, enum vg_gpu_affinity_scope scope, unsigned *nodes,
						size_t capacity, size_t *ret_count);
/* Restricts the calling thread to the processors near the GPU, or removes the restriction. Source:
 * nvmlDeviceSetCpuAffinity, nvmlDeviceClearCpuAffinity. */
VG_PUBLIC enum vg_status vg_gpu_set_thread_affinity(struct vg_gpu *gpu);
VG_PUBLIC enum vg_status vg_gpu_clear_thread_affinity(struct vg_gpu *gpu);
/* Lists the GPUs near a processor. INVALID: no such processor. Source: nvmlSystemGetTopologyGpuSet. */
VG_PUBLIC enum vg_status vg_gpu_near_cpu(unsigned cpu, struct vg_gpu **gpus, size_t capacity, size_t *ret_count);

/* The common ancestor of two GPUs, the nearest first. NVML's values. */
enum vg_gpu_topology {
	VG_GPU_TOPOLOGY_INTERNAL = 0,	 /* a board */
	VG_GPU_TOPOLOGY_SINGLE = 10,	 /* one PCI switch */
	VG_GPU_TOPOLOGY_MULTIPLE = 20,	 /* several PCI bridges, below one host bridge */
	VG_GPU_TOPOLOGY_HOSTBRIDGE = 30, /* a host bridge */
	VG_GPU_TOPOLOGY_NODE = 40,	 /* a NUMA node */
	VG_GPU_TOPOLOGY_SYSTEM = 50	 /* the machine */
};
/* Returns the name of an ancestor, such as "hostbridge"; "unknown" for another value. */
VG_PUBLIC const char *vg_gpu_topology_name(enum vg_gpu_topology topology);
/* Finds the common ancestor of two GPUs. Source: nvmlDeviceGetTopologyCommonAncestor. */
VG_PUBLIC enum vg_status vg_gpu_common_ancestor(struct vg_gpu *gpu, struct vg_gpu *other,
						enum vg_gpu_topology *ret_topology);
/* Lists the other GPUs with exactly this common ancestor. Source: nvmlDeviceGetTopologyNearestGpus. */
VG_PUBLIC enum vg_status vg_gpu_nearest(struct vg_gpu *gpu, enum vg_gpu_topology topology, struct vg_gpu **gpus,
					size_t capacity, size_t *ret_count);

/* Kinds of access to another GPU's memory. NVML's values. */
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
/* Returns the name of a status: "ok", "gpu_not_supported", …; "unknown" for another value. */
VG_PUBLIC const char *vg_gpu_p2p_status_name(enum vg_gpu_p2p_status status);
/* Reads whether the GPU can access memory of `other` in this way. Source: nvmlDeviceGetP2PStatus. */
VG_PUBLIC enum vg_status vg_gpu_p2p_status(struct vg_gpu *gpu, struct vg_gpu *other, enum vg_gpu_p2p what,
					   enum vg_gpu_p2p_status *ret_status);

#ifdef __cplusplus
}
#endif
#endif
