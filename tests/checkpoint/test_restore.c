// A restore fails once at every step, in each of the ways it can, with the CRIU of this machine: nobody is left, or can
// be brought back, and the image is as it was.
#include "checkpoint_test.h"

static void setup(void)
{
	need_criu();
	setenv("VIRGATE_LIBDIR", BUILD, 1);
	unsetenv("VIRGATE_SIM_FAULT");
}

// A subject that has gone into an image.
static struct subject dumped(const char *rounds, const char *image, const char *kinds)
{
	struct subject subject = start_subject_with(path_of(rounds), kinds);

	check_goes_on(path_of(rounds));
	if (run("dump --pid %d --dir %s", (int)subject.pid, path_of(image)))
		FAIL("dump: %s", said);
	wait_gone(subject.pid);
	return subject;
}

static int coordinate(pid_t pid, const char *image, const char *phase, const char *what)
{
	char command[PATH_MAX + 256];

	snprintf(command, sizeof command, "exec %s restore %d %s %s %s 2>&1", COORDINATOR, (int)pid, path_of(image), phase,
		 what);
	FILE *output = popen(command, "re");
	CHECK(output != NULL);
	said[fread(said, 1, sizeof said - 1, output)] = '\0';
	int status = pclose(output);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// That the image was not harmed: it goes on from there, where it was.
static void check_image(struct subject subject, const char *rounds, const char *image)
{
	if (run("restore --detach --dir %s", path_of(image)))
		FAIL("restore: %s", said);
	check_goes_on(path_of(rounds));
	kill(-subject.pid, SIGKILL);
	wait_gone(subject.pid);
}

TEST(a_wish_to_stop_is_heeded_as_long_as_nobody_is_made)
{
	static const char *const steps[] = {"verify", "host-in"};

	setup();
	struct subject subject = dumped("stop", "stopped", "");
	for (int i = 0; i < 2; i++) {
		CHECK_INT(coordinate(subject.pid, "stopped", steps[i], "stop"), 1);
		CHECK_CONTAINS(said, steps[i]);
		CHECK(is_gone(subject.pid));
		check_image(subject, "stop", "stopped");
	}
	// Later it is not asked any more.
	CHECK_INT(coordinate(subject.pid, "stopped", "device-in", "stop"), 0);
	check_goes_on(path_of("stop"));
	end_subject(subject);
}

TEST(after_kill_9_nobody_is_left_or_can_be_brought_back)
{
	static const char *const steps[] = {"verify", "host-in", "device-in", "unlock"};

	setup();
	struct subject subject = dumped("kill", "killed", "cuda-child");
	for (int i = 0; i < 4; i++) {
		if (coordinate(subject.pid, "killed", steps[i], "kill") != -SIGKILL)
			FAIL("%s: %s", steps[i], said);
		CHECK_INT(is_gone(subject.pid), i < 2);
		if (i >= 2) {
			CHECK_INT(run("recover --pid %d", (int)subject.pid), 0);
			CHECK_CONTAINS(said, "and 1 more run again");
			check_goes_on(path_of("kill"));
			check_goes_on(path_of("kill.child"));
			kill(-subject.pid, SIGKILL);
			wait_gone(subject.pid);
		}
		check_image(subject, "kill", "killed");
	}
	waitpid(subject.guard, NULL, 0);
}

TEST(each_call_of_the_driver_fails_once_and_nobody_is_left)
{
	static const struct {
		const char *fault, *step, *code;
	} cases[] = {
		{"cuCheckpointProcessRestore=CUDA_ERROR_OUT_OF_MEMORY", "step device-in", "CUDA_ERROR_OUT_OF_MEMORY"},
		{"cuCheckpointProcessRestore=CUDA_ERROR_INVALID_VALUE", "step device-in", "CUDA_ERROR_INVALID_VALUE"},
		{"cuCheckpointProcessUnlock=CUDA_ERROR_UNKNOWN", "step unlock", "CUDA_ERROR_UNKNOWN"},
	};

	setup();
	struct subject subject = dumped("driver", "faulty", "");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		setenv("VIRGATE_SIM_FAULT", cases[i].fault, 1);
		int r = run("restore --detach --dir %s", path_of("faulty"));
		unsetenv("VIRGATE_SIM_FAULT");
		if (r != 125)
			FAIL("%s: %d: %s", cases[i].fault, r, said);
		CHECK_CONTAINS(said, cases[i].step);
		CHECK_CONTAINS(said, cases[i].code);
		CHECK_CONTAINS(said, "the processes were ended, and the image is as it was");
		CHECK(is_gone(subject.pid));
	}
	check_image(subject, "driver", "faulty");
	waitpid(subject.guard, NULL, 0);
}

TEST(a_process_that_ends_in_the_midst_leaves_nobody)
{
	setup();
	struct subject subject = dumped("ends", "ended", "child");
	CHECK_INT(coordinate(subject.pid, "ended", "device-in", "end"), 1);
	CHECK_CONTAINS(said, "the processes were ended");
	CHECK(is_gone(subject.pid));
	check_image(subject, "ends", "ended");
	waitpid(subject.guard, NULL, 0);
}

// A CRIU that does its work, and what `after` says then.
static void wrap_criu(const char *after)
{
	const char *criu = getenv("VIRGATE_CRIU");
	char text[2 * PATH_MAX];

	snprintf(text, sizeof text, "#!/bin/sh\n%s \"$@\"\nr=$?\ncase $1 in restore) %s;; esac\nexit $r\n",
		 criu && *criu ? criu : "criu", after);
	write_text("criu", text);
	CHECK_INT(chmod(path_of("criu"), 0755), 0);
	setenv("VIRGATE_CRIU", path_of("criu"), 1);
}

TEST(a_criu_that_fails_leaves_nobody)
{
	setup();
	const char *before = getenv("VIRGATE_CRIU");
	char *kept = before ? strdup(before) : NULL;
	struct subject subject = dumped("criu-fails", "unmade", "");

	wrap_criu("kill -9 $(cat $STANDIN/pid); exit 1");
	char pid[16];
	snprintf(pid, sizeof pid, "%d", (int)subject.pid);
	write_text("pid", pid);
	CHECK_INT(run("restore --detach --dir %s", path_of("unmade")), 125);
	CHECK_CONTAINS(said, "step host-in");
	CHECK_CONTAINS(said, "CRIU restore");
	usleep(200000);
	CHECK(is_gone(subject.pid));
	unsetenv("VIRGATE_CRIU");
	if (kept)
		setenv("VIRGATE_CRIU", kept, 1);
	check_image(subject, "criu-fails", "unmade");
	// The coordinator dies while CRIU is at work, which ends it: the processes stand still, and can be brought
	// back.
	wrap_criu("kill -9 $PPID");
	CHECK_INT(run("restore --detach --dir %s", path_of("unmade")), 128 + SIGKILL);
	CHECK_INT(kill(subject.pid, 0), 0);
	CHECK_INT(run("recover --pid %d", (int)subject.pid), 0);
	CHECK_CONTAINS(said, "runs again");
	check_goes_on(path_of("criu-fails"));
	kill(-subject.pid, SIGKILL);
	wait_gone(subject.pid);
	unsetenv("VIRGATE_CRIU");
	if (kept)
		setenv("VIRGATE_CRIU", kept, 1);
	free(kept);
	waitpid(subject.guard, NULL, 0);
}

// The driver maps GPUs only for who sees them all; it says so when it is late, and nobody is left half way.
TEST(a_process_that_sees_a_part_of_the_gpus_is_not_moved)
{
	setup();
	setenv("VIRGATE_SIM", "devices=2,driver=13000", 1);
	setenv("VIRGATE_SIM_DIR", path_of("node2"), 1);
	setenv("CUDA_VISIBLE_DEVICES", "0", 1);
	struct subject subject = start_subject(path_of("masked"));
	unsetenv("CUDA_VISIBLE_DEVICES");
	check_goes_on(path_of("masked"));
	CHECK_INT(run("dump --pid %d --dir %s", (int)subject.pid, path_of("mask")), 0);
	wait_gone(subject.pid);
	CHECK_INT(run("restore --detach --dir %s --gpu-map 0=1 --gpu-map 1=0", path_of("mask")), 125);
	CHECK_CONTAINS(said, "CUDA_ERROR_INVALID_VALUE");
	CHECK_CONTAINS(said, "the image is as it was");
	CHECK(is_gone(subject.pid));
	check_image(subject, "masked", "mask");
	waitpid(subject.guard, NULL, 0);
	setenv("VIRGATE_SIM", "1", 1);
	setenv("VIRGATE_SIM_DIR", path_of("node"), 1);
}
