// Checks CRIU, the kernel, the rights of this user, and whether host memory has room for device memory.
#include "checkpoint/doctor/doctor.h"

#include "base/descriptor.h"
#include "base/size.h"
#include "checkpoint/criu/criu.h"
#include "checkpoint/process/host_memory.h"
#include "checkpoint/process/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { CAP_PCAP = 8, CAP_PTRACE = 19, CAP_ADMIN = 21, CAP_RESTORE = 40 }; // capabilities: bits in /proc/self/status

static unsigned long long read_capabilities(const char *set)
{
	char text[8192];

	if (vg_file_read("/proc/self/status", text, sizeof text) < 0)
		return 0;
	const char *line = strstr(text, set);
	return line ? strtoull(line + strlen(set), NULL, 16) : 0;
}

static bool has_capability(int capability)
{
	return read_capabilities("\nCapEff:") >> capability & 1;
}

// Checks the version of CRIU. Returns false if the program is not CRIU, or prints no version.
static bool check_version(struct doctor_check *check, const char *path)
{
	const char *const argv[] = {path, "--version", NULL};
	char output[512], text[32];
	struct tool_run run = {.argv = argv, .timeout_ms = 10000, .output = output, .capacity = sizeof output};
	unsigned least = criu_least();

	int r = tool_run(&run);
	unsigned version = r == 0 ? criu_version(output, text, sizeof text) : 0;
	output[strcspn(output, "\n")] = '\0';
	if (!version) {
		doctor_say(check, DOCTOR_FAILED, "%s: --version %s%.100s", path,
			   r == -ETIMEDOUT ? "took more than 10 s"
			   : r < 0	   ? strerror(-r)
					   : "says: ",
			   r < 0 ? "" : output);
		doctor_fix(check, "install CRIU %u.%u or later, or name it in VIRGATE_CRIU", least / 10000,
			   least / 100 % 100);
	} else if (version < least) {
		doctor_say(check, DOCTOR_FAILED, "%u.%u at %s", version / 10000, version / 100 % 100, path);
		doctor_fix(check, "this kernel takes CRIU %u.%u or later; VIRGATE_CRIU names another one",
			   least / 10000, least / 100 % 100);
	} else {
		doctor_say(check, DOCTOR_OK, "%u.%u at %s", version / 10000, version / 100 % 100, path);
	}
	return version != 0;
}

// Reports whether CRIU's CUDA plugin is installed. Virgate starts CRIU without this plugin, which hides errors when it
// resumes processes, and would interfere with Virgate's own steps.
static void check_plugin(struct doctor_check *check, const char *criu)
{
	const char *named = secure_getenv("CRIU_LIBS_DIR");
	char beside[PATH_MAX], path[PATH_MAX + 32];
	const char *directories[] = {named ? named : "",
				     beside,
				     "/usr/lib/criu",
				     "/usr/local/lib/criu",
				     "/usr/lib64/criu",
				     "/usr/libexec/criu",
				     "/usr/lib/x86_64-linux-gnu/criu"};

	snprintf(beside, sizeof beside, "%s", criu);
	for (int i = 0; i < 2 && strrchr(beside, '/'); i++)
		*strrchr(beside, '/') = '\0';
	strncat(beside, "/lib/criu", sizeof beside - strlen(beside) - 1);
	for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
		if (!*directories[i])
			continue;
		snprintf(path, sizeof path, "%s/cuda_plugin.so", directories[i]);
		if (access(path, F_OK) == 0) {
			doctor_say(check, DOCTOR_OK, "%.150s, which virgate starts CRIU without", path);
			return;
		}
	}
	doctor_say(check, DOCTOR_OK, "not installed, and not needed");
}

static void check_itself(struct doctor_check *check, const char *path)
{
	const char *const argv[] = {path,	"check",	"--no-default-config",
				    "--libdir", "/nonexistent", criu_is_limited() ? "--unprivileged" : NULL,
				    NULL};
	char output[4096];
	struct tool_run run = {.argv = argv, .timeout_ms = 30000, .output = output, .capacity = sizeof output};

	if (!has_capability(CAP_RESTORE) && !has_capability(CAP_ADMIN)) {
		doctor_say(check, DOCTOR_NOT_APPLICABLE, "needs the capabilities below");
		return;
	}
	int r = tool_run(&run);
	char *line = strstr(output, "Error");
	if (!line)
		line = output;
	line[strcspn(line, "\n")] = '\0';
	if (r == 0) {
		doctor_say(check, DOCTOR_OK, "the kernel has what CRIU needs");
	} else {
		doctor_say(check, DOCTOR_FAILED, "%s%.150s", r == -ETIMEDOUT ? "took more than 30 s: " : "", line);
		doctor_fix(check, "%s check says all of it", path);
	}
}

void doctor_criu(struct doctor_report *report)
{
	struct doctor_check *check = doctor_check(report, DOCTOR_CUDA, "CRIU");
	unsigned least = criu_least();
	const char *named = secure_getenv("VIRGATE_CRIU");
	char path[PATH_MAX];

	int r = tool_find("VIRGATE_CRIU", "criu", path);
	if (r) {
		if (named && *named)
			doctor_say(check, DOCTOR_FAILED, "VIRGATE_CRIU is %.120s, which %s", named,
				   r == -EACCES ? "is not a program to run" : "is not there");
		else
			doctor_say(check, DOCTOR_FAILED, "%s",
				   r == -EACCES ? "in PATH, but not to be run by this user" : "not in PATH");
		doctor_fix(check, "install CRIU %u.%u or later, or name it in VIRGATE_CRIU", least / 10000,
			   least / 100 % 100);
		return;
	}
	if (!check_version(check, path))
		return;
	check_plugin(doctor_check(report, DOCTOR_CUDA, "CRIU's CUDA plugin"), path);
	check_itself(doctor_check(report, DOCTOR_CUDA, "CRIU check"), path);
}

static void check_capability(struct doctor_report *report, int capability, const char *name)
{
	struct doctor_check *check = doctor_check(report, DOCTOR_CUDA, name);

	if (has_capability(capability) || (capability == CAP_RESTORE && has_capability(CAP_ADMIN))) {
		doctor_say(check, DOCTOR_OK, "%s", has_capability(capability) ? "held" : "held, by CAP_SYS_ADMIN");
		return;
	}
	doctor_say(check, DOCTOR_FAILED, "not held by this user");
	doctor_fix(
		check,
		"run as root, or give it to virgate and CRIU: setcap cap_checkpoint_restore,cap_sys_ptrace+eip FILE");
}

// Checks for CAP_SETPCAP. CRIU needs this capability to restore the capability bounding set of a process, even if the
// process has no capabilities.
static void check_bounding(struct doctor_report *report)
{
	struct doctor_check *check = doctor_check(report, DOCTOR_CUDA, "CAP_SETPCAP");
	char text[32];

	int last = vg_file_read("/proc/sys/kernel/cap_last_cap", text, sizeof text) < 0 ? -1 : atoi(text);
	if (has_capability(CAP_PCAP)) {
		doctor_say(check, DOCTOR_OK, "held");
	} else if (last < 0 || last > 62 || read_capabilities("\nCapBnd:") == (1ull << (last + 1)) - 1) {
		doctor_say(check, DOCTOR_NOT_APPLICABLE, "the bounding set is whole");
	} else {
		doctor_say(check, DOCTOR_FAILED,
			   "not held, and the bounding set is not whole: CRIU can dump and not restore");
		doctor_fix(
			check,
			"add cap_setpcap to the capabilities above, or start the container with all (--cap-add ALL)");
	}
}

static void check_ptrace(struct doctor_report *report)
{
	struct doctor_check *check = doctor_check(report, DOCTOR_CUDA, "ptrace scope");
	char text[32];

	if (vg_file_read("/proc/sys/kernel/yama/ptrace_scope", text, sizeof text) < 0) {
		doctor_say(check, DOCTOR_NOT_APPLICABLE, "this kernel has no Yama");
		return;
	}
	int scope = atoi(text);
	if (scope >= 3) {
		doctor_say(check, DOCTOR_FAILED, "%d: nobody may attach to processes", scope);
		doctor_fix(check, "sysctl kernel.yama.ptrace_scope=1 (3 stays until a reboot)");
	} else if (scope > 0 && !has_capability(CAP_PTRACE)) {
		doctor_say(check, DOCTOR_WARNING, "%d: only %s", scope,
			   scope == 1 ? "parents attach" : "CAP_SYS_PTRACE attaches");
		doctor_fix(check, "run as root, or sysctl kernel.yama.ptrace_scope=0");
	} else {
		doctor_say(check, DOCTOR_OK, "%d", scope);
	}
}

void doctor_kernel(struct doctor_report *report)
{
	struct doctor_check *check = doctor_check(report, DOCTOR_CUDA, "kernel");
	struct utsname name;

	if (uname(&name) < 0) {
		doctor_say(check, DOCTOR_FAILED, "uname: %s", strerror(errno));
		doctor_fix(check, "let this user call uname (seccomp)");
	} else if (access("/proc/self/map_files", F_OK) || access("/proc/sys/kernel/ns_last_pid", F_OK)) {
		doctor_say(check, DOCTOR_FAILED, "%.100s without CONFIG_CHECKPOINT_RESTORE", name.release);
		doctor_fix(check, "run a kernel that is built with CONFIG_CHECKPOINT_RESTORE");
	} else {
		doctor_say(check, DOCTOR_OK, "%.100s, with CONFIG_CHECKPOINT_RESTORE", name.release);
	}
	check_capability(report, CAP_RESTORE, "CAP_CHECKPOINT_RESTORE");
	check_capability(report, CAP_PTRACE, "CAP_SYS_PTRACE");
	check_bounding(report);
	check_ptrace(report);
}

static void compare_room(struct doctor_check *check, uint64_t have, uint64_t used, const char *where, const char *fix)
{
	char text[2][VG_SIZE_TEXT];

	bool enough = have >= used;
	doctor_say(check, enough ? DOCTOR_OK : DOCTOR_WARNING, "%s free%.80s, %s on the GPUs",
		   vg_size_format(have, text[0]), where, vg_size_format(used, text[1]));
	if (!enough)
		doctor_fix(check, "%s", fix);
}

void doctor_room(struct doctor_report *report, const char *directory, uint64_t used)
{
	struct doctor_check *check = doctor_check(report, DOCTOR_CUDA, "host memory");
	char where[128];
	struct statvfs disk;
	struct free_memory memory;

	if (host_memory_find_free(getpid(), &memory)) {
		compare_room(
			check, memory.bytes, used, memory.by_group ? " in this control group" : "",
			memory.by_group
				? "a process's device memory goes to host memory: checkpoint one after the other, or "
				  "raise the group's limit (memory.max)"
				: "a process's device memory goes to host memory: checkpoint one after the other, or "
				  "free memory");
	} else {
		doctor_say(check, DOCTOR_WARNING, "not known: /proc/meminfo has no MemAvailable");
		doctor_fix(check, "mount /proc as the kernel gives it");
	}
	check = doctor_check(report, DOCTOR_CUDA, "disk");
	if (statvfs(directory, &disk) < 0) {
		doctor_say(check, DOCTOR_FAILED, "%.100s: %s", directory, strerror(errno));
		doctor_fix(check, "name a directory for images with --dir");
		return;
	}
	snprintf(where, sizeof where, " at %s", directory);
	compare_room(
		check, (uint64_t)disk.f_bavail * disk.f_frsize, used, where,
		"an uncompressed image is as large as the memory of the process: name another directory with --dir, "
		"or compress");
}
