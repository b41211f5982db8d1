#include "checkpoint/criu/criu.h"

#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/image/locked_directory.h"
#include "checkpoint/process/tool.h"
#include "checkpoint/process/version.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { LEAST = 40000, NEW_KERNEL = 61300, LEAST_ON_NEW_KERNELS = 40100, MOST_ARGUMENTS = 40 };
#define SCRATCH "/tmp/virgate-criu.XXXXXX"

unsigned criu_version(const char *output, char *ret_text, size_t capacity)
{
	static const char says[] = "Version: ";
	const char *line = strstr(output, says);

	if (!line)
		return 0;
	line += sizeof says - 1;
	snprintf(ret_text, capacity, "%.*s", (int)strspn(line, "0123456789."), line);
	return version_number(ret_text);
}

unsigned criu_least(void)
{
	struct utsname kernel;

	return uname(&kernel) == 0 && version_number(kernel.release) >= NEW_KERNEL ? LEAST_ON_NEW_KERNELS : LEAST;
}

enum vg_status criu_find(struct criu *ret_criu)
{
	unsigned least = criu_least();
	char output[512];

	int r = tool_find("VIRGATE_CRIU", "criu", ret_criu->path);
	if (r)
		return vg_fail(VG_NOT_FOUND, -r, "CRIU %s: install %u.%u or later, or name it in VIRGATE_CRIU",
			       r == -EACCES ? "may not be run by this user" : "is not in PATH", least / 10000,
			       least / 100 % 100);
	const char *const argv[] = {ret_criu->path, "--version", NULL};
	r = tool_run(
		&(struct tool_run){.argv = argv, .timeout_ms = 10000, .output = output, .capacity = sizeof output});
	if (r)
		return vg_fail(VG_SYSTEM, r < 0 ? -r : r, "%s --version: %s", ret_criu->path,
			       r < 0 ? strerror(-r) : output);
	unsigned version = criu_version(output, ret_criu->version, sizeof ret_criu->version);
	if (!version)
		return vg_fail(VG_NOT_FOUND, 0,
			       "%s is not CRIU, by what its --version says: install %u.%u or later, or name it in "
			       "VIRGATE_CRIU",
			       ret_criu->path, least / 10000, least / 100 % 100);
	if (version < least)
		return vg_fail(VG_UNSUPPORTED, 0, "%s is CRIU %s: this kernel takes %u.%u or later", ret_criu->path,
			       ret_criu->version, least / 10000, least / 100 % 100);
	return VG_OK;
}

static bool is_scratch(const char *name)
{
	const char *end = strrchr(name, '.');

	return strcmp(name, "plugins") == 0 || strncmp(name, "stats-", 6) == 0 || (end && strcmp(end, ".log") == 0);
}

// Creates a temporary directory for CRIU's files that are not images. Also creates an empty directory in it, where CRIU
// looks for plugins and finds none.
static int make_scratch(char *ret_path, char *ret_plugins, int *ret_lock)
{
	locked_directory_sweep(ret_path, is_scratch, 1);
	int r = locked_directory_make(ret_path, ret_lock);
	if (r)
		return r;
	sprintf(ret_plugins, "%s/plugins", ret_path);
	return mkdir(ret_plugins, 0700) < 0 ? -errno : 0;
}

// Describes a failure for which CRIU's log has no error: uses CRIU's output, or its exit status.
static void describe_exit(int r, char *output, char *ret_text, size_t capacity)
{
	output[strcspn(output, "\n")] = '\0';
	if (r > 128 && strsignal(r - 128))
		snprintf(ret_text, capacity, "it was ended by signal %d (%s)", r - 128, strsignal(r - 128));
	else
		snprintf(ret_text, capacity, "%s", *output ? output : "no reason stands in its log");
}

bool criu_is_limited(void)
{
	return getuid() != 0;
}

static enum vg_status run_criu(const struct criu *criu, const struct criu_work *work, const char *verb,
			       const char *const *more)
{
	char scratch[] = SCRATCH, plugins[sizeof scratch + 16], log[32], path[sizeof scratch + sizeof log], why[512];
	char output[256];
	const char *argv[MOST_ARGUMENTS] = {criu->path,	     verb,    "--no-default-config",
					    "--libdir",	     plugins, "-D",
					    work->directory, "-W",    scratch,
					    "-v2",	     "-o",    log,
					    "--link-remap"};
	_cleanup_close_ int lock = -1;
	size_t count = 0;

	while (argv[count])
		count++;
	if (criu_is_limited())
		argv[count++] = "--unprivileged";
	if (work->stream)
		argv[count++] = "--stream";
	if (work->shell_job)
		argv[count++] = "--shell-job";
	if (work->tcp_established)
		argv[count++] = "--tcp-established";
	if (work->file_locks)
		argv[count++] = "--file-locks";
	while (*more)
		argv[count++] = *more++;
	snprintf(log, sizeof log, "%s.log", verb);
	int r = make_scratch(scratch, plugins, &lock);
	if (r) {
		locked_directory_remove(scratch, is_scratch);
		return vg_fail(VG_SYSTEM, -r, "%s: %s", scratch, strerror(-r));
	}
	r = tool_run(&(struct tool_run){.argv = argv,
					.output = output,
					.capacity = sizeof output,
					.keep = work->keep,
					.keep_count = work->keep_count,
					.terminal = work->terminal,
					.tick = work->tick,
					.user = work->user});
	snprintf(path, sizeof path, "%s/%s", scratch, log);
	if (r > 0 && !criu_reason(path, why, sizeof why))
		describe_exit(r, output, why, sizeof why);
	locked_directory_remove(scratch, is_scratch);
	if (r == 0)
		return VG_OK;
	if (r == -ECANCELED)
		return vg_fail(VG_STATE, 0, "stopped while CRIU was at work, as asked: nothing that it made is left");
	if (r < 0)
		return vg_fail(VG_SYSTEM, -r, "%s cannot be run: %s", criu->path, strerror(-r));
	return vg_fail(VG_SYSTEM, r, "CRIU %s: %s", verb, why);
}

enum vg_status criu_dump(const struct criu *criu, const struct criu_work *work, pid_t root)
{
	char pid[16];
	// CRIU saves unlinked files up to a limit, 1 MiB by default. Raise it: worker processes share memory in
	// unlinked files of any size.
	const char *const more[] = {"-t",    pid, "--leave-stopped", "--network-lock", "skip", "--ghost-limit",
				    "1024G", NULL};

	snprintf(pid, sizeof pid, "%d", (int)root);
	return run_criu(criu, work, "dump", more);
}

enum vg_status criu_restore(const struct criu *criu, const struct criu_work *work)
{
	static const char *const more[] = {"-d", "--leave-stopped", NULL};

	return run_criu(criu, work, "restore", more);
}
