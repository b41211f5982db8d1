// Helpers of the tests of migrations. They start an idle process, check its state, and run both sides of a migration
// with the stand-in for CRIU. Include in exactly one file per program.
#pragma once
#include <glob.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "checkpoint_test.h"

// ---- an idle process ---------------------------------------------------------------------------------

static struct subject idle;
static uint64_t idle_since;

static void start_idle(void)
{
	int ends[2];

	CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
	fflush(stdout);
	idle.guard = fork();
	if (idle.guard == 0) {
		int null = open("/dev/null", O_RDWR);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		// Close the test's output in this process, because its reader waits until no process has it open.
		for (int fd = 0; fd < 3; fd++)
			dup2(null, fd);
		pid_t pid = fork();
		if (pid == 0) {
			setsid();
			for (int fd = 0; fd < 1024; fd++)
				close(fd);
			for (;;)
				pause();
		}
		if (write(ends[1], &pid, sizeof pid) != sizeof pid)
			_exit(1);
		waitpid(pid, NULL, 0);
		_exit(0);
	}
	CHECK_INT(read(ends[0], &idle.pid, sizeof idle.pid), sizeof idle.pid);
	close(ends[0]);
	close(ends[1]);
	CHECK_INT(vg_process_start_time(idle.pid, &idle_since), 0);
}

static char state_of(pid_t pid)
{
	char path[64], text[4096];

	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	if (vg_file_read(path, text, sizeof text) < 0)
		return '-';
	const char *state = strstr(text, "\nState:\t");
	return state ? state[8] : '?';
}

static bool is_first_one(void)
{
	uint64_t since;

	return vg_process_start_time(idle.pid, &since) == 0 && since == idle_since;
}

static bool no_scratch(void)
{
	glob_t found = {0};
	char pattern[PATH_MAX];

	snprintf(pattern, sizeof pattern, "%s/virgate-*", path_of("tmp"));
	bool none = glob(pattern, 0, NULL, &found) == GLOB_NOMATCH;
	globfree(&found);
	return none;
}

// Checks that the process is not stopped: it must be sleeping soon. It may run for a moment before that.
static void check_sleeps(void)
{
	for (int i = 0; i < 1000 && state_of(idle.pid) != 'S'; i++)
		usleep(10000);
	CHECK(state_of(idle.pid) == 'S');
}

// Checks that the process is the same as before the migration, and that the migration left no files.
__attribute__((unused)) static void check_untouched(void)
{
	CHECK(is_first_one());
	check_sleeps();
	CHECK(no_scratch());
}

// Checks that the original process has ended, and that another process was created with its pid.
__attribute__((unused)) static void check_made_again(void)
{
	CHECK(!is_first_one());
	check_sleeps();
}

static void end_idle(void)
{
	kill(idle.pid, SIGKILL);
	waitpid(idle.guard, NULL, 0);
	wait_gone(idle.pid);
}

// ---- two sides ---------------------------------------------------------------------------------------

static void set_up(void)
{
	char pid[16];

	mkdir(path_of("tmp"), 0700);
	mkdir(path_of("far"), 0700);
	setenv("TMPDIR", path_of("tmp"), 1);
	setenv("VIRGATE_CRIU", STANDIN_PROGRAM, 1);
	setenv("AGAIN", AGAIN, 1);
	static const char *const files[] = {"fail", "said", "version", "far/fail", "far/said", "far/version", "socket"};
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		unlink(path_of(files[i]));
	start_idle();
	snprintf(pid, sizeof pid, "%d", (int)idle.pid);
	write_text("again", pid);
	write_text("far/again", pid);
}

__attribute__((unused)) static void need_pids(void)
{
	if (geteuid() != 0)
		SKIP("only root may make a process with a certain pid");
}

// Starts the receiver. Its stand-in for CRIU has a directory of its own.
__attribute__((unused)) static pid_t start_far_side(void)
{
	return start_receiver(path_of("far"));
}

__attribute__((unused)) static int end_of(pid_t pid)
{
	int status = 0;

	CHECK_INT(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

__attribute__((unused)) static int migrate(void)
{
	return run("migrate --pid %d --cpu-only --to unix:%s", (int)idle.pid, path_of("socket"));
}

// ---- the socket between them -------------------------------------------------------------------------

static struct sockaddr_un address(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof address.sun_path, "%s", path_of("socket"));
	return address;
}

// Starts a listener that never answers.
__attribute__((unused)) static int start_silent(void)
{
	struct sockaddr_un where = address();
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	unlink(path_of("socket"));
	CHECK_INT(bind(listener, (struct sockaddr *)&where, sizeof where), 0);
	CHECK_INT(listen(listener, 1), 0);
	return listener;
}
