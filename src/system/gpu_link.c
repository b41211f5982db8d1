// Reads the state of a GPU's PCI link and NVLinks.
#include "system/gpu.h"
#include "virgate/gpu_place.h"

#include <string.h>

static enum vg_status check_whole(const struct vg_gpu *gpu)
{
	if (gpu && gpu_is_mig_device(gpu))
		return vg_fail(VG_UNSUPPORTED, 0,
			       "%s is a MIG device and has no PCI link of its own: ask vg_gpu_mig_parent()", gpu->uuid);
	return VG_OK;
}

static void set_ids(struct vg_gpu_pci *pci, unsigned ids, unsigned subsystem, const char *bus_id)
{
	pci->vendor_id = ids & 0xffff;
	pci->device_id = ids >> 16;
	pci->subsystem_id = subsystem;
	memcpy(pci->bus_id, bus_id, sizeof pci->bus_id);
	pci->bus_id[sizeof pci->bus_id - 1] = '\0';
}

enum vg_status vg_gpu_pci(struct vg_gpu *gpu, struct vg_gpu_pci *ret_pci)
{
	VG_ENTRY();
	nvmlPciInfoExt_v1_t info = {.version = nvmlPciInfoExt_v1};
	struct vg_gpu_pci pci = {0};
	nvmlPciInfo_t plain;

	SYSTEM_TRY(check_whole(gpu));
	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_pci);
	nvmlReturn_t result = call.nvml->nvmlDeviceGetPciInfoExt(call.handle, &info);
	if (result && !system_nvml_is_unknown(result))
		return system_nvml_failed(result, "nvmlDeviceGetPciInfoExt", "%s", gpu->uuid);
	if (result == NVML_SUCCESS) {
		pci = (struct vg_gpu_pci){.domain = info.domain,
					  .bus = info.bus,
					  .device = info.device,
					  .base_class = (int)info.baseClass,
					  .sub_class = (int)info.subClass};
		set_ids(&pci, info.pciDeviceId, info.pciSubSystemId, info.busId);
	} else {
		GPU_ASK(nvmlDeviceGetPciInfo_v3, &plain);
		pci = (struct vg_gpu_pci){.domain = plain.domain,
					  .bus = plain.bus,
					  .device = plain.device,
					  .base_class = -1,
					  .sub_class = -1};
		set_ids(&pci, plain.pciDeviceId, plain.pciSubSystemId, plain.busId);
	}
	*ret_pci = pci;
	return VG_OK;
}

enum vg_status vg_gpu_pci_link(struct vg_gpu *gpu, struct vg_gpu_pci_link *ret_link)
{
	VG_ENTRY();
	struct vg_gpu_pci_link link;
	unsigned value = 0;

	SYSTEM_TRY(check_whole(gpu));
	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_link);
	GPU_FIGURE(&link.generation, value, nvmlDeviceGetCurrPcieLinkGeneration, &value);
	GPU_FIGURE(&link.width, value, nvmlDeviceGetCurrPcieLinkWidth, &value);
	GPU_FIGURE(&link.max_generation, value, nvmlDeviceGetMaxPcieLinkGeneration, &value);
	GPU_FIGURE(&link.max_width, value, nvmlDeviceGetMaxPcieLinkWidth, &value);
	GPU_FIGURE(&link.gpu_max_generation, value, nvmlDeviceGetGpuMaxPcieLinkGeneration, &value);
	*ret_link = link;
	return VG_OK;
}

enum vg_status vg_gpu_pci_throughput(struct vg_gpu *gpu, unsigned *ret_received, unsigned *ret_sent)
{
	VG_ENTRY();
	unsigned received = 0, sent = 0;

	SYSTEM_TRY(check_whole(gpu));
	GPU_CALL(gpu);
	if (ret_received)
		GPU_ASK(nvmlDeviceGetPcieThroughput, NVML_PCIE_UTIL_RX_BYTES, &received);
	if (ret_sent)
		GPU_ASK(nvmlDeviceGetPcieThroughput, NVML_PCIE_UTIL_TX_BYTES, &sent);
	if (ret_received)
		*ret_received = received;
	if (ret_sent)
		*ret_sent = sent;
	return VG_OK;
}

enum vg_status vg_gpu_pci_replays(struct vg_gpu *gpu, unsigned *ret_count)
{
	VG_ENTRY();
	unsigned count;

	SYSTEM_TRY(check_whole(gpu));
	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_count);
	GPU_ASK(nvmlDeviceGetPcieReplayCounter, &count);
	*ret_count = count;
	return VG_OK;
}

enum vg_status vg_gpu_nvlink_count(struct vg_gpu *gpu, unsigned *ret_count)
{
	VG_ENTRY();
	nvmlFieldValue_t field = {.fieldId = NVML_FI_DEV_NVLINK_LINK_COUNT};

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_count);
	GPU_ASK(nvmlDeviceGetFieldValues, 1, &field);
	if (field.nvmlReturn)
		return system_nvml_failed(field.nvmlReturn, "nvmlDeviceGetFieldValues", "%s", gpu->uuid);
	*ret_count = field.value.uiVal;
	return VG_OK;
}

enum vg_status vg_gpu_nvlink(struct vg_gpu *gpu, unsigned link, struct vg_gpu_nvlink *ret_link)
{
	VG_ENTRY();
	// The versions of NVLink. The index is NVML's number for the version.
	static const struct {
		int major, minor;
	} versions[] = {{-1, -1}, {1, 0}, {2, 0}, {2, 2}, {3, 0}, {3, 1}, {4, 0}, {5, 0}, {6, 0}};
	nvmlEnableState_t active;
	unsigned value = 0;
	int version;

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_link);
	if (link >= VG_GPU_NVLINKS)
		return vg_fail(VG_INVALID, 0, "there is no link %u: no GPU has more than %d, from 0 on", link,
			       VG_GPU_NVLINKS);
	GPU_ASK(nvmlDeviceGetNvLinkState, link, &active);
	GPU_FIGURE(&version, value, nvmlDeviceGetNvLinkVersion, link, &value);
	if (version < 0 || version >= (int)(sizeof versions / sizeof *versions))
		version = 0;
	*ret_link = (struct vg_gpu_nvlink){active != 0, versions[version].major, versions[version].minor};
	return VG_OK;
}
