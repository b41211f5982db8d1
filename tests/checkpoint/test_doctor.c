// What the doctor says of CRIUs that are old, new, silent or not there; and the program as people run it.
#include "checkpoint/doctor.h"
#include "checkpoint/tool.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "base/clock.h"
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

static const struct doctor_check *criu_that(const char *does)
{
	static struct doctor_report report;

	setenv("VIRGATE_CRIU", script("criu", does), 1);
	report.count = 0;
	doctor_criu(&report);
	unsetenv("VIRGATE_CRIU");
	return check_of(&report, "CRIU");
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

TEST(what_is_on_the_gpus_must_fit)
{
	static struct doctor_report report;

	report.count = 0;
	doctor_room(&report, folder, UINT64_C(1) << 60);
	CHECK_INT(check_of(&report, "host memory")->verdict, DOCTOR_WARNING);
	CHECK_INT(check_of(&report, "disk")->verdict, DOCTOR_WARNING);
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

static int run(const char *environment, const char *words)
{
	char command[1024];

	snprintf(command, sizeof command,
		 "env -u VIRGATE_CRIU PATH=/usr/bin:/bin VIRGATE_RUNTIME_DIR=%s/run VIRGATE_STATE_DIR=%s/state %s %s doctor --sim %s 2>&1",
		 folder, folder, environment, VIRGATE, words);
	FILE *output = popen(command, "r");
	CHECK(output != NULL);
	said[fread(said, 1, sizeof said - 1, output)] = '\0';
	return WEXITSTATUS(pclose(output));
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

TEST(the_program_speaks_json)
{
	CHECK_INT(run("", "quota --json"), 0);
	CHECK_CONTAINS(said, "\"schema\": 1");
	CHECK_CONTAINS(said, "\"failed\": 0");
	CHECK_CONTAINS(said, "\"set\": \"quota\"");
	CHECK_CONTAINS(said, "\"status\": \"n/a\"");
}
