// A folder of its own for each test, a stand-in daemon with answers the test chooses, and the
// program's output and exit code. Include in one file per test program.
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
	char folder[64], runtime[80], libdir[96], socket[104];
	pid_t server, child;
	const char *answer;
} place;

static struct {
	int code; // 1000 + n: ended by signal n
	char out[32768], err[8192];
} result;

static inline int forget(const char *path, const struct stat *info, int type, struct FTW *where)
{
	return remove(path);
}

static inline void place_end(void)
{
	if (place.child > 0) { // of a test that failed
		kill(-place.child, SIGKILL);
		waitpid(place.child, NULL, 0);
		place.child = 0;
	}
	if (place.server > 0) {
		kill(place.server, SIGKILL);
		waitpid(place.server, NULL, 0);
		place.server = 0;
	}
	if (*place.folder)
		nftw(place.folder, forget, 16, FTW_DEPTH | FTW_PHYS);
	*place.folder = '\0';
}

// Variables of whoever runs the tests must not matter.
static inline void place_begin(void)
{
	static const char *const cleared[] = {"VIRGATE_MEMORY", "VIRGATE_SHARE", "VIRGATE_DEVICE", "VIRGATE_LOG",
					      "VIRGATE_SIM", "VIRGATE_SHARING", "VIRGATE_START_DAEMON", "VIRGATE_NVML", "VIRGATE_DRIVER",
					      "VIRGATE_DAEMON", "VIRGATE_LEDGER", "VIRGATE_VGPU", "VIRGATE_SOCKET",
					      "VIRGATE_EVICTABLE", "VIRGATE_SWAP",
					      "LD_PRELOAD", "CUDA_VISIBLE_DEVICES"};
	char path[128];

	if (*place.folder)
		place_end();
	else
		atexit(place_end);
	strcpy(place.folder, "/tmp/virgate-test-XXXXXX");
	CHECK(mkdtemp(place.folder));
	snprintf(place.runtime, sizeof place.runtime, "%s/run", place.folder);
	snprintf(place.socket, sizeof place.socket, "%s/virgated.sock", place.runtime);
	CHECK_INT(mkdir(place.runtime, 0700), 0);
	for (size_t i = 0; i < sizeof cleared / sizeof *cleared; i++)
		unsetenv(cleared[i]);
	setenv("VIRGATE_RUNTIME_DIR", place.runtime, 1);
	setenv("VIRGATE_TIMEOUT", "5", 1);
	setenv("XDG_CONFIG_HOME", place.folder, 1);
	snprintf(path, sizeof path, "%s/system.conf", place.folder);
	setenv("VIRGATE_SYSTEM_CONFIG", path, 1);
	snprintf(path, sizeof path, "%s/system", place.folder);
	setenv("VIRGATE_SYSTEM_DIR", path, 1);
	setenv("VIRGATE_LIBDIR", STANDIN_DIR, 1);
}

// Answers the requests in turn, and with the last answer from then on; the requests are appended to FOLDER/requests.
static inline void serve_in_turn(const char *const *answers)
{
	struct sockaddr_un address;
	static struct vg_wire_message message;
	char path[128];

	if (place.server > 0) {
		kill(place.server, SIGKILL);
		waitpid(place.server, NULL, 0);
		unlink(place.socket);
	}
	CHECK_INT(vg_wire_address(place.socket, &address), 0);
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK_INT(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
	CHECK_INT(listen(listener, 64), 0);
	place.server = fork();
	if (place.server == 0) {
		snprintf(path, sizeof path, "%s/requests", place.folder);
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

static inline void serve(const char *answer)
{
	serve_in_turn((const char *const[]){answer, NULL});
}

static inline void slurp(const char *name, char *text, size_t capacity)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s", place.folder, name);
	int fd = open(path, O_RDONLY);
	ssize_t length = fd < 0 ? 0 : read(fd, text, capacity - 1);
	text[length > 0 ? length : 0] = '\0';
	close(fd);
}

static inline pid_t begin(const char *const *words)
{
	char path[128];

	fflush(NULL);
	snprintf(path, sizeof path, "%s/out", place.folder);
	unlink(path); // what an earlier program said is not this one's
	pid_t child = fork();
	if (child == 0) {
		setpgid(0, 0); // not an orphaned group: its signals stop processes
		snprintf(path, sizeof path, "%s/out", place.folder);
		dup2(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
		snprintf(path, sizeof path, "%s/err", place.folder);
		dup2(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
		execv(words[0], (char *const *)words);
		_exit(99);
	}
	place.child = child;
	return child;
}

static inline int finish(pid_t child)
{
	int status;

	CHECK_INT(waitpid(child, &status, 0), child);
	if (place.child == child)
		place.child = 0;
	result.code = WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
	slurp("out", result.out, sizeof result.out);
	slurp("err", result.err, sizeof result.err);
	return result.code;
}

// Runs `virgate` with at most eight words, as a table lists them. Fails unless it exits with `code` and standard error
// contains `says`.
static inline void check_refusal(const char *const *words, int code, const char *says)
{
	const char *all[10] = {VIRGATE};

	for (int i = 0; i < 8 && words[i]; i++)
		all[i + 1] = words[i];
	if (finish(begin(all)) != code || !strstr(result.err, says))
		FAIL("virgate %s %s %s: exit code %d, not %d, and \"%s\" is not in: %s", all[1], all[2] ? all[2] : "",
		     all[2] && all[3] ? all[3] : "", result.code, code, says, result.err);
}

#define WORDS(...) ((const char *const[]){VIRGATE, __VA_ARGS__, NULL})
#define VIRGATE_RUN(...) finish(begin(WORDS(__VA_ARGS__)))
