// Checks that the quota is enforced for programs that `virgate run` starts.
#include "checkpoint/doctor/doctor.h"

#include "base/descriptor.h"
#include "base/hint.h"
#include "checkpoint/process/tool.h"
#include "driver/driver.h"
#include "node/node.h"
#include "node/paths.h"
#include "pager/host_file.h"
#include "virgate/vgpu.h"

#include <errno.h>
#include <linux/magic.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

// Returns this process's environment, with only the library `preload` in LD_PRELOAD. The caller frees it with free().
// NULL: no memory.
static const char **environment_with(const char *preload)
{
	size_t count = 0, kept = 0;

	while (environ[count])
		count++;
	const char **result = calloc(count + 2, sizeof *result);
	if (!result)
		return NULL;
	for (size_t i = 0; i < count; i++)
		if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0)
			result[kept++] = environ[i];
	result[kept] = preload;
	return result;
}

// Checks whether the interposer can be preloaded. If it cannot, the dynamic linker prints a message on standard error
// and continues, so this function looks for a message.
static void check_preload(struct doctor_check *check, const char *library)
{
	char program[PATH_MAX], preload[PATH_MAX + 16], output[512] = "";
	const char *const argv[] = {program, NULL};

	if (tool_find(NULL, "true", program)) {
		doctor_say(check, DOCTOR_WARNING, "%.120s; not tried: there is no program true in PATH", library);
		doctor_fix(check, "add the directory of the usual programs to PATH");
		return;
	}
	snprintf(preload, sizeof preload, "LD_PRELOAD=%s", library);
	const char **environment = environment_with(preload);
	int r = !environment ? -ENOMEM
			     : tool_run(&(struct tool_run){.argv = argv,
							   .environment = environment,
							   .timeout_ms = 10000,
							   .output = output,
							   .capacity = sizeof output});
	free(environment);
	output[strcspn(output, "\n")] = '\0';
	if (r == 0 && !*output) {
		doctor_say(check, DOCTOR_OK, "%.180s", library);
	} else {
		doctor_say(check, DOCTOR_FAILED, "%.60s does not load: %.100s", library, r < 0 ? strerror(-r) : output);
		doctor_fix(check, "install Virgate for this machine's C library (glibc 2.34 or later, x86-64)");
	}
}

static void check_part(struct doctor_report *report, const char *name, enum vg_part part, const char *libdir,
		       bool library)
{
	struct doctor_check *check = doctor_check(report, DOCTOR_QUOTA, name);
	char path[PATH_MAX];

	if (!vg_paths_find(part, libdir ? libdir : "", path)) {
		doctor_say(check, DOCTOR_FAILED, "%s is not installed%s%.100s", vg_paths_file(part),
			   libdir && *libdir ? " in " : "", libdir ? libdir : "");
		doctor_fix(check, "install all of Virgate, or name its directory in VIRGATE_LIBDIR");
	} else if (library) {
		check_preload(check, path);
	} else {
		doctor_say(check, DOCTOR_OK, "%.180s", path);
	}
}

static void check_driver(struct doctor_report *report)
{
	struct doctor_check *check = doctor_check(report, DOCTOR_QUOTA, "driver library");
	const struct vg_driver *driver;
	char problem[256];

	if (vg_driver_load(&driver, problem, sizeof problem)) {
		doctor_say(check, DOCTOR_FAILED, "%.180s", problem);
		doctor_fix(check, "install NVIDIA's driver, or try the simulated GPU with --sim");
	} else {
		doctor_say(check, DOCTOR_OK, "%.160s%s", driver->path, driver->simulated ? " (simulated)" : "");
	}
}

// Returns whether the file system is remote, and thus unsuitable for ledgers: each tenant maps its ledger and writes to
// it with every allocation.
static bool is_remote(long type)
{
	return type == NFS_SUPER_MAGIC || type == SMB_SUPER_MAGIC || type == (long)SMB2_SUPER_MAGIC ||
	       type == FUSE_SUPER_MAGIC || type == CEPH_SUPER_MAGIC || type == AFS_SUPER_MAGIC;
}

static void check_directory(struct doctor_report *report, const struct vg_node *node)
{
	struct doctor_check *check = doctor_check(report, DOCTOR_QUOTA, "ledger directory");
	struct statfs system;

	if (statfs(node->runtime_dir, &system) < 0 && errno == ENOENT) {
		doctor_say(check, DOCTOR_OK, "%.120s, made by the first use", node->runtime_dir);
	} else if (statfs(node->runtime_dir, &system) < 0) {
		doctor_say(check, DOCTOR_FAILED, "%.120s: %s", node->runtime_dir, strerror(errno));
		doctor_fix(check, "name a directory of yours in VIRGATE_RUNTIME_DIR");
	} else if (is_remote(system.f_type)) {
		doctor_say(check, DOCTOR_WARNING, "%.120s is on a network or user-space file system",
			   node->runtime_dir);
		doctor_fix(check,
			   "name a directory on a local file system in VIRGATE_RUNTIME_DIR; best is a tmpfs that "
			   "outlives your sessions");
	} else {
		bool in_memory = system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC;
		doctor_say(check, DOCTOR_OK, "%.160s%s", node->runtime_dir, in_memory ? "" : " (on a disk)");
	}
}

static void check_vgpus(struct doctor_report *report, struct vg_node *node)
{
	struct doctor_check *check = doctor_check(report, DOCTOR_QUOTA, "vGPUs");
	struct vg_vgpu_list *list;
	size_t damaged = 0;
	const char *first = "";
	char sim[VG_HINT_SIM];

	vg_hint_sim(node->simulate, sim);
	if (vg_vgpu_list(node, &list)) {
		doctor_say(check, DOCTOR_FAILED, "%.180s", vg_last_error()->text);
		doctor_fix(check, "virgate shutdown%s; what runs goes on, and the next use starts another", sim);
		return;
	}
	for (size_t i = 0; i < list->count; i++) {
		if (list->vgpus[i].damaged && damaged++ == 0)
			first = list->vgpus[i].name;
	}
	if (damaged) {
		if (damaged == 1)
			doctor_say(check, DOCTOR_FAILED, "the ledger of %s is damaged", first);
		else
			doctor_say(check, DOCTOR_FAILED, "the ledgers of %s and %zu more are damaged", first,
				   damaged - 1);
		doctor_fix(check, "end its programs, then virgate rm%s %s and create it again", sim, first);
	} else {
		doctor_say(check, DOCTOR_OK, "%zu", list->count);
	}
	vg_vgpu_list_free(list);
}

static void check_daemon(struct doctor_report *report, struct vg_node *node)
{
	struct doctor_check *check = doctor_check(report, DOCTOR_QUOTA, "daemon");
	char sim[VG_HINT_SIM];

	int fd = vg_node_connect(node);
	if (fd == -ENOENT || fd == -ECONNREFUSED) {
		doctor_say(check, DOCTOR_OK, "does not run; the first use starts it");
		return;
	}
	if (fd < 0) {
		doctor_say(check, DOCTOR_FAILED, "%.100s: %s", node->socket, strerror(-fd));
		doctor_fix(check, "ask who runs it for access, or use a daemon of your own: VIRGATE_RUNTIME_DIR");
		return;
	}
	close(fd);
	if (vg_node_ping(node)) {
		doctor_say(check, DOCTOR_FAILED, "%.180s", vg_last_error()->text);
		doctor_fix(check, "virgate shutdown%s; what runs goes on, and the next use starts another",
			   vg_hint_sim(node->simulate, sim));
		return;
	}
	doctor_say(check, DOCTOR_OK, "answers at %.150s", node->socket);
	check_vgpus(report, node);
}

// Counts the vGPUs that do not get their compute share. Describes the first of them in `text`.
static size_t find_unheld(struct vg_node *node, char text[160])
{
	struct vg_vgpu_list *list = NULL;
	int fd = vg_node_connect(node);
	size_t count = 0;

	if (fd < 0) // without a daemon there are no vGPUs
		return 0;
	close(fd);
	if (vg_vgpu_list(node, &list))
		return 0; // the check of the daemon reports this failure
	for (size_t i = 0; i < list->count; i++) {
		const struct vg_vgpu_info *vgpu = &list->vgpus[i];
		if (vgpu->share && vgpu->turns.known && !vgpu->turns.held && count++ == 0)
			snprintf(text, 160, "the share of %s is not being held: %s", vgpu->name, vgpu->turns.reason);
	}
	vg_vgpu_list_free(list);
	return count;
}

// Returns whether MPS is installed where the daemon looks for it. Assumes that the daemon has the environment of this
// process.
static bool has_mps(void)
{
	const char *named = getenv("VIRGATE_MPS_CONTROL");

	if (named && *named)
		return access(named, X_OK) == 0;
	return access("/usr/bin/nvidia-cuda-mps-control", X_OK) == 0 ||
	       access("/usr/local/bin/nvidia-cuda-mps-control", X_OK) == 0 ||
	       access("/usr/local/nvidia/bin/nvidia-cuda-mps-control", X_OK) == 0;
}

// Checks what compute shares need. A thread of the daemon gives the vGPUs their turns, and waits for all vGPUs of a GPU
// with one futex_waitv().
static void check_shares(struct doctor_report *report, struct vg_node *node)
{
	struct doctor_check *check = doctor_check(report, DOCTOR_QUOTA, "compute shares");
	char text[160] = "", sim[VG_HINT_SIM];

	if (syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) < 0 && errno == ENOSYS) {
		doctor_say(check, DOCTOR_WARNING,
			   "the kernel has no futex_waitv: the daemon polls every 0.1 ms instead");
		doctor_fix(check, "use Linux 5.16 or later, and allow futex_waitv in the container's seccomp profile");
		return;
	}
	size_t count = find_unheld(node, text);
	if (!count) {
		doctor_say(check, DOCTOR_OK, "a thread of the daemon gives turns to the vGPUs of each GPU; %s",
			   has_mps() ? "the mode mps is possible"
				     : "no mode mps, because there is no "
				       "nvidia-cuda-mps-control");
		return;
	}
	if (count > 1)
		doctor_say(check, DOCTOR_WARNING, "%s; and of %zu more", text, count - 1);
	else
		doctor_say(check, DOCTOR_WARNING, "%s", text);
	doctor_fix(check, "virgate ps%s shows all of them", vg_hint_sim(node->simulate, sim));
}

static void check_mps(struct doctor_report *report, const char *origin)
{
	struct doctor_check *check = doctor_check(report, DOCTOR_QUOTA, "mode mps");

	if (has_mps()) {
		doctor_say(check, DOCTOR_OK, "asked for by %.120s", origin);
		return;
	}
	doctor_say(check, DOCTOR_FAILED, "%.100s asks for it, but there is no nvidia-cuda-mps-control", origin);
	doctor_fix(check, "install the package of NVIDIA's driver that has it, or set sharing = time there");
}

// Finds the mount option `huge` of the file system in which evictable vGPUs keep their memory. Returns false if no file
// system is mounted there. ret_value: "never" without the option.
static bool find_huge(char *ret_value, size_t capacity)
{
	char strings[4096];
	struct mntent entry;
	bool is_mounted = false;
	FILE *mounts = setmntent("/proc/self/mounts", "re");

	// If several are mounted there, the last one is visible.
	while (mounts && getmntent_r(mounts, &entry, strings, sizeof strings)) {
		if (strcmp(entry.mnt_dir, PAGER_FILE_DIRECTORY) != 0)
			continue;
		const char *option = hasmntopt(&entry, "huge");
		const char *value = option && option[strlen("huge")] == '=' ? option + strlen("huge=") : "never";
		snprintf(ret_value, capacity, "%.*s", (int)strcspn(value, ","), value);
		is_mounted = true;
	}
	if (mounts)
		endmntent(mounts);
	return is_mounted;
}

// Checks whether evictable vGPUs get huge pages for the memory that they keep in the host.
static void check_pages(struct doctor_report *report)
{
	struct doctor_check *check = doctor_check(report, DOCTOR_QUOTA, "huge pages");
	char huge[32];

	if (!find_huge(huge, sizeof huge)) {
		doctor_say(check, DOCTOR_NOT_APPLICABLE, "no file system is mounted at " PAGER_FILE_DIRECTORY);
	} else if (strcmp(huge, "never") != 0) {
		doctor_say(check, DOCTOR_OK, PAGER_FILE_DIRECTORY " is mounted with huge=%s", huge);
	} else {
		doctor_say(check, DOCTOR_OK,
			   "none in " PAGER_FILE_DIRECTORY "; suspensions, dumps and migrations of evictable vGPUs are "
			   "faster after mount -o remount,huge=advise " PAGER_FILE_DIRECTORY);
	}
}

void doctor_quota(struct doctor_report *report, const struct doctor_options *options)
{
	check_driver(report);
	check_part(report, "interposer", VG_PART_CUDA, options->libdir, true);
	check_part(report, "interposer of NVML", VG_PART_NVML, options->libdir, true);
	check_part(report, "daemon's program", VG_PART_DAEMON, options->libdir, false);
	check_directory(report, options->node);
	check_daemon(report, options->node);
	check_shares(report, options->node);
	if (options->mps_origin)
		check_mps(report, options->mps_origin);
	check_pages(report);
}
