#include "test.h"

#include "base/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

static char directory[64];

static const char *path_of(const char *name)
{
	static char path[128];

	if (!directory[0]) {
		strcpy(directory, "/tmp/virgate-test-XXXXXX");
		CHECK(mkdtemp(directory) != NULL);
	}
	snprintf(path, sizeof path, "%s/%s", directory, name);
	return path;
}

TEST(atomic_write_replaces_whole_file)
{
	const char *path = path_of("file");
	char text[16];
	struct stat status;

	CHECK_INT(vg_file_write_atomic(path, "a longer one", 12, 0644), 0);
	CHECK_INT(vg_file_write_atomic(path, "short", 5, 0600), 0);
	CHECK_INT(vg_file_read(path, text, sizeof text), 5);
	CHECK_STR(text, "short");
	CHECK(stat(path, &status) == 0);
	CHECK_INT(status.st_mode & 07777, 0600);
	unlink(path);
	CHECK_INT(rmdir(directory), 0); // fails if a temporary file is left
	directory[0] = '\0';
}

TEST(atomic_write_fails_without_directory)
{
	CHECK_INT(vg_file_write_atomic("/nonexistent/directory/file", "x", 1, 0600), -ENOENT);
}

TEST(read_refuses_file_larger_than_buffer)
{
	char text[8];

	CHECK_INT(vg_file_read("/proc/self/status", text, sizeof text), -EFBIG);
	CHECK_INT(vg_file_read("/nonexistent", text, sizeof text), -ENOENT);
}

TEST(raised_descriptor_is_high_and_close_on_exec)
{
	int fd = open("/dev/null", O_RDONLY);

	CHECK(fd >= 0);
	int high = vg_fd_raise_consume(fd);
	CHECK(high >= 512);
	CHECK(fcntl(high, F_GETFD) & FD_CLOEXEC);
	CHECK(fcntl(fd, F_GETFD) < 0 && errno == EBADF);
	close(high);
	CHECK_INT(vg_fd_raise_consume(-1), -EBADF);
}

TEST(start_time_is_read_despite_hostile_process_name)
{
	uint64_t before, after;

	CHECK_INT(vg_process_start_time(getpid(), &before), 0);
	CHECK(prctl(PR_SET_NAME, ") R 1 2 (") == 0);
	CHECK_INT(vg_process_start_time(getpid(), &after), 0);
	CHECK_INT(before, after);
	CHECK_INT(vg_process_start_time(0x3ffffff, &after), -ESRCH);
}

TEST(zombies_and_previous_owners_of_a_pid_are_dead)
{
	uint64_t start;
	int ready[2];

	CHECK(pipe(ready) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		char byte;
		close(ready[1]);
		(void)!read(ready[0], &byte, 1);
		_exit(0);
	}
	close(ready[0]);
	CHECK_INT(vg_process_start_time(child, &start), 0);
	CHECK(!vg_process_is_dead(child, start));
	// In a time namespace, a process may read a start time that differs by 1. The process must still count as
	// alive.
	CHECK(!vg_process_is_dead(child, start - 1));
	CHECK(!vg_process_is_dead(child, start + 1));
	// If the start time differs by 2, it belongs to an earlier process with this pid, which is dead.
	CHECK(vg_process_is_dead(child, start - 2));
	CHECK(vg_process_is_dead(child, start + 2));
	close(ready[1]);
	for (int i = 0; i < 500 && !vg_process_is_dead(child, start); i++)
		usleep(10000);
	CHECK(vg_process_is_dead(child, start)); // a zombie
	CHECK_INT(waitpid(child, NULL, 0), child);
	CHECK(vg_process_is_dead(child, start));
}

// Enters a time namespace that is three days ahead, and checks there that the start time of a process outside is
// recognised.
__attribute__((noreturn)) static void check_in_time_namespace(pid_t pid, uint64_t start)
{
	uint64_t now;
	int status;

	if (unshare(CLONE_NEWTIME) < 0)
		_exit(77);
	int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || dprintf(fd, "monotonic 259200 5000001\nboottime 259200 5000001\n") < 0)
		_exit(77);
	close(fd);
	pid_t inside = fork();
	if (inside == 0)
		_exit(vg_process_start_time(pid, &now) == 0 && vg_start_time_same(now, start) &&
				      !vg_process_is_dead(pid, start) && vg_process_is_dead(pid, start + 100)
			      ? 0
			      : 1);
	_exit(inside > 0 && waitpid(inside, &status, 0) == inside && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

TEST(start_time_does_not_depend_on_time_namespace)
{
	uint64_t start;
	int status;

	CHECK_INT(vg_process_start_time(getpid(), &start), 0);
	pid_t parent = getpid(), child = fork();
	if (child == 0)
		check_in_time_namespace(parent, start);
	CHECK_INT(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		SKIP("this user may not create a time namespace");
	CHECK(WIFEXITED(status));
	CHECK_INT(WEXITSTATUS(status), 0);
}

static void *sleep_forever(void *unused)
{
	pause();
	return unused;
}

TEST(process_is_alive_after_its_first_thread_ended)
{
	uint64_t start;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		pthread_t thread;
		pthread_create(&thread, NULL, sleep_forever, NULL);
		syscall(60 /* exit, this thread only */, 0);
	}
	CHECK_INT(vg_process_start_time(child, &start), 0);
	usleep(100000);
	bool dead = vg_process_is_dead(child, start);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	CHECK(!dead);
}

static int start_of_reader;
static volatile sig_atomic_t interruptions;

static void note_interruption(int signal)
{
	if (++interruptions == 3)
		(void)!write(start_of_reader, "", 1);
}

// Interrupts a write with signals. The pipe is full until the third signal, so some signals interrupt the write before
// it has written anything.
TEST(write_continues_after_signals)
{
	const struct sigaction action = {.sa_handler = note_interruption}; // without SA_RESTART
	const struct itimerval every = {{0, 10000}, {0, 10000}}, never = {0};
	static char data[1 << 20];
	int start[2], pipes[2], status;

	CHECK(pipe(start) == 0 && pipe(pipes) == 0);
	pid_t reader = fork();
	if (reader == 0) {
		close(start[1]); // close this process's copy, so that the child ends when the test fails
		close(pipes[1]);
		_exit(read(start[0], data, 1) != 1 || vg_read_all(pipes[0], data, sizeof data, -1) != sizeof data);
	}
	start_of_reader = start[1];
	CHECK_INT(sigaction(SIGALRM, &action, NULL), 0);
	CHECK_INT(setitimer(ITIMER_REAL, &every, NULL), 0);
	CHECK_INT(vg_write_all(pipes[1], data, sizeof data, -1), 0);
	CHECK_INT(setitimer(ITIMER_REAL, &never, NULL), 0);
	CHECK(interruptions >= 3);
	while (waitpid(reader, &status, 0) < 0)
		CHECK_INT(errno, EINTR);
	CHECK_INT(status, 0);
}
