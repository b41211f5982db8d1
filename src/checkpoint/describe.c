#include "checkpoint/describe.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/size.h"
#include "base/status.h"
#include "checkpoint/build_id.h"
#include "checkpoint/image.h"
#include "virgate/gpu.h"
#include "virgate/system.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { MOST_GPUS = 64, MOST_PROCESSES = 1024 };

static void driver_text(char *text, size_t capacity)
{
	struct vg_system_version version;
	size_t length = 0;

	text[0] = '\0';
	if (vg_system_kernel_driver_version(&version))
		return;
	for (unsigned i = 0; i < version.count && length < capacity; i++)
		length += (size_t)snprintf(text + length, capacity - length, i ? ".%02u" : "%u", version.part[i]);
}

// ---- writing -----------------------------------------------------------------------------------------

static bool in_tree(const struct tree *tree, pid_t pid)
{
	for (size_t i = 0; i < tree->count; i++)
		if (tree->processes[i].pid == pid)
			return true;
	return false;
}

// What the tree holds of a GPU. False: the driver does not say.
static bool held(const struct tree *tree, struct vg_gpu *gpu, uint64_t *ret_bytes)
{
	static struct vg_gpu_process processes[MOST_PROCESSES];
	size_t count;

	*ret_bytes = 0;
	if (vg_gpu_processes(gpu, processes, MOST_PROCESSES, &count))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!in_tree(tree, processes[i].pid))
			continue;
		if (!processes[i].memory_known)
			return false;
		*ret_bytes += processes[i].memory;
	}
	return true;
}

static json_t *describe_gpus(const struct tree *tree)
{
	struct vg_gpu *gpus[MOST_GPUS];
	json_t *array = json_array();
	size_t count;

	if (vg_gpu_all(gpus, MOST_GPUS, &count))
		return array; // a tree without CUDA, on a machine without a driver
	for (size_t i = 0; i < count; i++) {
		struct vg_gpu_memory memory = {0};
		struct vg_gpu_mig mig = {.mode = -1};
		int persistence = -1;
		uint64_t bytes;
		bool known = held(tree, gpus[i], &bytes);
		(void)vg_gpu_memory(gpus[i], &memory);
		(void)vg_gpu_persistence_mode(gpus[i], &persistence);
		(void)vg_gpu_mig(gpus[i], &mig);
		json_array_append_new(
			array, json_pack("{s:s, s:s, s:I, s:o, s:i, s:i}", "uuid", vg_gpu_uuid(gpus[i]), "name",
					 vg_gpu_name(gpus[i]), "memory", (json_int_t)memory.total, "held",
					 known ? json_integer((json_int_t)bytes) : json_null(), "persistence_mode",
					 persistence, "mig_mode", mig.mode));
	}
	return array;
}

static json_t *command_line(pid_t pid)
{
	char path[64], text[65536];
	json_t *words = json_array();

	snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
	ssize_t length = vg_file_read(path, text, sizeof text);
	for (ssize_t at = 0; at < length; at += (ssize_t)strlen(text + at) + 1) {
		json_t *word = json_string(text + at);
		json_array_append_new(words, word ? word : json_string("(not UTF-8)"));
	}
	return words;
}

static json_t *describe_process(const struct tree_process *process)
{
	char link[64], program[PATH_MAX] = "", build[BUILD_ID_TEXT];

	snprintf(link, sizeof link, "/proc/%d/exe", (int)process->pid);
	ssize_t length = readlink(link, program, sizeof program - 1);
	if (length > 0)
		program[length] = '\0';
	if (build_id_read(link, build))
		build[0] = '\0';
	return json_pack("{s:i, s:i, s:s, s:o, s:s, s:s, s:b}", "pid", (int)process->pid, "parent", (int)process->parent,
			 "command", process->command, "command_line", command_line(process->pid), "program", program,
			 "build_id", build, "cuda", process->cuda != NULL);
}

enum vg_status describe_dump(const struct tree *tree, const struct criu *criu, const char *function,
			     json_t **ret_description)
{
	json_t *processes = json_array(), *roots = json_array();
	struct utsname kernel;
	char driver[64];

	if (uname(&kernel) < 0)
		return vg_fail(VG_SYSTEM, errno, function, "uname: %s", strerror(errno));
	driver_text(driver, sizeof driver);
	for (size_t i = 0; i < tree->count; i++)
		json_array_append_new(processes, describe_process(&tree->processes[i]));
	for (size_t i = 0; i < tree->root_count; i++)
		json_array_append_new(roots, json_integer(tree->processes[i].pid));
	*ret_description = json_pack("{s:i, s:f, s:{s:s, s:s}, s:s, s:s, s:o, s:o, s:o}", "version", IMAGE_VERSION, "created",
				     (double)vg_clock_realtime_ns() / 1e9, "kernel", "release", kernel.release, "machine",
				     kernel.machine, "driver", driver, "criu", criu->version, "roots",
				     roots, "gpus", describe_gpus(tree), "processes", processes);
	if (!*ret_description)
		return vg_fail(VG_NO_MEMORY, 0, function, "no memory for an image's description");
	return VG_OK;
}

enum vg_status describe_refuse_tenants(const struct tree *tree, const char *function)
{
	for (size_t i = 0; i < tree->count; i++) {
		char path[64], *line = NULL;
		size_t capacity = 0;
		bool tenant = false;
		snprintf(path, sizeof path, "/proc/%d/maps", (int)tree->processes[i].pid);
		FILE *file = fopen(path, "re");
		while (file && !tenant && getline(&line, &capacity, file) > 0)
			tenant = strstr(line, "/libvirgate-cuda.so") != NULL;
		free(line);
		if (file)
			fclose(file);
		if (tenant)
			return vg_fail(VG_UNSUPPORTED, 0, function,
				       "process %d (%s) runs inside a vGPU: programs that do cannot be dumped yet",
				       (int)tree->processes[i].pid, tree->processes[i].command);
	}
	return VG_OK;
}

// ---- reading -----------------------------------------------------------------------------------------

static enum vg_status check_machine(const json_t *description, const char *function)
{
	const char *machine, *driver, *release;
	struct utsname kernel;
	char here[64];

	if (json_unpack((json_t *)description, "{s:{s:s, s:s}, s:s}", "kernel", "release", &release, "machine", &machine,
			"driver", &driver))
		return vg_fail(VG_INTEGRITY, 0, function, IMAGE_DESCRIPTION " says nothing of kernel and driver");
	driver_text(here, sizeof here);
	if (uname(&kernel) == 0 && strcmp(machine, kernel.machine) != 0)
		return vg_fail(VG_UNSUPPORTED, 0, function, "the image is of a machine %s, and this is %s", machine,
			       kernel.machine);
	if (strcmp(driver, here) != 0)
		return vg_fail(VG_UNSUPPORTED, 0, function,
			       "the image is of driver %s, and here is %s: the driver restores only what it wrote itself",
			       *driver ? driver : "(none)", *here ? here : "(none)");
	return VG_OK;
}

static enum vg_status taken(int pid, const char *command, const char *by, const char *function)
{
	char path[64], text[8192];

	snprintf(path, sizeof path, "/proc/%d/status", pid);
	const char *ended = vg_file_read(path, text, sizeof text) > 0 ? strstr(text, "\nState:\tZ") : NULL;
	const char *parent = ended ? strstr(ended, "\nPPid:\t") : NULL;
	if (parent)
		return vg_fail(VG_EXISTS, 0, function,
			       "pid %d (%s) is taken: %s has ended, but its parent, process %d, does not wait for it: "
			       "end the parent, or run an init that waits (docker run --init)",
			       pid, command, by, atoi(parent + 7));
	return vg_fail(VG_EXISTS, 0, function, "pid %d (%s) is taken, by %s: end it, or restore in a new pid namespace", pid,
		       command, by);
}

static enum vg_status check_process(const json_t *process, const char *function)
{
	const char *program, *build, *command;
	char now[BUILD_ID_TEXT], other[64], path[64];
	int pid;

	if (json_unpack((json_t *)process, "{s:i, s:s, s:s, s:s}", "pid", &pid, "command", &command, "program", &program,
			"build_id", &build))
		return vg_fail(VG_INTEGRITY, 0, function, IMAGE_DESCRIPTION " describes a process by halves");
	snprintf(path, sizeof path, "/proc/%d/comm", pid);
	if (vg_file_read(path, other, sizeof other) > 0) {
		other[strcspn(other, "\n")] = '\0';
		return taken(pid, command, other, function);
	}
	int r = build_id_read(program, now);
	if (r)
		return vg_fail(VG_NOT_FOUND, -r, function, "the program %s of process %d: %s", program, pid, strerror(-r));
	if (strcmp(build, now) != 0)
		return vg_fail(VG_INTEGRITY, 0, function, "the program %s of process %d is another build: %.16s, not %.16s",
			       program, pid, *now ? now : "(none)", *build ? build : "(none)");
	return VG_OK;
}

static const char *target(const char *uuid, const struct vg_process_gpu_pair *gpus, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(gpus[i].old_uuid, uuid) == 0)
			return gpus[i].new_uuid;
	return count ? NULL : uuid;
}

static enum vg_status check_gpu(const json_t *gpu, const struct vg_process_gpu_pair *gpus, size_t count,
				const char *function)
{
	const char *uuid, *name;
	struct vg_gpu_memory memory;
	struct vg_gpu *here;
	char text[2][VG_SIZE_TEXT];

	if (json_unpack((json_t *)gpu, "{s:s, s:s}", "uuid", &uuid, "name", &name))
		return vg_fail(VG_INTEGRITY, 0, function, IMAGE_DESCRIPTION " describes a GPU by halves");
	const char *wanted = target(uuid, gpus, count);
	if (!wanted)
		return vg_fail(VG_INVALID, 0, function, "the map says nothing of %s (%s): it must name every GPU of the image",
			       uuid, name);
	json_int_t held = json_integer_value(json_object_get(gpu, "held"));
	if (held == 0 && count == 0)
		return VG_OK; // it was there, and not used
	if (vg_gpu_by_uuid(wanted, &here))
		return vg_fail(VG_NOT_FOUND, 0, function, "there is no GPU %s here", wanted);
	if (strcmp(name, vg_gpu_name(here)) != 0)
		return vg_fail(VG_UNSUPPORTED, 0, function, "%s is a %s, and the image is of a %s", wanted, vg_gpu_name(here),
			       name);
	if (vg_gpu_memory(here, &memory) == VG_OK && memory.free < (uint64_t)held) {
		enum vg_status status = vg_fail(VG_INSUFFICIENT, 0, function, "%s has %s free, and the image takes %s", wanted,
						vg_size_format(memory.free, text[0]),
						vg_size_format((uint64_t)held, text[1]));
		vg_fail_amounts((uint64_t)held, memory.free);
		return status;
	}
	return VG_OK;
}

enum vg_status describe_check(const json_t *description, const struct vg_process_gpu_pair *gpus, size_t gpu_count,
			      const char *function)
{
	enum vg_status status = check_machine(description, function);
	json_t *one;
	size_t i;

	json_array_foreach(json_object_get(description, "processes"), i, one)
		if (status == VG_OK)
			status = check_process(one, function);
	json_array_foreach(json_object_get(description, "gpus"), i, one)
		if (status == VG_OK)
			status = check_gpu(one, gpus, gpu_count, function);
	return status;
}
