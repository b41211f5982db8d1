// Creates a stopped process with a given pid, as a restore does. Usage: again PID. The process does nothing, and exits
// with 7 on SIGTERM. Exit code 77: this user may not choose pids.
#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal)
{
	(void)signal;
	_exit(7);
}

int main(int argc, char **argv)
{
	pid_t wanted = argc == 2 ? atoi(argv[1]) : 0;
	struct clone_args how = {.exit_signal = SIGCHLD, .set_tid = (__u64)(unsigned long)&wanted, .set_tid_size = 1};

	if (wanted < 1)
		return 2;
	// Retry while the pid is taken. An earlier process with this pid may have ended without being reaped yet.
	long pid = syscall(SYS_clone3, &how, sizeof how);
	for (int i = 0; pid < 0 && errno == EEXIST && i < 500; i++) {
		usleep(10000);
		pid = syscall(SYS_clone3, &how, sizeof how);
	}
	if (pid < 0) {
		perror("again");
		return errno == EPERM ? 77 : 1;
	}
	// Wait until the child is stopped before this process exits, because its caller may continue the child at once.
	if (pid > 0)
		return waitpid((pid_t)pid, NULL, WUNTRACED) == pid ? 0 : 1;
	setsid();
	for (int fd = 0; fd < 1024; fd++)
		close(fd);
	signal(SIGTERM, end);
	raise(SIGSTOP);
	for (;;)
		pause();
}
