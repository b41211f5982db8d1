// Tests the doctor's verdicts on CRIUs that are old, new, silent or missing, and on kernels, rights and drivers.
#include "checkpoint/doctor/doctor.h"
#include "checkpoint/process/tool.h"
#include "checkpoint/process/version.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "doctor_test.h"
#include "virgate/system.h"

static int tool(const char *path, unsigned timeout_ms, char *output, size_t capacity)
{
	const char *const argv[] = {path, NULL};
	struct tool_run run = {.argv = argv, .timeout_ms = timeout_ms, .output = output, .capacity = capacity};

	return tool_run(&run);
}

TEST(versions_are_read)
{
	CHECK_INT(version_number("Version: 4.2\nGitID: v4.2"), 40200);
	CHECK_INT(version_number("3.17.1"), 31701);
	CHECK_INT(version_number("6.18.44-fc-v669"), 61844);
	CHECK_INT(version_number("Version: 4"), 40000);
	CHECK_INT(version_number("4."), 40000);
	CHECK_INT(version_number("1.500.2"), 19902);
	CHECK_INT(version_number("no number"), 0);
	CHECK_INT(version_number(""), 0);
}

TEST(programs_are_run_to_their_end)
{
	char output[64];

	CHECK_INT(tool(script("both", "echo out; echo err >&2; exit 7"), 10000, output, sizeof output), 7);
	CHECK_STR(output, "out\nerr\n");
	CHECK_INT(tool(script("killed", "kill -9 $$"), 10000, NULL, 0), 128 + 9);
	CHECK_INT(tool(script("long", "head -c 1000000 /dev/zero | tr '\\0' x"), 10000, output, sizeof output), 0);
	CHECK_INT(strlen(output), sizeof output - 1);
	CHECK_INT(tool("/nonexistent/program", 1000, output, sizeof output), -ENOENT);
	CHECK_STR(output, "");
}

TEST(programs_are_killed_when_their_time_is_up)
{
	uint64_t start = vg_clock_monotonic_ns();
	char output[64];

	CHECK_INT(tool(script("hang", "echo before; sleep 61.7"), 300, output, sizeof output), -ETIMEDOUT);
	CHECK_STR(output, "before\n");
	CHECK_INT(tool(script("silent", "exec >/dev/null 2>&1; sleep 61.7"), 300, output, sizeof output), -ETIMEDOUT);
	CHECK(vg_clock_monotonic_ns() - start < UINT64_C(30000000000));
	// Killing the script has also killed its child.
	CHECK(system("pgrep -xf 'sleep 61.7' >/dev/null") != 0);
}

static bool stop_late(void *user)
{
	usleep(*(useconds_t *)user);
	return false;
}

// If the program has already exited when the caller asks to stop, the caller gets the program's result.
TEST(stopping_an_ended_program_is_too_late)
{
	useconds_t wait = 500000;
	const char *argv[] = {script("ends", "exit 7"), NULL};
	struct tool_run run = {.argv = argv, .tick = stop_late, .user = &wait};

	CHECK_INT(tool_run(&run), 7);
	argv[0] = script("stays", "setsid sleep 62.7 & sleep 62.7");
	CHECK_INT(tool_run(&run), -ECANCELED);
	CHECK(system("pgrep -xf 'sleep 62.7' >/dev/null") != 0);
}

TEST(programs_are_found)
{
	char path[PATH_MAX], old[8192];
	const char *directories = getenv("PATH");

	snprintf(old, sizeof old, "%s", directories ? directories : "");
	script("criu", "true");
	unsetenv("VIRGATE_CRIU");
	setenv("PATH", directory, 1);
	CHECK_INT(tool_find("VIRGATE_CRIU", "criu", path), 0);
	CHECK_CONTAINS(path, directory);
	setenv("VIRGATE_CRIU", "/nonexistent", 1);
	CHECK_INT(tool_find("VIRGATE_CRIU", "criu", path), -ENOENT);
	setenv("VIRGATE_CRIU", directory, 1);
	CHECK_INT(tool_find("VIRGATE_CRIU", "criu", path), -EACCES);
	unsetenv("VIRGATE_CRIU");
	CHECK_INT(tool_find(NULL, "no such program", path), -ENOENT);
	setenv("PATH", ":", 1);
	CHECK_INT(tool_find(NULL, "criu", path), -ENOENT);
	setenv("PATH", old, 1);
}

static const struct doctor_check *check_of(const struct doctor_report *report, const char *name)
{
	for (size_t i = 0; i < report->count; i++)
		if (strcmp(report->checks[i].name, name) == 0)
			return &report->checks[i];
	FAIL("there is no check %s", name);
}

static const struct doctor_check *check_with_criu_that(const char *does, const char *name)
{
	static struct doctor_report report;

	setenv("VIRGATE_CRIU", script("criu", does), 1);
	report.count = 0;
	doctor_criu(&report);
	unsetenv("VIRGATE_CRIU");
	return check_of(&report, name);
}

static const struct doctor_check *criu_that(const char *does)
{
	return check_with_criu_that(does, "CRIU");
}

TEST(a_criu_must_be_new_enough)
{
	struct utsname name;

	CHECK_INT(uname(&name), 0);
	CHECK_INT(criu_that("echo Version: 4.2")->verdict, DOCTOR_OK);
	const struct doctor_check *check = criu_that("echo Version: 3.17.1");
	CHECK_INT(check->verdict, DOCTOR_FAILED);
	CHECK_CONTAINS(check->found, "3.17 at ");
	CHECK_CONTAINS(check->fix, "or later");
	check = criu_that("echo Version: 4.0");
	CHECK_INT(check->verdict, version_number(name.release) >= 61300 ? DOCTOR_FAILED : DOCTOR_OK);
	check = criu_that("echo no version; exit 1");
	CHECK_INT(check->verdict, DOCTOR_FAILED);
	CHECK_CONTAINS(check->found, "no version");
	check = criu_that("exit 0");
	CHECK_INT(check->verdict, DOCTOR_FAILED);
}

TEST(another_program_is_no_criu_whatever_its_version)
{
	static struct doctor_report report;

	setenv("VIRGATE_CRIU", script("criu", "echo 'true (GNU coreutils) 9.1'"), 1);
	report.count = 0;
	doctor_criu(&report);
	unsetenv("VIRGATE_CRIU");
	CHECK_INT(report.checks[0].verdict, DOCTOR_FAILED);
	CHECK_CONTAINS(report.checks[0].found, "says: true (GNU coreutils) 9.1");
	CHECK_CONTAINS(report.checks[0].fix, "install CRIU");
	// Without CRIU, the doctor does not check the kernel either.
	CHECK_INT(report.count, 1);
}

TEST(a_missing_criu_is_reported)
{
	static struct doctor_report report;

	setenv("VIRGATE_CRIU", "/nonexistent/criu", 1);
	report.count = 0;
	doctor_criu(&report);
	unsetenv("VIRGATE_CRIU");
	CHECK_INT(report.count, 1);
	CHECK_INT(report.checks[0].verdict, DOCTOR_FAILED);
	CHECK_CONTAINS(report.checks[0].found, "/nonexistent/criu");
	CHECK_CONTAINS(report.checks[0].fix, "VIRGATE_CRIU");
}

// Makes the kernel look old to this process. CRIU 4.0 suffices for an old kernel, while kernels from 6.13 on need CRIU
// 4.1.
TEST(an_older_kernel_takes_an_older_criu)
{
	int before = personality(0xffffffff);

	if (before < 0 || personality((unsigned long)before | UNAME26) < 0)
		SKIP("personality: %s", strerror(errno));
	enum doctor_verdict enough = criu_that("echo Version: 4.0")->verdict;
	const struct doctor_check *check = criu_that("echo Version: 3.19");
	personality((unsigned long)before);
	CHECK_INT(enough, DOCTOR_OK);
	CHECK_INT(check->verdict, DOCTOR_FAILED);
	CHECK_CONTAINS(check->fix, "this kernel takes CRIU 4.0 or later");
}

TEST(the_cuda_plugin_of_criu_is_disabled)
{
	char plugin[PATH_MAX];

	snprintf(plugin, sizeof plugin, "%s", script("cuda_plugin.so", ""));
	setenv("CRIU_LIBS_DIR", directory, 1);
	// The script succeeds only if it gets the options for plugins.
	const struct doctor_check *check =
		check_with_criu_that("case \"$*\" in --version) echo Version: 4.2;; "
				     "*--no-default-config*--libdir*/nonexistent*) ;; *) exit 1;; esac",
				     "CRIU's CUDA plugin");
	CHECK_INT(check->verdict, DOCTOR_OK);
	CHECK_CONTAINS(check->found, plugin);
	CHECK_CONTAINS(check->found, "which virgate starts CRIU without");
	CHECK(check[1].verdict != DOCTOR_FAILED);
	unsetenv("CRIU_LIBS_DIR");
	CHECK_INT(unlink(plugin), 0);
}

static const char broken_kernel[] = "case $1 in --version) echo Version: 4.2;; check) echo 'Error (x.c:1): Kernel "
				    "lacks y'; echo more; exit 1;; esac";

TEST(missing_kernel_features_are_reported)
{
	if (geteuid() != 0)
		SKIP("CRIU is asked only by who has the rights that it needs");
	const struct doctor_check *check = check_with_criu_that(broken_kernel, "CRIU check");
	CHECK_INT(check->verdict, DOCTOR_FAILED);
	CHECK_STR(check->found, "Error (x.c:1): Kernel lacks y");
	CHECK_CONTAINS(check->fix, "check says all of it");
	CHECK_INT(check_with_criu_that("echo Version: 4.2", "CRIU check")->verdict, DOCTOR_OK);
}

// Runs `look` in a child that has only these capabilities.
static void with_capabilities(unsigned low, unsigned high, void (*look)(struct doctor_report *report))
{
	static struct doctor_report report;
	int status;

	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
		struct __user_cap_data_struct data[2] = {{.effective = low, .permitted = low},
							 {.effective = high, .permitted = high}};
		if (prctl(PR_CAPBSET_DROP, CAP_SYS_BOOT) < 0)
			SKIP("prctl: %s", strerror(errno));
		if (syscall(SYS_capset, &header, data) < 0)
			SKIP("capset: %s", strerror(errno));
		setenv("VIRGATE_CRIU", script("criu", broken_kernel), 1);
		report.count = 0;
		doctor_criu(&report);
		doctor_kernel(&report);
		look(&report);
		_exit(0);
	}
	CHECK_INT(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		SKIP("this user has not the capabilities to begin with");
	CHECK_INT(status, 0);
}

static void look_without_rights(struct doctor_report *report)
{
	static const char *const names[] = {"CAP_CHECKPOINT_RESTORE", "CAP_SYS_PTRACE"};

	for (int i = 0; i < 2; i++) {
		const struct doctor_check *check = check_of(report, names[i]);
		CHECK_INT(check->verdict, DOCTOR_FAILED);
		CHECK_STR(check->found, "not held by this user");
		CHECK_CONTAINS(check->fix, "run as root, or give it to virgate and CRIU: setcap "
					   "cap_checkpoint_restore,cap_sys_ptrace+eip");
	}
	CHECK_INT(check_of(report, "CRIU check")->verdict, DOCTOR_NOT_APPLICABLE);
	CHECK_STR(check_of(report, "CRIU check")->found, "needs the capabilities below");
}

static void look_at_bounding_set(struct doctor_report *report)
{
	CHECK_STR(check_of(report, "CAP_SETPCAP")->found, "held");
}

static void look_with_both(struct doctor_report *report)
{
	CHECK_INT(check_of(report, "CAP_CHECKPOINT_RESTORE")->verdict, DOCTOR_OK);
	CHECK_STR(check_of(report, "CAP_CHECKPOINT_RESTORE")->found, "held");
	CHECK_INT(check_of(report, "CAP_SYS_PTRACE")->verdict, DOCTOR_OK);
	// The doctor has run CRIU's own check, which has failed.
	CHECK_INT(check_of(report, "CRIU check")->verdict, DOCTOR_FAILED);
	CHECK_INT(check_of(report, "CAP_SETPCAP")->verdict, DOCTOR_FAILED);
	CHECK_CONTAINS(check_of(report, "CAP_SETPCAP")->fix, "cap_setpcap");
}

static void look_with_admin(struct doctor_report *report)
{
	CHECK_STR(check_of(report, "CAP_CHECKPOINT_RESTORE")->found, "held, by CAP_SYS_ADMIN");
	CHECK_INT(check_of(report, "CAP_SYS_PTRACE")->verdict, DOCTOR_FAILED);
}

TEST(capabilities_are_checked_one_by_one)
{
	with_capabilities(0, 0, look_without_rights);
	with_capabilities(1u << CAP_SYS_PTRACE, 1u << (CAP_CHECKPOINT_RESTORE - 32), look_with_both);
	with_capabilities(1u << CAP_SYS_ADMIN, 0, look_with_admin);
	with_capabilities(1u << CAP_SETPCAP, 0, look_at_bounding_set);
}

static struct doctor_check driver(unsigned branch, unsigned minor)
{
	const struct vg_system_version version = {.part = {branch, minor, 6}, .count = 3};
	struct doctor_check check = {.verdict = DOCTOR_NOT_APPLICABLE};

	doctor_driver_version(&check, &version);
	return check;
}

TEST(driver_versions_are_distinguished)
{
	struct doctor_check check = driver(565, 57);

	CHECK_INT(check.verdict, DOCTOR_FAILED);
	CHECK_STR(check.found, "565.57.06: has no process checkpoints");
	CHECK_STR(check.fix, "install driver 570 or later");
	check = driver(570, 0);
	CHECK_INT(check.verdict, DOCTOR_WARNING);
	CHECK_STR(check.found, "570.00.06: restores only onto the GPU that a process had");
	CHECK_STR(check.fix, "driver 580 or later restores onto another GPU");
	check = driver(580, 65);
	CHECK_INT(check.verdict, DOCTOR_OK);
	CHECK_STR(check.found, "580.65.06: restores also onto another GPU");
	CHECK_STR(check.fix, "");
}

TEST(device_memory_must_fit)
{
	static struct doctor_report report;

	report.count = 0;
	doctor_room(&report, directory, UINT64_C(1) << 60);
	CHECK_INT(check_of(&report, "host memory")->verdict, DOCTOR_WARNING);
	CHECK_CONTAINS(check_of(&report, "host memory")->found, ", 1024.0 PiB on the GPUs");
	CHECK_CONTAINS(check_of(&report, "host memory")->fix, "checkpoint one after the other");
	CHECK_INT(check_of(&report, "disk")->verdict, DOCTOR_WARNING);
	CHECK_CONTAINS(check_of(&report, "disk")->found, directory);
	CHECK_CONTAINS(check_of(&report, "disk")->fix, "--dir");
	report.count = 0;
	doctor_room(&report, "/nonexistent", 0);
	CHECK_INT(check_of(&report, "host memory")->verdict, DOCTOR_OK);
	CHECK_INT(check_of(&report, "disk")->verdict, DOCTOR_FAILED);
}

TEST(too_many_checks_fail)
{
	static struct doctor_report report;

	for (int i = 0; i < 2 * DOCTOR_CHECKS; i++)
		doctor_say(doctor_check(&report, DOCTOR_CUDA, "x"), DOCTOR_OK, "y");
	CHECK_INT(report.count, DOCTOR_CHECKS);
	CHECK_STR(report.checks[DOCTOR_CHECKS - 1].name, "more checks");
}
