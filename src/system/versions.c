// Reads the versions of the driver and of NVML, and the names of processes.
#include "base/status.h"
#include "system/nvml.h"
#include "virgate/system.h"

#include <stdlib.h>

enum vg_status vg_system_user_driver_version(int *ret_major, int *ret_minor)
{
	VG_ENTRY();
	const struct vg_nvml *nvml;
	int version;

	SYSTEM_TRY(system_nvml_open(&nvml));
	nvmlReturn_t result = nvml->nvmlSystemGetCudaDriverVersion_v2(&version);
	if (result)
		return system_nvml_failed(result, "nvmlSystemGetCudaDriverVersion", "%s", "");
	if (ret_major)
		*ret_major = version / 1000;
	if (ret_minor)
		*ret_minor = version / 10 % 100;
	return VG_OK;
}

static enum vg_status parse_version(const char *text, struct vg_system_version *ret_version)
{
	struct vg_system_version version = {0};
	const char *at = text;
	char *end;

	do {
		version.part[version.count++] = (unsigned)strtoul(at, &end, 10);
		if (end == at || version.count == sizeof version.part / sizeof *version.part)
			return vg_fail(VG_NVML, 0, "NVML says version \"%s\": numbers between dots were expected",
				       text);
		at = end + 1;
	} while (*end == '.');
	*ret_version = version;
	return VG_OK;
}

enum vg_status vg_system_kernel_driver_version(struct vg_system_version *ret_version)
{
	VG_ENTRY();
	char text[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE];
	const struct vg_nvml *nvml;

	SYSTEM_NEEDED(ret_version);
	SYSTEM_TRY(system_nvml_open(&nvml));
	nvmlReturn_t result = nvml->nvmlSystemGetDriverVersion(text, sizeof text);
	if (result)
		return system_nvml_failed(result, "nvmlSystemGetDriverVersion", "%s", "");
	return parse_version(text, ret_version);
}

enum vg_status vg_system_nvml_version(struct vg_system_version *ret_version)
{
	VG_ENTRY();
	char text[NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE];
	const struct vg_nvml *nvml;

	SYSTEM_NEEDED(ret_version);
	SYSTEM_TRY(system_nvml_open(&nvml));
	nvmlReturn_t result = nvml->nvmlSystemGetNVMLVersion(text, sizeof text);
	if (result)
		return system_nvml_failed(result, "nvmlSystemGetNVMLVersion", "%s", "");
	return parse_version(text, ret_version);
}

enum vg_status vg_system_driver_branch(char *ret_branch, size_t capacity)
{
	VG_ENTRY();
	nvmlSystemDriverBranchInfo_v1_t info = {.version = nvmlSystemDriverBranchInfo_v1};
	const struct vg_nvml *nvml;

	SYSTEM_NEEDED(ret_branch);
	SYSTEM_TRY(system_nvml_open(&nvml));
	nvmlReturn_t result = nvml->nvmlSystemGetDriverBranch(&info, sizeof info.branch);
	if (result)
		return system_nvml_failed(result, "nvmlSystemGetDriverBranch", "%s", "");
	return system_copy_text(ret_branch, capacity, info.branch);
}

// Lists the processes first, since NVML knows a process's name only after it has listed the process. Ignores failures.
static void list_processes(const struct vg_nvml *nvml)
{
	nvmlProcessInfo_t infos[512];
	unsigned devices = 0;
	nvmlDevice_t handle;

	(void)nvml->nvmlDeviceGetCount_v2(&devices);
	for (unsigned i = 0; i < devices; i++) {
		unsigned count = sizeof infos / sizeof *infos;
		if (nvml->nvmlDeviceGetHandleByIndex_v2(i, &handle) == NVML_SUCCESS)
			(void)nvml->nvmlDeviceGetComputeRunningProcesses_v3(handle, &count, infos);
	}
}

enum vg_status vg_system_process_name(pid_t pid, char *ret_name, size_t capacity)
{
	VG_ENTRY();
	char name[4096];
	const struct vg_nvml *nvml;

	SYSTEM_NEEDED(ret_name);
	if (pid < 1)
		return vg_fail(VG_INVALID, 0, "pid %d: a process has a positive one", (int)pid);
	if (capacity == 0)
		return vg_fail(VG_INVALID, 0, "a name of 0 bytes: there is no room for its end");
	SYSTEM_TRY(system_nvml_open(&nvml));
	list_processes(nvml);
	// NVML truncates a longer name without an error.
	nvmlReturn_t result = nvml->nvmlSystemGetProcessName((unsigned)pid, name, sizeof name);
	if (result)
		return system_nvml_failed(result, "nvmlSystemGetProcessName", "process %d", (int)pid);
	name[sizeof name - 1] = '\0';
	return system_copy_text(ret_name, capacity, name);
}
