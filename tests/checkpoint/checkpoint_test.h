// Helpers of the checkpoint tests: a test directory, the subject (the CUDA program that is dumped, subject.c), and the
// program virgate on the simulated GPU.
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "verb_test.h"

static char directory[] = "/tmp/virgate-checkpoint.XXXXXX";

__attribute__((constructor)) static void make_test_directory(void)
{
	char path[PATH_MAX];

	if (!mkdtemp(directory))
		abort();
	// Make the test the parent of orphans, since the init of some machines does not reap them.
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	snprintf(path, sizeof path, "%s/node", directory);
	setenv("STANDIN", directory, 1);
	setenv("VIRGATE_SIM", "1", 1);
	setenv("VIRGATE_SIM_DIR", path, 1);
}

__attribute__((destructor)) static void remove_directory(void)
{
	char command[128];

	if (getpid() != test_pid)
		return;
	snprintf(command, sizeof command, "rm -rf %s", directory);
	if (system(command))
		perror(directory);
}

static const char *path_of(const char *name)
{
	static char paths[4][PATH_MAX];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, PATH_MAX, "%s/%s", directory, name);
	return path;
}

__attribute__((unused)) static void write_text(const char *name, const char *text)
{
	FILE *file = fopen(path_of(name), "w");

	CHECK(file != NULL);
	fputs(text, file);
	CHECK_INT(fclose(file), 0);
}

__attribute__((unused)) static const char *text_of(const char *name)
{
	static char text[8192];

	if (vg_file_read(path_of(name), text, sizeof text) < 0)
		text[0] = '\0';
	return text;
}

struct subject {
	pid_t guard, pid; // the guard is the subject's parent, and reaps it
};

static pid_t guarded;

static void end_guarded(int signal)
{
	kill(-guarded, SIGKILL);
	_exit(1);
}

// Starts the subject without the test's descriptors and terminal. If the subject kept the test's output open, a failed
// test would seem to hang. The subject ends with the test. `kinds`: names of subject_kinds.c, separated by spaces.
static struct subject start_subject_with(const char *rounds, const char *kinds)
{
	struct subject subject = {0};
	int ends[2];

	CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
	fflush(stdout);
	subject.guard = fork();
	if (subject.guard == 0) {
		pid_t pid = guarded = fork();
		if (pid == 0) {
			int null = open("/dev/null", O_RDWR);
			char log[PATH_MAX];
			snprintf(log, sizeof log, "%s.log", rounds);
			setsid();
			dup2(null, 0);
			dup2(open(log, O_CREAT | O_WRONLY | O_TRUNC, 0600), 1);
			dup2(1, 2);
			for (int fd = 3; fd < 1024; fd++)
				close(fd);
			char words[256], *next = words, *argv[16] = {SUBJECT, (char *)rounds};
			snprintf(words, sizeof words, "%s", kinds);
			for (int i = 2; i < 15 && next && *next; i++)
				argv[i] = strsep(&next, " ");
			execv(SUBJECT, argv);
			_exit(127);
		}
		signal(SIGTERM, end_guarded);
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (write(ends[1], &pid, sizeof pid) != sizeof pid)
			_exit(1);
		for (int status; waitpid(pid, &status, 0) < 0 && errno == EINTR;)
			;
		_exit(0);
	}
	close(ends[1]);
	CHECK_INT(read(ends[0], &subject.pid, sizeof subject.pid), sizeof subject.pid);
	close(ends[0]);
	return subject;
}

__attribute__((unused)) static struct subject start_subject(const char *rounds)
{
	return start_subject_with(rounds, "");
}

__attribute__((unused)) static uint32_t round_of(const char *rounds)
{
	uint32_t round = 0;
	_cleanup_close_ int fd = open(rounds, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && pread(fd, &round, sizeof round, 0) == sizeof round ? round : 0;
}

// Checks that the subject runs for two more rounds, in each of which it checks all its memory.
__attribute__((unused)) static void check_goes_on(const char *rounds)
{
	uint64_t end = vg_clock_monotonic_ns() + UINT64_C(60000000000);
	uint32_t before = round_of(rounds);

	while (round_of(rounds) < before + 2) {
		CHECK(vg_clock_monotonic_ns() < end);
		usleep(10000);
	}
}

// Reaps children of the process group `pid`. Returns whether neither the process `pid` nor its group exists any more.
static bool is_gone(pid_t pid)
{
	while (waitpid(-pid, NULL, WNOHANG) > 0)
		;
	return kill(pid, 0) != 0 && kill(-pid, 0) != 0;
}

__attribute__((unused)) static void wait_gone(pid_t pid)
{
	for (int i = 0; i < 3000 && !is_gone(pid); i++)
		usleep(10000);
	CHECK(is_gone(pid));
}

__attribute__((unused)) static void end_subject(struct subject subject)
{
	// The subject leads a session, so this kills its children, too.
	kill(-subject.pid, SIGKILL);
	kill(-subject.pid, SIGCONT);
	waitpid(subject.guard, NULL, 0);
	wait_gone(subject.pid);
}

__attribute__((unused)) static void need_criu(void)
{
	CHECK(run("doctor cuda --json") <= 1);
	const char *criu = strstr(said, "\"name\": \"CRIU\"");
	CHECK(criu != NULL);
	const char *status = strstr(criu, "\"status\": ");
	CHECK(status != NULL);
	if (strncmp(status, "\"status\": \"ok\"", 14) != 0)
		SKIP("no CRIU that is new enough for this kernel: install one, or name it in VIRGATE_CRIU");
	if (geteuid() != 0)
		SKIP("CRIU needs rights that this user has not");
}

// Creates a vGPU in a daemon that belongs to the test. `virgate shutdown` ends the daemon.
__attribute__((unused)) static void with_vgpu(const char *name)
{
	setenv("VIRGATE_RUNTIME_DIR", path_of("run"), 1);
	setenv("VIRGATE_STATE_DIR", path_of("state"), 1);
	if (run("create %s --memory 512M", name))
		FAIL("create %s: %s", name, said);
}

// Starts a subject as a child of virgate run, whose pid is *ret_run. Returns the pid of the subject, which leads a
// session.
__attribute__((unused)) static pid_t start_in_vgpu(const char *vgpu, const char *rounds, const char *kind,
						   pid_t *ret_run)
{
	char path[64], text[32] = "";

	fflush(stdout);
	*ret_run = fork();
	if (*ret_run == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		setsid();
		dup2(open("/dev/null", O_RDWR), 0);
		dup2(open("/dev/null", O_RDWR), 1);
		dup2(1, 2);
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
		execl(VIRGATE, VIRGATE, "run", "--vgpu", vgpu, "--", "setsid", SUBJECT, rounds, *kind ? kind : NULL,
		      (char *)NULL);
		_exit(127);
	}
	check_goes_on(rounds);
	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)*ret_run, (int)*ret_run);
	CHECK(vg_file_read(path, text, sizeof text) > 0);
	return atoi(text);
}

__attribute__((unused)) static int end_of_run(pid_t run)
{
	int status = 0;

	CHECK_INT(waitpid(run, &status, 0), run);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static inline void flip_bit(const char *path, uint64_t at, int bit)
{
	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC);
	unsigned char byte;

	CHECK(fd >= 0);
	CHECK_INT(pread(fd, &byte, 1, (off_t)at), 1);
	byte ^= (unsigned char)(1 << bit);
	CHECK_INT(pwrite(fd, &byte, 1, (off_t)at), 1);
}

__attribute__((unused)) static void wait_for_file(const char *name)
{
	for (int i = 0; i < 1000 && access(path_of(name), F_OK) < 0; i++)
		usleep(10000);
	CHECK_INT(access(path_of(name), F_OK), 0);
}

// Starts a receiver of processes, and waits until it listens. If `standin` is not NULL, it is the directory of the
// receiver's stand-in for CRIU.
__attribute__((unused)) static pid_t start_receiver(const char *standin)
{
	char from[PATH_MAX + 8];

	snprintf(from, sizeof from, "unix:%s", path_of("socket"));
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		if (standin)
			setenv("STANDIN", standin, 1);
		dup2(open(path_of("far.log"), O_CREAT | O_WRONLY | O_TRUNC, 0600), 1);
		dup2(1, 2);
		execl(VIRGATE, VIRGATE, "restore", "--from", from, "--detach", (char *)NULL);
		_exit(127);
	}
	wait_for_file("socket");
	return pid;
}
