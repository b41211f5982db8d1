// Checks the GPUs and their driver, through NVML and the functions of the driver. Creates no CUDA context.
#include "checkpoint/doctor/doctor.h"

#include "base/size.h"
#include "driver/driver.h"
#include "virgate/gpu.h"
#include "virgate/status.h"
#include "virgate/system.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptor.h"

enum { LEAST_DRIVER = 570, MAP_DRIVER = 580 };

void doctor_driver_version(struct doctor_check *check, const struct vg_system_version *driver)
{
	const unsigned *part = driver->part;
	char text[64];
	int length = 0;

	for (unsigned i = 0; i < driver->count && i < 6; i++)
		length += snprintf(text + length, sizeof text - (size_t)length, i ? ".%02u" : "%u", part[i]);
	if (part[0] < LEAST_DRIVER) {
		doctor_say(check, DOCTOR_FAILED, "%s: has no process checkpoints", text);
		doctor_fix(check, "install driver %d or later", LEAST_DRIVER);
	} else if (part[0] < MAP_DRIVER) {
		doctor_say(check, DOCTOR_WARNING, "%s: restores only onto the GPU that a process had", text);
		doctor_fix(check, "driver %d or later restores onto another GPU", MAP_DRIVER);
	} else {
		doctor_say(check, DOCTOR_OK, "%s: restores also onto another GPU", text);
	}
}

static void check_version(struct doctor_report *report)
{
	struct doctor_check *check = doctor_check(report, DOCTOR_CUDA, "driver");
	struct vg_system_version driver;

	if (vg_system_kernel_driver_version(&driver) == VG_OK) {
		doctor_driver_version(check, &driver);
		return;
	}
	doctor_say(check, DOCTOR_FAILED, "%s", vg_last_error()->text);
	doctor_fix(check, "install NVIDIA's driver, %d or later, and load its modules", LEAST_DRIVER);
}

static void check_entries(struct doctor_report *report)
{
	struct doctor_check *check = doctor_check(report, DOCTOR_CUDA, "checkpoint calls");
	const struct vg_driver *driver;
	char problem[256];

	if (vg_driver_load(&driver, problem, sizeof problem)) {
		doctor_say(check, DOCTOR_FAILED, "%s", problem);
		doctor_fix(check, "install the user part of NVIDIA's driver (libcuda.so.1)");
		return;
	}
	static const int wanted[] = {VG_ENTRY_cuCheckpointProcessLock, VG_ENTRY_cuCheckpointProcessCheckpoint,
				     VG_ENTRY_cuCheckpointProcessRestore, VG_ENTRY_cuCheckpointProcessUnlock,
				     VG_ENTRY_cuCheckpointProcessGetState};
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
		if (driver->missing[wanted[i]]) {
			doctor_say(check, DOCTOR_FAILED, "%s lacks them", driver->path);
			doctor_fix(check, "a container's libcuda.so.1 must be of driver %d or later too", LEAST_DRIVER);
			return;
		}
	}
	doctor_say(check, DOCTOR_OK, "in %s%s", driver->path, driver->simulated ? " (simulated)" : "");
}

void doctor_driver(struct doctor_report *report)
{
	check_version(report);
	check_entries(report);
}

static void check_capability(struct doctor_check *check, struct vg_gpu *gpu)
{
	int major, minor;

	if (vg_gpu_compute_capability(gpu, &major, &minor)) {
		doctor_say(check, DOCTOR_WARNING, "%s: %s", vg_gpu_name(gpu), vg_last_error()->text);
		doctor_fix(check, "nvidia-smi -q shows what it can tell; a GPU that is lost takes a reset");
		return;
	}
	bool enough = major * 10 + minor >= 75;
	doctor_say(check, enough ? DOCTOR_OK : DOCTOR_FAILED, "%s, compute capability %d.%d", vg_gpu_name(gpu), major,
		   minor);
	if (!enough)
		doctor_fix(check, "use a GPU of compute capability 7.5 or later");
}

static void check_persistence(struct doctor_check *check, struct vg_gpu *gpu)
{
	int enabled;

	if (vg_gpu_persistence_mode(gpu, &enabled)) {
		doctor_say(check, DOCTOR_NOT_APPLICABLE, "not known: %s", vg_last_error()->text);
	} else if (enabled) {
		doctor_say(check, DOCTOR_OK, "on");
	} else {
		doctor_say(check, DOCTOR_WARNING, "off: every restore starts the driver again");
		doctor_fix(check, "nvidia-smi -pm 1, or run nvidia-persistenced");
	}
}

static void check_mig(struct doctor_check *check, struct vg_gpu *gpu)
{
	struct vg_gpu_mig mig;

	if (vg_gpu_mig(gpu, &mig)) {
		doctor_say(check, DOCTOR_NOT_APPLICABLE, "not known: %s", vg_last_error()->text);
	} else if (mig.mode < 0) {
		doctor_say(check, DOCTOR_NOT_APPLICABLE, "this GPU has none");
	} else if (mig.mode) {
		doctor_say(check, DOCTOR_FAILED, "on: the driver checkpoints no process that uses a part of a GPU");
		doctor_fix(check, "nvidia-smi -mig 0, when nobody uses the GPU");
	} else {
		doctor_say(check, DOCTOR_OK, "off");
	}
}

static void check_memory(struct doctor_check *check, struct vg_gpu *gpu, uint64_t *used)
{
	char text[2][VG_SIZE_TEXT];
	struct vg_gpu_memory memory;

	if (vg_gpu_memory(gpu, &memory)) {
		doctor_say(check, DOCTOR_NOT_APPLICABLE, "not known: %s", vg_last_error()->text);
		return;
	}
	*used += memory.used;
	doctor_say(check, DOCTOR_OK, "%s of %s in use", vg_size_format(memory.used, text[0]),
		   vg_size_format(memory.total, text[1]));
}

// Returns whether a process with this name runs. The kernel truncates names (comm) to 15 characters.
static bool is_running(const char *comm)
{
	DIR *directory = opendir("/proc");
	struct dirent *entry;
	bool found = false;

	while (directory && !found && (entry = readdir(directory))) {
		char path[300], text[32];
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		snprintf(path, sizeof path, "/proc/%s/comm", entry->d_name);
		ssize_t length = vg_file_read(path, text, sizeof text);
		found = length > 0 && strncmp(text, comm, strlen(comm)) == 0;
	}
	if (directory)
		closedir(directory);
	return found;
}

static void check_mps(struct doctor_report *report)
{
	struct doctor_check *check = doctor_check(report, DOCTOR_CUDA, "MPS");

	if (is_running("nvidia-cuda-mps")) {
		doctor_say(check, DOCTOR_WARNING, "runs: its clients cannot be checkpointed");
		doctor_fix(check, "start the programs to checkpoint without CUDA_MPS_PIPE_DIRECTORY, or end MPS: "
				  "echo quit | nvidia-cuda-mps-control");
	} else {
		doctor_say(check, DOCTOR_OK, "does not run");
	}
}

void doctor_devices(struct doctor_report *report, uint64_t *ret_used)
{
	struct vg_gpu *gpus[64];
	size_t count = 0;

	*ret_used = 0;
	enum vg_status status = vg_gpu_all(gpus, sizeof gpus / sizeof *gpus, &count);
	if (status || count == 0) {
		struct doctor_check *check = doctor_check(report, DOCTOR_CUDA, "GPUs");
		doctor_say(check, DOCTOR_FAILED, "%s", status ? vg_last_error()->text : "the driver sees none");
		doctor_fix(check, "a container needs /dev/nvidia* and the driver's libraries (--gpus all)");
		return;
	}
	for (size_t i = 0; i < count; i++) {
		char name[48];
		snprintf(name, sizeof name, "GPU %zu", i);
		check_capability(doctor_check(report, DOCTOR_CUDA, name), gpus[i]);
		snprintf(name, sizeof name, "GPU %zu memory", i);
		check_memory(doctor_check(report, DOCTOR_CUDA, name), gpus[i], ret_used);
		snprintf(name, sizeof name, "GPU %zu persistence mode", i);
		check_persistence(doctor_check(report, DOCTOR_CUDA, name), gpus[i]);
		snprintf(name, sizeof name, "GPU %zu MIG", i);
		check_mig(doctor_check(report, DOCTOR_CUDA, name), gpus[i]);
	}
	check_mps(report);
}
