// Tests the program `virgate doctor` on the simulated GPU.
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "doctor_test.h"

static char said[65536];

static int virgate(const char *environment, const char *words)
{
	char command[1024];

	snprintf(command, sizeof command,
		 "env -u VIRGATE_CRIU PATH=/usr/bin:/bin VIRGATE_RUNTIME_DIR=%s/run VIRGATE_STATE_DIR=%s/state %s %s "
		 "%s 2>&1",
		 directory, directory, environment, VIRGATE, words);
	FILE *output = popen(command, "r");
	CHECK(output != NULL);
	said[fread(said, 1, sizeof said - 1, output)] = '\0';
	CHECK(feof(output));
	return WEXITSTATUS(pclose(output));
}

static int run(const char *environment, const char *words)
{
	char all[256];

	snprintf(all, sizeof all, "doctor --sim %s", words);
	return virgate(environment, all);
}

TEST(the_exit_code_reports_failed_checks)
{
	char environment[PATH_MAX + 32];

	CHECK_INT(run("VIRGATE_CRIU=/nonexistent", "cuda"), 1);
	CHECK_CONTAINS(said, "CRIU  ");
	CHECK_CONTAINS(said, "Failed with ");
	CHECK(!strstr(said, "interposer"));
	snprintf(environment, sizeof environment, "VIRGATE_CRIU=%s", script("criu", "echo Version: 4.2"));
	// The result of this check must not depend on which other things this machine lacks.
	run(environment, "cuda");
	CHECK_CONTAINS(said, "4.2 at ");
	CHECK_CONTAINS(said, "(simulated)");
	CHECK_CONTAINS(said, "GPU 0 ");
	CHECK_INT(run("", "quota"), 0);
	CHECK_CONTAINS(said, "Looks good");
	CHECK_CONTAINS(said, "does not run; the first use starts it");
	CHECK(!strstr(said, "CRIU"));
	CHECK_INT(run("VIRGATE_LIBDIR=/nonexistent", "quota"), 1);
	CHECK_CONTAINS(said, "/nonexistent");
	CHECK_INT(run("", "toolkit"), 0);
	CHECK_CONTAINS(said, "CUDA toolkit  ");
	CHECK(!strstr(said, "interposer"));
	// Without arguments, all checks run.
	CHECK_INT(run("VIRGATE_CRIU=/nonexistent", ""), 1);
	CHECK_CONTAINS(said, "CUDA toolkit  ");
	CHECK_CONTAINS(said, "CRIU  ");
	CHECK_CONTAINS(said, "interposer  ");
	CHECK_INT(run("VIRGATE_LIBDIR=/nonexistent", ""), 1);
	CHECK_INT(run("", "bogus"), 2);
	CHECK_INT(run("", "cuda quota"), 2);
}

// Writes a file into the test's directory.
static void write_file(const char *name, const char *text, mode_t mode)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/%s", directory, name);
	FILE *file = fopen(path, "w");
	CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0 && chmod(path, mode) == 0);
}

static void make_directory(const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/%s", directory, name);
	CHECK(mkdir(path, 0700) == 0 || errno == EEXIST);
}

// Makes a toolkit that has nvcc only. The variables keep the doctor from finding the other tools in another toolkit.
TEST(missing_tools_of_a_toolkit_are_named)
{
	static const char none[] =
		"VIRGATE_NVRTC=/nonexistent VIRGATE_NVVM=/nonexistent VIRGATE_NVJITLINK=/nonexistent";
	char environment[3 * PATH_MAX], expected[PATH_MAX + 64];

	make_directory("toolkit");
	make_directory("toolkit/bin");
	make_directory("toolkit/include");
	write_file("toolkit/bin/nvcc", "#!/bin/sh\n", 0700);
	snprintf(environment, sizeof environment, "%s CUDA_HOME=%s/toolkit", none, directory);
	CHECK_INT(run(environment, "toolkit"), 0);
	snprintf(expected, sizeof expected, "ok       nvcc at %s/toolkit/bin/nvcc; not found: ", directory);
	CHECK_CONTAINS(said, expected);
	CHECK_CONTAINS(said, "NVRTC (compiles CUDA C++ at run time), NVVM (compiles NVVM IR at run time), nvJitLink (");
	CHECK_CONTAINS(said, "Looks good");
	CHECK_INT(run(environment, "--json toolkit"), 0);
	CHECK_CONTAINS(said, "\"toolkit\"");
	// Tests the reported version, and a toolkit that is too old for the build.
	write_file("toolkit/include/cuda.h", "// CUDA_VERSION\n#define CUDA_VERSION 13020\n", 0600);
	CHECK_INT(run(environment, "toolkit"), 0);
	CHECK_CONTAINS(said, "ok       nvcc 13.2 at /");
	write_file("toolkit/include/cuda.h", "#define CUDA_VERSION 11080\n", 0600);
	CHECK_INT(run(environment, "toolkit"), 0);
	CHECK_CONTAINS(said, "ok       nvcc 11.8 (too old for building Virgate) at /");
	// CUDA_HOME has no nvcc. PATH is searched last: on a machine with /usr/local/cuda, the doctor finds that one
	// first.
	snprintf(environment, sizeof environment, "%s CUDA_HOME=%s PATH=/usr/bin:/bin::%s/toolkit/bin", none, directory,
		 directory);
	CHECK_INT(run(environment, "toolkit"), 0);
	if (access("/usr/local/cuda/bin/nvcc", X_OK) == 0) {
		CHECK_CONTAINS(said, " at /usr/local/cuda/bin/nvcc; not found: ");
	} else if (access("/usr/bin/nvcc", X_OK) != 0) {
		CHECK_CONTAINS(said, expected + strlen("ok       nvcc "));
	}
}

// Returns the line of one check: its verdict, what the doctor found, and the fix.
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

// The doctor checks the interposer by running a program from PATH. Without such a program it warns, and still succeeds.
TEST(a_warning_is_no_failure)
{
	CHECK_INT(run("PATH=/nonexistent", "quota"), 0);
	CHECK_CONTAINS(said, "Looks good, with ");
	CHECK_CONTAINS(line_of("interposer"), "warning  ");
	CHECK_CONTAINS(line_of("interposer"), "there is no program true in PATH; add ");
}

TEST(the_driver_and_the_gpu_are_described)
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
	CHECK_STR(line_of("GPU 1 persistence mode"), "warning  off: every restore starts the driver again; "
						     "nvidia-smi -pm 1, or run nvidia-persistenced");
}

TEST(a_machine_without_a_driver_gets_advice)
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

// Tests the warning about MPS. The doctor recognizes the MPS control daemon by the name of a process, which the kernel
// truncates.
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
	CHECK_STR(line_of("MPS"),
		  "warning  runs: its clients cannot be checkpointed; start the programs to "
		  "checkpoint without CUDA_MPS_PIPE_DIRECTORY, or end MPS: echo quit | nvidia-cuda-mps-control");
}

TEST(an_interposer_that_does_not_load_fails)
{
	char environment[PATH_MAX + 32];

	script("libvirgate-cuda.so", "this is no library");
	snprintf(environment, sizeof environment, "VIRGATE_LIBDIR=%s", directory);
	CHECK_INT(run(environment, "quota"), 1);
	CHECK_CONTAINS(line_of("interposer"), "failed   ");
	CHECK_CONTAINS(line_of("interposer"), "libvirgate-cuda.so does not load: ");
	CHECK_CONTAINS(line_of("interposer"), "; install Virgate for this machine's C library");
}

TEST(the_daemon_and_its_ledgers_are_checked)
{
	char ledger[PATH_MAX];

	CHECK_INT(virgate("VIRGATE_SIM=1", "create one --memory 1G"), 0);
	int sound = run("", "quota");
	char answers[1024];
	snprintf(answers, sizeof answers, "%s", line_of("daemon"));
	snprintf(ledger, sizeof ledger, "%s/run/ledgers/one", directory);
	int cut = truncate(ledger, 100), damaged = run("", "quota");
	char vgpus[1024];
	snprintf(vgpus, sizeof vgpus, "%s", damaged == 1 ? line_of("vGPUs") : "");
	CHECK_INT(virgate("VIRGATE_SIM=1", "shutdown"), 0);
	CHECK_INT(sound, 0);
	CHECK_CONTAINS(answers, "ok       answers at ");
	CHECK_INT(cut, 0);
	CHECK_INT(damaged, 1);
	CHECK_STR(vgpus, "failed   the ledger of one is damaged; end its programs, then virgate rm --sim one and "
			 "create it again");
}

// Listens at the daemon's socket, and closes each connection without an answer.
TEST(a_daemon_that_does_not_answer_fails)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/run", directory);
	CHECK(mkdir(path, 0700) == 0 || errno == EEXIST);
	snprintf(address.sun_path, sizeof address.sun_path, "%s/run/virgated.sock", directory);
	// The daemon of the previous test is about to remove its socket.
	for (int i = 0; i < 1000 && access(address.sun_path, F_OK) == 0; i++)
		usleep(10000);
	CHECK(access(address.sun_path, F_OK) != 0);
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
	CHECK_CONTAINS(line_of("daemon"), "; virgate shutdown --sim; what runs goes on, and the next use starts "
					  "another");
}

// Checks that each line has a name, a value and a verdict, and a fix if and only if one is needed.
static void check_whole(const char *environment, const char *words)
{
	size_t failed = 0, warnings = 0, i;
	json_t *check;

	int code = run(environment, words);
	json_t *report = json_loads(said, 0, NULL);
	CHECK(report != NULL);
	json_array_foreach(json_object_get(report, "checks"), i, check) {
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

TEST(each_check_has_all_columns)
{
	check_whole("", "--json");
	check_whole("VIRGATE_CRIU=/nonexistent VIRGATE_LIBDIR=/nonexistent", "--json");
	check_whole("VIRGATE_SIM=devices=16,mig=1,persistence=0,cc=7.0,driver=12080", "--json --dir /nonexistent");
	check_whole("PATH=/nonexistent", "--json");
}

TEST(the_program_prints_json)
{
	CHECK_INT(run("", "quota --json"), 0);
	CHECK_CONTAINS(said, "\"schema\": 1");
	CHECK_CONTAINS(said, "\"failed\": 0");
	CHECK_CONTAINS(said, "\"set\": \"quota\"");
	CHECK_CONTAINS(said, "\"compute shares\"");
}

// Runs the doctor where a file system with these options is mounted over /dev/shm.
static int run_with_shm(const char *options)
{
	char environment[256];

	snprintf(environment, sizeof environment,
		 "unshare -m sh -c 'mount -t tmpfs -o %s none /dev/shm && exec \"$0\" \"$@\"'", options);
	return run(environment, "quota");
}

TEST(the_huge_pages_of_the_visible_mount_are_shown)
{
	if (system("unshare -m mount -t tmpfs -o huge=advise none /dev/shm 2>/dev/null") != 0)
		SKIP("this user cannot mount a file system with huge pages");
	CHECK_INT(run_with_shm("huge=never"), 0);
	CHECK_CONTAINS(said, "none in /dev/shm; suspensions, dumps and migrations");
	CHECK_INT(run_with_shm("huge=within_size,size=16m"), 0);
	CHECK_CONTAINS(said, "/dev/shm is mounted with huge=within_size\n");
}
