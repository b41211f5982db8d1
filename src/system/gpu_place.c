// Lists processors, memory nodes and other GPUs near a GPU.
#include "system/gpu.h"
#include "virgate/gpu_place.h"

#include <stdlib.h>
#include <unistd.h>

enum { WORDS = 256, WORD_BITS = 8 * sizeof(unsigned long) }; // enough for 16384 processors or memory nodes

// Lists the numbers of the set bits.
static enum vg_status list_bits(const unsigned long *set, const char *what, unsigned *numbers, size_t capacity,
				size_t *ret_count)
{
	size_t have = 0, at = 0;
	enum vg_status status;

	for (size_t i = 0; i < WORDS; i++)
		have += (size_t)__builtin_popcountl(set[i]);
	if (!gpu_list_fits(numbers, capacity, have, what, ret_count, &status))
		return status;
	for (unsigned i = 0; i < WORDS * WORD_BITS; i++)
		if (set[i / WORD_BITS] >> i % WORD_BITS & 1)
			numbers[at++] = i;
	return VG_OK;
}

static enum vg_status check_scope(enum vg_gpu_affinity_scope scope)
{
	if ((unsigned)scope > VG_GPU_AFFINITY_SOCKET)
		return vg_fail(VG_INVALID, 0, "%d is no scope: node is 0, socket 1", scope);
	return VG_OK;
}

enum vg_status vg_gpu_cpu_affinity(struct vg_gpu *gpu, enum vg_gpu_affinity_scope scope, unsigned *cpus,
				   size_t capacity, size_t *ret_count)
{
	VG_ENTRY();
	unsigned long set[WORDS] = {0};

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_count);
	SYSTEM_TRY(check_scope(scope));
	GPU_ASK(nvmlDeviceGetCpuAffinityWithinScope, WORDS, set, (nvmlAffinityScope_t)scope);
	return list_bits(set, "processors", cpus, capacity, ret_count);
}

enum vg_status vg_gpu_memory_affinity(struct vg_gpu *gpu, enum vg_gpu_affinity_scope scope, unsigned *nodes,
				      size_t capacity, size_t *ret_count)
{
	VG_ENTRY();
	unsigned long set[WORDS] = {0};

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_count);
	SYSTEM_TRY(check_scope(scope));
	GPU_ASK(nvmlDeviceGetMemoryAffinity, WORDS, set, (nvmlAffinityScope_t)scope);
	return list_bits(set, "nodes", nodes, capacity, ret_count);
}

GPU_COMMAND(vg_gpu_set_thread_affinity, nvmlDeviceSetCpuAffinity)
GPU_COMMAND(vg_gpu_clear_thread_affinity, nvmlDeviceClearCpuAffinity)

// ---- other GPUs ---------------------------------------------------------------------------------

// A query for a set of GPUs. It is called once for their number, then for the GPUs.
struct topology_query {
	const struct vg_nvml *nvml;
	nvmlDevice_t of; // list the GPUs near this GPU; NULL: near a processor
	unsigned argument;
	const char *entry;
};

static nvmlReturn_t query_topology(const struct topology_query *topology_query, unsigned *count, nvmlDevice_t *handles)
{
	if (topology_query->of)
		return topology_query->nvml->nvmlDeviceGetTopologyNearestGpus(
			topology_query->of, (nvmlGpuTopologyLevel_t)topology_query->argument, count, handles);
	return topology_query->nvml->nvmlSystemGetTopologyGpuSet(topology_query->argument, count, handles);
}

static enum vg_status list_gpus(const struct topology_query *topology_query, struct vg_gpu **gpus, size_t capacity,
				size_t *ret_count)
{
	nvmlDevice_t *handles = NULL;
	enum vg_status status;
	unsigned count = 0;

	nvmlReturn_t result = query_topology(topology_query, &count, NULL);
	if (result == NVML_SUCCESS && count) {
		handles = calloc(count, sizeof *handles);
		if (!handles)
			return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of %u GPUs", count);
		result = query_topology(topology_query, &count, handles);
	}
	if (result)
		status = system_nvml_failed(result, topology_query->entry, "%s %u",
					    topology_query->of ? "topology" : "processor", topology_query->argument);
	else if (gpu_list_fits(gpus, capacity, count, "GPUs", ret_count, &status))
		for (unsigned i = 0; i < count && status == VG_OK; i++)
			status = gpu_find(topology_query->nvml, handles[i], &gpus[i]);
	free(handles);
	return status;
}

enum vg_status vg_gpu_near_cpu(unsigned cpu, struct vg_gpu **gpus, size_t capacity, size_t *ret_count)
{
	VG_ENTRY();
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	const struct vg_nvml *nvml;

	SYSTEM_NEEDED(ret_count);
	if (cpus > 0 && cpu >= (unsigned long)cpus)
		return vg_fail(VG_INVALID, 0, "there is no processor %u: the machine has %ld, from 0 on", cpu, cpus);
	SYSTEM_TRY(system_nvml_open(&nvml));
	struct topology_query topology_query = {nvml, NULL, cpu, "nvmlSystemGetTopologyGpuSet"};
	return list_gpus(&topology_query, gpus, capacity, ret_count);
}

const char *vg_gpu_topology_name(enum vg_gpu_topology topology)
{
	static const char *const names[] = {"internal", "single", "multiple", "hostbridge", "node", "system"};

	return (unsigned)topology <= VG_GPU_TOPOLOGY_SYSTEM && topology % 10 == 0 ? names[topology / 10] : "unknown";
}

enum vg_status vg_gpu_nearest(struct vg_gpu *gpu, enum vg_gpu_topology topology, struct vg_gpu **gpus, size_t capacity,
			      size_t *ret_count)
{
	VG_ENTRY();
	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_count);
	if ((unsigned)topology > VG_GPU_TOPOLOGY_SYSTEM || topology % 10)
		return vg_fail(VG_INVALID, 0, "%d is no topology: they are 0 to 50 in tens", topology);
	struct topology_query topology_query = {call.nvml, call.handle, topology, "nvmlDeviceGetTopologyNearestGpus"};
	return list_gpus(&topology_query, gpus, capacity, ret_count);
}

enum vg_status vg_gpu_common_ancestor(struct vg_gpu *gpu, struct vg_gpu *other, enum vg_gpu_topology *ret_topology)
{
	VG_ENTRY();
	nvmlGpuTopologyLevel_t level;
	struct gpu_call with;

	GPU_CALL(gpu);
	SYSTEM_NEEDED(other);
	SYSTEM_NEEDED(ret_topology);
	SYSTEM_TRY(gpu_call_begin(other, &with));
	GPU_ASK(nvmlDeviceGetTopologyCommonAncestor, with.handle, &level);
	*ret_topology = (enum vg_gpu_topology)level;
	return VG_OK;
}

const char *vg_gpu_p2p_status_name(enum vg_gpu_p2p_status status)
{
	static const char *const names[] = {"ok",
					    "chipset_not_supported",
					    "gpu_not_supported",
					    "ioh_topology_not_supported",
					    "disabled_by_regkey",
					    "not_supported"};

	return (unsigned)status < sizeof names / sizeof *names ? names[status] : "unknown";
}

enum vg_status vg_gpu_p2p_status(struct vg_gpu *gpu, struct vg_gpu *other, enum vg_gpu_p2p what,
				 enum vg_gpu_p2p_status *ret_status)
{
	VG_ENTRY();
	nvmlGpuP2PStatus_t status;
	struct gpu_call with;

	GPU_CALL(gpu);
	SYSTEM_NEEDED(other);
	SYSTEM_NEEDED(ret_status);
	if ((unsigned)what > VG_GPU_P2P_PCI)
		return vg_fail(VG_INVALID, 0, "%d is no access between GPUs: 0 to %d are", what, VG_GPU_P2P_PCI);
	SYSTEM_TRY(gpu_call_begin(other, &with));
	GPU_ASK(nvmlDeviceGetP2PStatus, with.handle, (nvmlGpuP2PCapsIndex_t)what, &status);
	*ret_status = (unsigned)status < VG_GPU_P2P_UNKNOWN ? (enum vg_gpu_p2p_status)status : VG_GPU_P2P_UNKNOWN;
	return VG_OK;
}
