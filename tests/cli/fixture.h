// Provides a directory for each test, a stand-in for the daemon with answers that the test chooses, and the output and
// exit code of programs. Include it in one file per test program.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "test.h"
#include "wire/wire.h"

static struct {
	char directory[64], runtime[80], libdir[96], socket[104];
	pid_t server, child;
	const char *answer;
} fixture;

static struct {
	int code; // the exit code; 1000 + n if signal n ended the program
	char out[32768], err[8192];
} result;

static inline int remove_file(const char *path, const struct stat *info, int type, struct FTW *where)
{
	return remove(path);
}

static inline void fixture_stop(void)
{
	if (fixture.child > 0) { // a test that failed left the child
		kill(-fixture.child, SIGKILL);
		waitpid(fixture.child, NULL, 0);
		fixture.child = 0;
	}
	if (fixture.server > 0) {
		kill(fixture.server, SIGKILL);
		waitpid(fixture.server, NULL, 0);
		fixture.server = 0;
	}
	if (*fixture.directory)
		nftw(fixture.directory, remove_file, 16, FTW_DEPTH | FTW_PHYS);
	*fixture.directory = '\0';
}

// Creates the directory of the test, and clears environment variables that the user who runs the tests may have set.
static inline void fixture_start(void)
{
	static const char *const cleared[] = {
		"VIRGATE_MEMORY",  "VIRGATE_SHARE",	   "VIRGATE_DEVICE", "VIRGATE_LOG",	  "VIRGATE_SIM",
		"VIRGATE_SHARING", "VIRGATE_START_DAEMON", "VIRGATE_NVML",   "VIRGATE_DRIVER",	  "VIRGATE_DAEMON",
		"VIRGATE_LEDGER",  "VIRGATE_VGPU",	   "VIRGATE_SOCKET", "VIRGATE_EVICTABLE", "VIRGATE_SWAP",
		"LD_PRELOAD",	   "CUDA_VISIBLE_DEVICES"};
	char path[128];

	if (*fixture.directory)
		fixture_stop();
	else
		atexit(fixture_stop);
	strcpy(fixture.directory, "/tmp/virgate-test-XXXXXX");
	CHECK(mkdtemp(fixture.directory));
	snprintf(fixture.runtime, sizeof fixture.runtime, "%s/run", fixture.directory);
	snprintf(fixture.socket, sizeof fixture.socket, "%s/virgated.sock", fixture.runtime);
	CHECK_INT(mkdir(fixture.runtime, 0700), 0);
	for (size_t i = 0; i < sizeof cleared / sizeof *cleared; i++)
		unsetenv(cleared[i]);
	setenv("VIRGATE_RUNTIME_DIR", fixture.runtime, 1);
	setenv("VIRGATE_TIMEOUT", "5", 1);
	setenv("XDG_CONFIG_HOME", fixture.directory, 1);
	snprintf(path, sizeof path, "%s/system.conf", fixture.directory);
	setenv("VIRGATE_SYSTEM_CONFIG", path, 1);
	snprintf(path, sizeof path, "%s/system", fixture.directory);
	setenv("VIRGATE_SYSTEM_DIR", path, 1);
	setenv("VIRGATE_LIBDIR", STANDIN_DIR, 1);
}

// Ends an earlier stand-in for the daemon. Returns a socket that listens in place of the daemon's.
static inline int listen_as_daemon(void)
{
	struct sockaddr_un address;

	if (fixture.server > 0) {
		kill(fixture.server, SIGKILL);
		waitpid(fixture.server, NULL, 0);
		unlink(fixture.socket);
	}
	CHECK_INT(vg_wire_address(fixture.socket, &address), 0);
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK_INT(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
	CHECK_INT(listen(listener, 64), 0);
	return listener;
}

// Starts a stand-in for the daemon that answers each request with the next answer, and repeats the last one. It appends
// the requests to the file `requests`.
static inline void serve_answers(const char *const *answers)
{
	static struct vg_wire_message message;
	char path[128];

	int listener = listen_as_daemon();
	fixture.server = fork();
	if (fixture.server == 0) {
		snprintf(path, sizeof path, "%s/requests", fixture.directory);
		int log = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
		for (;;) {
			int fd = accept(listener, NULL, NULL);
			if (vg_wire_receive(fd, &message) == 0) {
				dprintf(log, "%s\n", message.text);
				vg_wire_send(fd, VG_WIRE_REPLY, 0, *answers, strlen(*answers), NULL, 0);
				answers += answers[1] != NULL;
			}
			close(fd);
		}
	}
	close(listener);
}

static inline void serve_answer(const char *answer)
{
	serve_answers((const char *const[]){answer, NULL});
}

static inline void read_file(const char *name, char *text, size_t capacity)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s", fixture.directory, name);
	int fd = open(path, O_RDONLY);
	ssize_t length = fd < 0 ? 0 : read(fd, text, capacity - 1);
	text[length > 0 ? length : 0] = '\0';
	close(fd);
}

static inline pid_t start_program(const char *const *words)
{
	char path[128];

	fflush(NULL);
	snprintf(path, sizeof path, "%s/out", fixture.directory);
	unlink(path); // remove the file, which has the output of an earlier program
	pid_t child = fork();
	if (child == 0) {
		// The parent is in another group of the session, so this group is not orphaned. In an orphaned group,
		// stop signals have no effect.
		setpgid(0, 0);
		snprintf(path, sizeof path, "%s/out", fixture.directory);
		dup2(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
		snprintf(path, sizeof path, "%s/err", fixture.directory);
		dup2(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
		execv(words[0], (char *const *)words);
		_exit(99);
	}
	fixture.child = child;
	return child;
}

static inline int wait_for_program(pid_t child)
{
	int status;

	CHECK_INT(waitpid(child, &status, 0), child);
	if (fixture.child == child)
		fixture.child = 0;
	result.code = WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
	read_file("out", result.out, sizeof result.out);
	read_file("err", result.err, sizeof result.err);
	return result.code;
}

// Runs `virgate` with at most 30 words. Fails unless it exits with `code` and standard error contains `says`.
static inline void check_refusal(const char *const *words, int code, const char *says)
{
	const char *all[32] = {VIRGATE};

	for (int i = 0; words[i]; i++) {
		CHECK(i < 30);
		all[i + 1] = words[i];
	}
	if (wait_for_program(start_program(all)) != code || !strstr(result.err, says))
		FAIL("virgate %s %s %s: exit code %d, not %d, and \"%s\" is not in: %s", all[1], all[2] ? all[2] : "",
		     all[2] && all[3] ? all[3] : "", result.code, code, says, result.err);
}

#define WORDS(...) ((const char *const[]){VIRGATE, __VA_ARGS__, NULL})
#define VIRGATE_RUN(...) wait_for_program(start_program(WORDS(__VA_ARGS__)))
#define CHECK_REFUSAL(code, says, ...) check_refusal((const char *const[]){__VA_ARGS__, NULL}, code, says)
// Runs `virgate` with these words. Fails unless it exits with 0.
#define CHECK_VIRGATE(...)                                                                            \
	do {                                                                                          \
		if (VIRGATE_RUN(__VA_ARGS__) != 0)                                                    \
			FAIL("%s:%d: exit code %d: %s", __FILE__, __LINE__, result.code, result.err); \
	} while (0)
