// What the doctor says of CRIUs that are old, new, silent or not there; and the program as people run it.
#include "checkpoint/doctor.h"
#include "checkpoint/tool.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "virgate/system.h"
#include "test.h"

static char folder[] = "/tmp/virgate-doctor.XXXXXX";

__attribute__((constructor)) static void make_folder(void)
{
	if (!mkdtemp(folder))
		abort();
}

__attribute__((destructor)) static void remove_folder(void)
{
	char command[128];

	snprintf(command, sizeof command, "rm -rf %s", folder);
	if (system(command))
		perror(folder);
}

static const char *script(const char *name, const char *text)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *file = fopen(path, "w");
	CHECK(file != NULL);
	fprintf(file, "#!/bin/sh\n%s\n", text);
	CHECK_INT(fclose(file), 0);
	CHECK_INT(chmod(path, 0755), 0);
	return path;
}

static int tool(const char *path, unsigned timeout_ms, char *output, size_t capacity)
{
	const char *const argv[] = {path, NULL};
	struct tool_run run = {.argv = argv, .timeout_ms = timeout_ms, .output = output, .capacity = capacity};

	return tool_run(&run);
}

TEST(versions_are_read)
{
	CHECK_INT(doctor_version("Version: 4.2\nGitID: v4.2"), 40200);
	CHECK_INT(doctor_version("3.17.1"), 31701);
	CHECK_INT(doctor_version("6.18.44-fc-v669"), 61844);
	CHECK_INT(doctor_version("Version: 4"), 40000);
	CHECK_INT(doctor_version("4."), 40000);
	CHECK_INT(doctor_version("1.500.2"), 19902);
	CHECK_INT(doctor_version("no number"), 0);
	CHECK_INT(doctor_version(""), 0);
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
	// Who was started by it went with it.
	CHECK(system("pgrep -xf 'sleep 61.7' >/dev/null") != 0);
}

TEST(programs_are_found)
{
	char path[PATH_MAX], old[8192];
	const char *folders = getenv("PATH");

	snprintf(old, sizeof old, "%s", folders ? folders : "");
	script("criu", "true");
	unsetenv("VIRGATE_CRIU");
	setenv("PATH", folder, 1);
	CHECK_INT(tool_find("VIRGATE_CRIU", "criu", path), 0);
	CHECK_CONTAINS(path, folder);
	setenv("VIRGATE_CRIU", "/nonexistent", 1);
	CHECK_INT(tool_find("VIRGATE_CRIU", "criu", path), -ENOENT);
	setenv("VIRGATE_CRIU", folder, 1);
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
	CHECK_INT(check->verdict, doctor_version(name.release) >= 61300 ? DOCTOR_FAILED : DOCTOR_OK);
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
	// Nor is it asked what the kernel has.
	CHECK_INT(report.count, 1);
}

TEST(a_criu_that_is_not_there_says_so)
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

// The kernel is made to look old to this process: 4.0 is enough for it, as 4.1 is for one from 6.13 on.
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

TEST(crius_cuda_plugin_is_not_in_the_way)
{
	char plugin[PATH_MAX];

	snprintf(plugin, sizeof plugin, "%s", script("cuda_plugin.so", ""));
	setenv("CRIU_LIBS_DIR", folder, 1);
	// It looks at what it was told of plugins, as its check is.
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

TEST(what_criu_misses_in_the_kernel_is_passed_on)
{
	if (geteuid() != 0)
		SKIP("CRIU is asked only by who has the rights that it needs");
	const struct doctor_check *check = check_with_criu_that(broken_kernel, "CRIU check");
	CHECK_INT(check->verdict, DOCTOR_FAILED);
	CHECK_STR(check->found, "Error (x.c:1): Kernel lacks y");
	CHECK_CONTAINS(check->fix, "check says all of it");
	CHECK_INT(check_with_criu_that("echo Version: 4.2", "CRIU check")->verdict, DOCTOR_OK);
}

// In a child that has only these capabilities left.
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

static void look_with_both(struct doctor_report *report)
{
	CHECK_INT(check_of(report, "CAP_CHECKPOINT_RESTORE")->verdict, DOCTOR_OK);
	CHECK_STR(check_of(report, "CAP_CHECKPOINT_RESTORE")->found, "held");
	CHECK_INT(check_of(report, "CAP_SYS_PTRACE")->verdict, DOCTOR_OK);
	CHECK_INT(check_of(report, "CRIU check")->verdict, DOCTOR_FAILED); // it was asked
}

static void look_with_admin(struct doctor_report *report)
{
	CHECK_STR(check_of(report, "CAP_CHECKPOINT_RESTORE")->found, "held, by CAP_SYS_ADMIN");
	CHECK_INT(check_of(report, "CAP_SYS_PTRACE")->verdict, DOCTOR_FAILED);
}

TEST(capabilities_are_looked_at_one_by_one)
{
	with_capabilities(0, 0, look_without_rights);
	with_capabilities(1u << CAP_SYS_PTRACE, 1u << (CAP_CHECKPOINT_RESTORE - 32), look_with_both);
	with_capabilities(1u << CAP_SYS_ADMIN, 0, look_with_admin);
}

static struct doctor_check driver(unsigned branch, unsigned minor)
{
	const struct vg_system_version version = {.part = {branch, minor, 6}, .count = 3};
	struct doctor_check check = {.verdict = DOCTOR_NOT_APPLICABLE};

	doctor_driver_version(&check, &version);
	return check;
}

TEST(drivers_are_told_apart)
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

TEST(what_is_on_the_gpus_must_fit)
{
	static struct doctor_report report;

	report.count = 0;
	doctor_room(&report, folder, UINT64_C(1) << 60);
	CHECK_INT(check_of(&report, "host memory")->verdict, DOCTOR_WARNING);
	CHECK_CONTAINS(check_of(&report, "host memory")->found, ", 1024.0 PiB on the GPUs");
	CHECK_CONTAINS(check_of(&report, "host memory")->fix, "checkpoint one after the other");
	CHECK_INT(check_of(&report, "disk")->verdict, DOCTOR_WARNING);
	CHECK_CONTAINS(check_of(&report, "disk")->found, folder);
	CHECK_CONTAINS(check_of(&report, "disk")->fix, "--dir");
	report.count = 0;
	doctor_room(&report, "/nonexistent", 0);
	CHECK_INT(check_of(&report, "host memory")->verdict, DOCTOR_OK);
	CHECK_INT(check_of(&report, "disk")->verdict, DOCTOR_FAILED);
}

TEST(too_many_checks_do_not_pass_silently)
{
	static struct doctor_report report;

	for (int i = 0; i < 2 * DOCTOR_CHECKS; i++)
		doctor_say(doctor_check(&report, DOCTOR_CUDA, "x"), DOCTOR_OK, "y");
	CHECK_INT(report.count, DOCTOR_CHECKS);
	CHECK_STR(report.checks[DOCTOR_CHECKS - 1].name, "more checks");
}

// ---- the program, on the simulated GPU ----

static char said[16384];

static int virgate(const char *environment, const char *words)
{
	char command[1024];

	snprintf(command, sizeof command,
		 "env -u VIRGATE_CRIU PATH=/usr/bin:/bin VIRGATE_RUNTIME_DIR=%s/run VIRGATE_STATE_DIR=%s/state %s %s "
		 "%s 2>&1",
		 folder, folder, environment, VIRGATE, words);
	FILE *output = popen(command, "r");
	CHECK(output != NULL);
	said[fread(said, 1, sizeof said - 1, output)] = '\0';
	return WEXITSTATUS(pclose(output));
}

static int run(const char *environment, const char *words)
{
	char all[256];

	snprintf(all, sizeof all, "doctor --sim %s", words);
	return virgate(environment, all);
}

TEST(the_program_ends_with_what_failed)
{
	char environment[PATH_MAX + 32];

	CHECK_INT(run("VIRGATE_CRIU=/nonexistent", "cuda"), 1);
	CHECK_CONTAINS(said, "CRIU  ");
	CHECK_CONTAINS(said, "Failed with ");
	CHECK(!strstr(said, "interposer"));
	snprintf(environment, sizeof environment, "VIRGATE_CRIU=%s", script("criu", "echo Version: 4.2"));
	run(environment, "cuda"); // whatever else this machine lacks
	CHECK_CONTAINS(said, "4.2 at ");
	CHECK_CONTAINS(said, "(simulated)");
	CHECK_CONTAINS(said, "GPU 0 ");
	CHECK_INT(run("", "quota"), 0);
	CHECK_CONTAINS(said, "Looks good");
	CHECK_CONTAINS(said, "does not run; the first use starts it");
	CHECK(!strstr(said, "CRIU"));
	CHECK_INT(run("VIRGATE_LIBDIR=/nonexistent", "quota"), 1);
	CHECK_CONTAINS(said, "/nonexistent");
	// Without a word it is both.
	CHECK_INT(run("VIRGATE_CRIU=/nonexistent", ""), 1);
	CHECK_CONTAINS(said, "CRIU  ");
	CHECK_CONTAINS(said, "interposer  ");
	CHECK_INT(run("VIRGATE_LIBDIR=/nonexistent", ""), 1);
	CHECK_INT(run("", "bogus"), 2);
	CHECK_INT(run("", "cuda quota"), 2);
}

// The line of one check: verdict, what was found, and the fix.
static const char *line_of(const char *name)
{
	static char line[1024];
	char *at = said;

	for (char *end; *at && (end = strchr(at, '\n')); at = end + 1)
		if (strncmp(at, name, strlen(name)) == 0 && strncmp(at + strlen(name), "  ", 2) == 0) {
			at += strlen(name) + strspn(at + strlen(name), " ");
			snprintf(line, sizeof line, "%.*s", (int)(end - at), at);
			return line;
		}
	FAIL("no line of %s in: %s", name, said);
}

// There is no program with which the interposer could be tried.
TEST(a_warning_is_no_failure)
{
	CHECK_INT(run("PATH=/nonexistent", "quota"), 0);
	CHECK_CONTAINS(said, "Looks good, with ");
	CHECK_CONTAINS(line_of("interposer"), "warning  ");
	CHECK_CONTAINS(line_of("interposer"), "there is no program true in PATH; add ");
}

TEST(what_the_driver_and_the_gpu_are_is_said)
{
	CHECK(run("VIRGATE_SIM=memory=1G", "cuda") <= 1);
	CHECK_STR(line_of("driver"), "ok       580.00: restores also onto another GPU");
	CHECK_CONTAINS(line_of("checkpoint calls"), "ok       in /");
	CHECK_STR(line_of("GPU 0"), "ok       Virgate Simulated GPU, compute capability 9.0");
	CHECK_STR(line_of("GPU 0 memory"), "ok       0 B of 1.0 GiB in use");
	CHECK_STR(line_of("GPU 0 persistence mode"), "ok       on");
	CHECK_INT(run("VIRGATE_SIM=memory=1G,driver=12080,cc=7.0,persistence=0,devices=2", "cuda"), 1);
	CHECK_CONTAINS(line_of("driver"), "warning  570.00: ");
	CHECK_STR(line_of("GPU 1"), "failed   Virgate Simulated GPU, compute capability 7.0; "
				    "use a GPU of compute capability 7.5 or later");
	CHECK_STR(line_of("GPU 1 persistence mode"), "warning  off: every restore starts the driver anew; "
						     "nvidia-smi -pm 1, or run nvidia-persistenced");
}

TEST(a_machine_without_a_driver_is_told_what_to_do)
{
	CHECK_INT(virgate("env -u VIRGATE_SIM LD_LIBRARY_PATH=" SIM, "doctor cuda"), 1);
	CHECK_CONTAINS(line_of("driver"), "failed   ");
	CHECK_CONTAINS(line_of("driver"), "; install NVIDIA's driver, 570 or later");
	CHECK_CONTAINS(line_of("GPUs"), "failed   ");
	CHECK_CONTAINS(line_of("GPUs"), "; a container needs /dev/nvidia*");
}

TEST(a_divided_gpu_fails)
{
	CHECK(run("VIRGATE_SIM=memory=1G", "cuda") <= 1);
	CHECK_STR(line_of("GPU 0 MIG"), "ok       off");
	CHECK_INT(run("VIRGATE_SIM=memory=1G,mig=1", "cuda"), 1);
	CHECK_STR(line_of("GPU 0 MIG"), "failed   on: the driver checkpoints no process that uses a part of a GPU; "
					"nvidia-smi -mig 0, when nobody uses the GPU");
}

// Whoever bears the control daemon's name, which the kernel cuts.
TEST(mps_that_runs_is_a_warning)
{
	int ends[2];
	char byte;

	CHECK(run("", "cuda") <= 1);
	if (strstr(line_of("MPS"), "runs: "))
		SKIP("MPS runs on this machine");
	CHECK_STR(line_of("MPS"), "ok       does not run");
	CHECK_INT(pipe(ends), 0);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_NAME, "nvidia-cuda-mps-control");
		if (write(ends[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	CHECK_INT(read(ends[0], &byte, 1), 1);
	CHECK(run("", "cuda") <= 1);
	kill(pid, SIGKILL);
	CHECK_INT(waitpid(pid, NULL, 0), pid);
	close(ends[0]);
	close(ends[1]);
	CHECK_STR(line_of("MPS"), "warning  runs: its clients cannot be checkpointed; start programs that shall be "
				  "checkpointed without CUDA_MPS_PIPE_DIRECTORY, or end MPS: echo quit | nvidia-cuda-mps-control");
}

TEST(an_interposer_that_does_not_load_fails)
{
	char environment[PATH_MAX + 32];

	script("libvirgate-cuda.so", "this is no library");
	snprintf(environment, sizeof environment, "VIRGATE_LIBDIR=%s", folder);
	CHECK_INT(run(environment, "quota"), 1);
	CHECK_CONTAINS(line_of("interposer"), "failed   ");
	CHECK_CONTAINS(line_of("interposer"), "libvirgate-cuda.so does not load: ");
	CHECK_CONTAINS(line_of("interposer"), "; install Virgate for this machine's C library");
}

TEST(the_daemon_and_its_ledgers_are_looked_at)
{
	char ledger[PATH_MAX];

	CHECK_INT(virgate("VIRGATE_SIM=1", "create one --memory 1G"), 0);
	int sound = run("", "quota");
	char answers[1024];
	snprintf(answers, sizeof answers, "%s", line_of("daemon"));
	snprintf(ledger, sizeof ledger, "%s/run/ledgers/one", folder);
	int cut = truncate(ledger, 100), damaged = run("", "quota");
	char vgpus[1024];
	snprintf(vgpus, sizeof vgpus, "%s", damaged == 1 ? line_of("vGPUs") : "");
	CHECK_INT(virgate("VIRGATE_SIM=1", "shutdown"), 0);
	CHECK_INT(sound, 0);
	CHECK_CONTAINS(answers, "ok       answers at ");
	CHECK_INT(cut, 0);
	CHECK_INT(damaged, 1);
	CHECK_STR(vgpus, "failed   1 of 1 have a damaged ledger: one; end their programs, then virgate rm one and "
			 "create it again");
}

// Somebody listens where the daemon would, and hangs up.
TEST(a_daemon_that_does_not_answer_fails)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/run", folder);
	CHECK(mkdir(path, 0700) == 0 || errno == EEXIST);
	snprintf(address.sun_path, sizeof address.sun_path, "%s/run/virgated.sock", folder);
	unlink(address.sun_path);
	int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	CHECK_INT(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
	CHECK_INT(listen(listener, 8), 0);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0)
		for (;;)
			close(accept(listener, NULL, NULL));
	int failed = run("", "quota");
	kill(pid, SIGKILL);
	CHECK_INT(waitpid(pid, NULL, 0), pid);
	close(listener);
	CHECK_INT(unlink(address.sun_path), 0);
	CHECK_INT(failed, 1);
	CHECK_CONTAINS(line_of("daemon"), "failed   ");
	CHECK_CONTAINS(line_of("daemon"), "; virgate shutdown; what runs goes on, and the next use starts another");
}

// Each line is whole: a name, a value, a verdict, and what to do wherever something is to be done, and there alone.
static void check_whole(const char *environment, const char *words)
{
	size_t failed = 0, warnings = 0, i;
	json_t *check;

	int code = run(environment, words);
	json_t *report = json_loads(said, 0, NULL);
	CHECK(report != NULL);
	json_array_foreach(json_object_get(report, "checks"), i, check)
	{
		const char *name, *found, *status, *set;
		json_t *fix;
		CHECK_INT(json_unpack(check, "{s:s, s:s, s:s, s:s, s:o}", "name", &name, "found", &found, "status",
				      &status, "set", &set, "fix", &fix),
			  0);
		CHECK(*name && *found && !strpbrk(found, "\n"));
		bool bad = strcmp(status, "failed") == 0, amiss = bad || strcmp(status, "warning") == 0;
		if (amiss != json_is_string(fix))
			FAIL("%s, %s: %s; %s", name, status, found,
			     json_is_string(fix) ? json_string_value(fix) : "no fix");
		failed += bad;
		warnings += amiss && !bad;
	}
	CHECK_INT(json_integer_value(json_object_get(report, "failed")), failed);
	CHECK_INT(json_integer_value(json_object_get(report, "warnings")), warnings);
	CHECK_INT(code, failed ? 1 : 0);
	json_decref(report);
}

TEST(each_check_is_whole)
{
	check_whole("", "--json");
	check_whole("VIRGATE_CRIU=/nonexistent VIRGATE_LIBDIR=/nonexistent", "--json");
	check_whole("VIRGATE_SIM=devices=16,mig=1,persistence=0,cc=7.0,driver=12080", "--json --dir /nonexistent");
	check_whole("PATH=/nonexistent", "--json");
}

TEST(the_program_speaks_json)
{
	CHECK_INT(run("", "quota --json"), 0);
	CHECK_CONTAINS(said, "\"schema\": 1");
	CHECK_CONTAINS(said, "\"failed\": 0");
	CHECK_CONTAINS(said, "\"set\": \"quota\"");
	CHECK_CONTAINS(said, "\"status\": \"n/a\"");
}
