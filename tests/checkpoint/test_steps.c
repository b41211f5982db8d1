// Tests the order of the steps, and what a failure rolls back, with a stand-in for CRIU that the test controls.
#include "checkpoint_test.h"

static void standin(void)
{
	setenv("VIRGATE_CRIU", STANDIN_PROGRAM, 1);
	unlink(path_of("fail"));
	unlink(path_of("said"));
	unlink(path_of("version"));
}

static const char *standin_said(void)
{
	static char text[4096];

	if (vg_file_read(path_of("said"), text, sizeof text) < 0)
		text[0] = '\0';
	return text;
}

static bool exists(const char *name)
{
	return access(path_of(name), F_OK) == 0;
}

// Checks that no draft of the image is left.
static void check_no_parts(const char *name)
{
	char command[PATH_MAX + 64];

	snprintf(command, sizeof command, "ls -d %s.part-* >/dev/null 2>&1", path_of(name));
	CHECK(system(command) != 0);
}

TEST(a_dump_ends_the_process_and_leaves_an_image)
{
	standin();
	struct subject subject = start_subject(path_of("rounds"));
	char wanted[64];

	check_goes_on(path_of("rounds"));
	CHECK_RUN("dump --pid %d --dir %s --json", (int)subject.pid, path_of("image"));
	CHECK_CONTAINS(said, "\"cuda_processes\": 1");
	CHECK_CONTAINS(said, "\"host-out\"");
	snprintf(wanted, sizeof wanted, "dump %d\n", (int)subject.pid);
	CHECK_STR(standin_said(), wanted);
	wait_gone(subject.pid);
	CHECK(exists("image/virgate.json"));
	CHECK(exists("image/tree-0/pages-1.img"));
	check_no_parts("image");
	struct stat info;
	CHECK_INT(stat(path_of("image"), &info), 0);
	CHECK_INT(info.st_mode & 0777, 0700);
	CHECK_INT(stat(path_of("image/tree-0/pages-1.img"), &info), 0);
	CHECK_INT(info.st_mode & 0777, 0600);
	// An image with this name exists, so the next dump must fail and leave it.
	CHECK_INT(run("dump --pid %d --dir %s", (int)getpid(), path_of("image")), 1);
	end_subject(subject);
}

TEST(a_dump_can_leave_the_process_running)
{
	standin();
	struct subject subject = start_subject(path_of("rounds2"));

	check_goes_on(path_of("rounds2"));
	for (int i = 0; i < 2; i++) {
		char name[32];
		snprintf(name, sizeof name, "left%d", i);
		CHECK_RUN("dump --pid %d --dir %s --leave-running", (int)subject.pid, path_of(name));
		check_goes_on(path_of("rounds2"));
	}
	end_subject(subject);
}

TEST(device_memory_is_never_left_out)
{
	standin();
	struct subject subject = start_subject(path_of("with-cuda"));

	// After these rounds, the subject uses a GPU.
	check_goes_on(path_of("with-cuda"));
	CHECK_INT(run("dump --pid %d --dir %s --cpu-only --leave-running --json", (int)subject.pid, path_of("both")),
		  0);
	CHECK_CONTAINS(said, "\"cuda_processes\": 1");
	CHECK_CONTAINS(said, "\"device-out\"");
	check_goes_on(path_of("with-cuda"));
	end_subject(subject);
}

TEST(an_image_cannot_have_the_name_of_a_draft)
{
	standin();
	struct subject subject = start_subject(path_of("named"));

	check_goes_on(path_of("named"));
	CHECK_INT(run("dump --pid %d --dir %s --leave-running", (int)subject.pid, path_of("x.part-000001")), 1);
	CHECK_CONTAINS(said, "name another directory");
	CHECK(!exists("x.part-000001"));
	// Only the last component of the path is the name of the image.
	CHECK_INT(mkdir(path_of("y.part-1"), 0700), 0);
	CHECK_RUN("dump --pid %d --dir %s --leave-running", (int)subject.pid, path_of("y.part-1/image"));
	check_goes_on(path_of("named"));
	end_subject(subject);
}

TEST(a_criu_that_fails_costs_nothing)
{
	standin();
	write_text("fail", "dump\n");
	struct subject subject = start_subject(path_of("rounds3"));

	check_goes_on(path_of("rounds3"));
	CHECK_INT(run("dump --pid %d --dir %s", (int)subject.pid, path_of("failed")), 1);
	CHECK_CONTAINS(said, "step host-out");
	CHECK_CONTAINS(said, "told to fail");
	CHECK_CONTAINS(said, "run on as before");
	CHECK(!exists("failed"));
	check_no_parts("failed");
	check_goes_on(path_of("rounds3"));
	end_subject(subject);
}

// Each driver call of the move off the GPU fails once. All steps before it are rolled back.
TEST(a_driver_that_refuses_costs_nothing)
{
	static const char *const calls[] = {"cuCheckpointProcessLock", "cuCheckpointProcessCheckpoint"};

	standin();
	struct subject subject = start_subject(path_of("rounds4"));
	check_goes_on(path_of("rounds4"));
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		char fault[128];
		snprintf(fault, sizeof fault, "%s:1=CUDA_ERROR_UNKNOWN", calls[i]);
		setenv("VIRGATE_SIM_FAULT", fault, 1);
		CHECK_INT(run("dump --pid %d --dir %s", (int)subject.pid, path_of("refused")), 1);
		unsetenv("VIRGATE_SIM_FAULT");
		CHECK_CONTAINS(said, calls[i]);
		CHECK_CONTAINS(said, "run on as before");
		CHECK(!exists("refused"));
		check_no_parts("refused");
		CHECK_STR(standin_said(), "");
		check_goes_on(path_of("rounds4"));
	}
	end_subject(subject);
}

TEST(invalid_options_are_refused)
{
	static const char *const levels[] = {"zstd:99", "zstd:-1", "lz4:1", "zstd:", "zstd:x", "none:9999999999"};

	standin();
	for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
		CHECK_INT(run("dump --pid 4194304 --dir %s --compress %s", path_of("x"), levels[i]), 2);
		CHECK_CONTAINS(said, levels[i]);
	}
	CHECK_INT(run("dump --pid 4194304 --dir %s --compress zstd:99", path_of("x")), 2);
	CHECK_CONTAINS(said, "there are 1 to 22, and 0 for its own choice");
	CHECK_INT(run("dump --pid 4194304 --dir %s --compress zstd:0", path_of("x")), 1);
	// The compression level 0 is valid, so the message is about the process, which does not exist.
	CHECK_CONTAINS(said, "there is none");
	CHECK_INT(run("dump --pid 4194304 --vgpu v --dir %s", path_of("x")), 2);
	CHECK_CONTAINS(said, "give one of them");
	CHECK_INT(run("migrate --pid 4194304 --vgpu v --to unix:%s", path_of("x")), 2);
	CHECK_CONTAINS(said, "give one of them");
}

TEST(missing_processes_are_named)
{
	standin();
	CHECK_INT(run("dump --pid 4194304 --dir %s", path_of("x")), 1);
	CHECK_CONTAINS(said, "there is none");
	CHECK_INT(run("dump --pid 0 --dir %s", path_of("x")), 2);
	CHECK_INT(run("dump --pid %d", (int)getpid()), 2);
	CHECK_INT(run("dump --dir %s", path_of("x")), 2);
	// Starts a process without CUDA that does nothing.
	pid_t idle = fork();
	if (idle == 0) {
		pause();
		_exit(0);
	}
	CHECK_INT(run("dump --pid %d --dir %s", (int)idle, path_of("x")), 1);
	CHECK_CONTAINS(said, "does not use CUDA");
	CHECK_CONTAINS(said, "--cpu-only");
	CHECK_RUN("dump --pid %d --dir %s --cpu-only --leave-running", (int)idle, path_of("cpu"));
	CHECK(exists("cpu/virgate.json"));
	// A dump into a missing directory is refused.
	CHECK_INT(run("dump --pid %d --dir %s --cpu-only", (int)idle, path_of("nowhere/x")), 1);
	CHECK_CONTAINS(said, "/nowhere/x: No such file or directory: create its parent directory first");
	CHECK_INT(run("dump --pid %d --dir %s/%0250d --cpu-only", (int)idle, directory, 0), 1);
	CHECK_CONTAINS(said, "File name too long: give it a shorter name");
	CHECK(!strstr(said, ".part-"));
	kill(idle, SIGKILL);
	waitpid(idle, NULL, 0);
	CHECK(!exists("x"));
}

TEST(a_criu_that_is_too_old_is_refused_before_anything)
{
	standin();
	write_text("version", "3.17.1");
	struct subject subject = start_subject(path_of("rounds5"));

	check_goes_on(path_of("rounds5"));
	CHECK_INT(run("dump --pid %d --dir %s", (int)subject.pid, path_of("old")), 1);
	CHECK_CONTAINS(said, "3.17.1");
	CHECK(!exists("old"));
	check_goes_on(path_of("rounds5"));
	end_subject(subject);
}

// A restore of a refused image does not start CRIU.
TEST(an_image_that_is_not_whole_is_not_restored)
{
	standin();
	struct subject subject = start_subject(path_of("rounds6"));
	char pid[64], core[64];

	check_goes_on(path_of("rounds6"));
	CHECK_RUN("dump --pid %d --dir %s --leave-running", (int)subject.pid, path_of("damaged"));
	unlink(path_of("said"));
	CHECK_INT(run("restore --dir %s", path_of("damaged")), 125);
	snprintf(pid, sizeof pid, "pid %d", (int)subject.pid);
	CHECK_CONTAINS(said, pid);
	CHECK_CONTAINS(said, "is taken, by subject");
	// The pid stays used until the parent has reaped it.
	kill(subject.guard, SIGSTOP);
	CHECK_INT(waitpid(subject.guard, NULL, WUNTRACED), subject.guard);
	kill(subject.pid, SIGKILL);
	usleep(100000);
	CHECK_INT(run("restore --dir %s", path_of("damaged")), 125);
	snprintf(pid, sizeof pid, "process %d, does not wait", (int)subject.guard);
	CHECK_CONTAINS(said, pid);
	kill(subject.guard, SIGCONT);
	end_subject(subject);

	snprintf(core, sizeof core, "damaged/tree-0/core-%d.img", (int)subject.pid);
	flip_bit(path_of(core), 2, 0);
	CHECK_INT(run("restore --dir %s", path_of("damaged")), 125);
	CHECK_CONTAINS(said, ".img is damaged");
	flip_bit(path_of(core), 2, 0);
	write_text("damaged/tree-0/more.img", "x");
	CHECK_INT(run("restore --dir %s", path_of("damaged")), 125);
	CHECK_CONTAINS(said, "more.img is not of this image");
	unlink(path_of("damaged/tree-0/more.img"));
	CHECK_INT(rename(path_of("damaged/tree-0/pages-1.img"), path_of("pages")), 0);
	CHECK_INT(run("restore --dir %s", path_of("damaged")), 125);
	CHECK_CONTAINS(said, "lacks 1 of its");
	CHECK_INT(rename(path_of("pages"), path_of("damaged/tree-0/pages-1.img")), 0);
	CHECK_INT(run("restore --dir %s", path_of("none")), 125);
	CHECK_CONTAINS(said, "is no image");
	write_text("damaged/virgate.json", "{\"version\": 99}");
	CHECK_INT(run("restore --dir %s", path_of("damaged")), 125);
	CHECK_CONTAINS(said, "version 99");
	write_text("damaged/virgate.json", "{");
	CHECK_INT(run("restore --dir %s", path_of("damaged")), 125);
	CHECK_STR(standin_said(), "");
}

TEST(an_image_may_lie_behind_a_link)
{
	standin();
	struct subject subject = start_subject(path_of("linked"));

	check_goes_on(path_of("linked"));
	CHECK_INT(mkdir(path_of("real"), 0700), 0);
	CHECK_INT(symlink("real", path_of("link")), 0);
	CHECK_RUN("dump --pid %d --dir %s --leave-running", (int)subject.pid, path_of("link/image"));
	CHECK(exists("real/image/virgate.json"));
	end_subject(subject);
}
