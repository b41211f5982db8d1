// Dumps a shell job with --shell-job, and restores it on the terminal of the restore.
#include <pty.h>
#include <stdlib.h>
#include <unistd.h>

#include "checkpoint_test.h"

// Runs `work` in a process that leads a new terminal, whose output is discarded.
static pid_t on_terminal(void (*work)(const char *), const char *argument)
{
	int terminal;
	pid_t pid = forkpty(&terminal, NULL, NULL, NULL);

	CHECK(pid >= 0);
	if (pid == 0) {
		work(argument);
		_exit(127);
	}
	pid_t reader = fork();
	if (reader == 0) {
		char dropped[256];
		while (read(terminal, dropped, sizeof dropped) > 0)
			;
		_exit(0);
	}
	close(terminal);
	return pid;
}

static void shell(const char *rounds)
{
	pid_t job = fork();

	if (job == 0) {
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
		execl(SUBJECT, SUBJECT, rounds, NULL);
		_exit(127);
	}
	char text[16];
	snprintf(text, sizeof text, "%d", (int)job);
	write_text("job", text);
	while (waitpid(job, NULL, 0) < 0 && errno == EINTR)
		;
	_exit(0);
}

static void restore(const char *image)
{
	execl(VIRGATE, "virgate", "restore", "--dir", image, NULL);
}

static pid_t job_of_shell(void)
{
	char text[16];

	for (int i = 0; i < 1000; i++) {
		if (vg_file_read(path_of("job"), text, sizeof text) > 0)
			return (pid_t)atoi(text);
		usleep(10000);
	}
	FAIL("the shell started nothing");
}

TEST(a_shell_job_is_restored_on_another_terminal)
{
	need_criu();
	pid_t guard = on_terminal(shell, path_of("rounds")), pid = job_of_shell();

	check_goes_on(path_of("rounds"));
	CHECK_RUN("dump --pid %d --dir %s --shell-job", (int)pid, path_of("image"));
	waitpid(guard, NULL, 0);
	CHECK(run("restore --dir %s --detach", path_of("image")) != 0);
	// The failed restore may have created a process with this pid, which the test must reap.
	while (waitpid(pid, NULL, 0) == pid)
		;
	CHECK(strstr(said, "it hangs on a terminal: restore it from one, and without --detach") != NULL);

	pid_t restorer = on_terminal(restore, path_of("image"));
	check_goes_on(path_of("rounds"));
	// The restore forwards SIGTERM to the process, and returns its exit status.
	CHECK_INT(kill(restorer, SIGTERM), 0);
	CHECK_CHILD(restorer);
}
