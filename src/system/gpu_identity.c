// Reads the identity of a GPU: numbers, names, modes.
#include "system/gpu.h"

GPU_NUMBER(vg_gpu_index, unsigned, nvmlDeviceGetIndex, unsigned)
GPU_NUMBER(vg_gpu_minor_number, unsigned, nvmlDeviceGetMinorNumber, unsigned)
GPU_NUMBER(vg_gpu_module_id, unsigned, nvmlDeviceGetModuleId, unsigned)
GPU_NUMBER(vg_gpu_numa_node, unsigned, nvmlDeviceGetNumaNodeId, unsigned)
GPU_NUMBER(vg_gpu_display_connected, int, nvmlDeviceGetDisplayMode, nvmlEnableState_t)
GPU_NUMBER(vg_gpu_display_active, int, nvmlDeviceGetDisplayActive, nvmlEnableState_t)
GPU_NUMBER(vg_gpu_persistence_mode, int, nvmlDeviceGetPersistenceMode, nvmlEnableState_t)

enum vg_status vg_gpu_set_persistence_mode(struct vg_gpu *gpu, int enabled)
{
	VG_ENTRY();
	GPU_CALL(gpu);
	GPU_ASK(nvmlDeviceSetPersistenceMode, enabled ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED);
	return VG_OK;
}

enum vg_status vg_gpu_c2c_enabled(struct vg_gpu *gpu, int *ret_enabled)
{
	VG_ENTRY();
	nvmlC2cModeInfo_v1_t info = {0};

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_enabled);
	GPU_ASK(nvmlDeviceGetC2cModeInfoV, &info);
	*ret_enabled = info.isC2cEnabled != 0;
	return VG_OK;
}

enum vg_status vg_gpu_serial(struct vg_gpu *gpu, char *ret_serial, size_t capacity)
{
	VG_ENTRY();
	char serial[NVML_DEVICE_SERIAL_BUFFER_SIZE];

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_serial);
	GPU_ASK(nvmlDeviceGetSerial, serial, sizeof serial);
	return system_copy_text(ret_serial, capacity, serial);
}

enum vg_status vg_gpu_brand(struct vg_gpu *gpu, const char **ret_brand)
{
	VG_ENTRY();
	static const char *const names[] = {
		"Unknown",    "Quadro",	      "Tesla",	    "NVS",	   "GRID",	 "GeForce",
		"Titan",      "NVIDIA vApps", "NVIDIA VPC", "NVIDIA VCS",  "NVIDIA VWS", "NVIDIA Cloud Gaming",
		"Quadro RTX", "NVIDIA RTX",   "NVIDIA",	    "GeForce RTX", "Titan RTX"};
	nvmlBrandType_t brand;

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_brand);
	GPU_ASK(nvmlDeviceGetBrand, &brand);
	*ret_brand = names[(unsigned)brand < sizeof names / sizeof *names ? brand : NVML_BRAND_UNKNOWN];
	return VG_OK;
}

enum vg_status vg_gpu_compute_capability(struct vg_gpu *gpu, int *ret_major, int *ret_minor)
{
	VG_ENTRY();
	int major, minor;

	GPU_CALL(gpu);
	GPU_ASK(nvmlDeviceGetCudaComputeCapability, &major, &minor);
	if (ret_major)
		*ret_major = major;
	if (ret_minor)
		*ret_minor = minor;
	return VG_OK;
}

static bool is_known_architecture(int architecture)
{
	return architecture >= VG_GPU_ARCHITECTURE_KEPLER && architecture <= VG_GPU_ARCHITECTURE_BLACKWELL;
}

enum vg_status vg_gpu_architecture(struct vg_gpu *gpu, enum vg_gpu_architecture *ret_architecture)
{
	VG_ENTRY();
	nvmlDeviceArchitecture_t value;

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_architecture);
	GPU_ASK(nvmlDeviceGetArchitecture, &value);
	*ret_architecture =
		is_known_architecture((int)value) ? (enum vg_gpu_architecture)value : VG_GPU_ARCHITECTURE_UNKNOWN;
	return VG_OK;
}

const char *vg_gpu_architecture_name(enum vg_gpu_architecture architecture)
{
	static const char *const names[] = {"kepler", "maxwell", "pascal", "volta",    "turing",
					    "ampere", "ada",	 "hopper", "blackwell"};

	return is_known_architecture(architecture) ? names[architecture - VG_GPU_ARCHITECTURE_KEPLER] : "unknown";
}

enum vg_status vg_gpu_addressing_mode(struct vg_gpu *gpu, enum vg_gpu_addressing *ret_mode)
{
	VG_ENTRY();
	nvmlDeviceAddressingMode_v1_t mode = {.version = nvmlDeviceAddressingMode_v1};

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_mode);
	GPU_ASK(nvmlDeviceGetAddressingMode, &mode);
	if (mode.value > VG_GPU_ADDRESSING_ATS)
		return vg_fail(VG_UNSUPPORTED, 0, "%s: addressing mode %u is newer than this library", gpu->uuid,
			       mode.value);
	*ret_mode = (enum vg_gpu_addressing)mode.value;
	return VG_OK;
}

enum vg_status vg_gpu_compute_mode(struct vg_gpu *gpu, enum vg_gpu_compute_mode *ret_mode)
{
	VG_ENTRY();
	nvmlComputeMode_t mode;

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_mode);
	GPU_ASK(nvmlDeviceGetComputeMode, &mode);
	*ret_mode = (enum vg_gpu_compute_mode)mode;
	return VG_OK;
}

const char *vg_gpu_compute_mode_name(enum vg_gpu_compute_mode mode)
{
	switch (mode) {
	case VG_GPU_COMPUTE_DEFAULT:
		return "default";
	case VG_GPU_COMPUTE_PROHIBITED:
		return "prohibited";
	case VG_GPU_COMPUTE_EXCLUSIVE_PROCESS:
		return "exclusive-process";
	}
	return "unknown";
}

enum vg_status vg_gpu_ecc_mode(struct vg_gpu *gpu, int *ret_enabled, int *ret_pending)
{
	VG_ENTRY();
	nvmlEnableState_t enabled, pending;

	GPU_CALL(gpu);
	GPU_ASK(nvmlDeviceGetEccMode, &enabled, &pending);
	if (ret_enabled)
		*ret_enabled = enabled == NVML_FEATURE_ENABLED;
	if (ret_pending)
		*ret_pending = pending == NVML_FEATURE_ENABLED;
	return VG_OK;
}
