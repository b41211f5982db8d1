// Starts a daemon for this user if a request finds none.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/size.h"
#include "base/status.h"
#include "node/node.h"
#include "node/paths.h"

enum { READY_FD = 3, WORDS = 400 };

struct start {
	const struct vg_node *node;
	char program[PATH_MAX], log[PATH_MAX], sim_nvml[PATH_MAX];
	char own[3][PATH_MAX + 32]; // variables to set in the daemon's environment
};

static bool is_dropped(const struct start *start, const char *variable)
{
	static const char *const dropped[] = {
		"LD_PRELOAD=",	"VIRGATE_LEDGER=",	"VIRGATE_LEDGERS=",	 "VIRGATE_VGPU=",   "VIRGATE_SOCKET=",
		"VIRGATE_SIM=", "VIRGATE_RUNTIME_DIR=", "CUDA_VISIBLE_DEVICES=", "VIRGATE_DRIVER=", "NOTIFY_SOCKET="};

	for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++)
		if (strncmp(variable, dropped[i], strlen(dropped[i])) == 0)
			return true;
	return *start->sim_nvml && strncmp(variable, "VIRGATE_NVML=", 13) == 0;
}

// Makes the daemon's environment: takes the environment of this process without the variables of a tenant, and adds
// variables for the daemon's directory and simulated GPU.
static char **make_environment(struct start *start)
{
	const struct vg_node *node = start->node;
	size_t count = 0, kept = 0;

	while (environ[count])
		count++;
	char **result = calloc(count + 4, sizeof *result);
	if (!result)
		return NULL;
	for (size_t i = 0; i < count; i++)
		if (!is_dropped(start, environ[i]))
			result[kept++] = environ[i];
	snprintf(start->own[0], sizeof start->own[0], "VIRGATE_RUNTIME_DIR=%s", node->runtime_dir);
	result[kept++] = start->own[0];
	if (*node->simulate) {
		snprintf(start->own[1], sizeof start->own[1], "VIRGATE_SIM=%s", node->simulate);
		result[kept++] = start->own[1];
		snprintf(start->own[2], sizeof start->own[2], "VIRGATE_NVML=%s", start->sim_nvml);
		result[kept++] = start->own[2];
	}
	return result;
}

// Resets what the daemon inherits from the program that starts it, since it also serves other programs: signals, umask,
// scheduling, affinity. An increased niceness may remain: an unprivileged process cannot lower it.
static void reset_inherited_state(void)
{
	cpu_set_t all;
	sigset_t none;

	for (int signal = 1; signal < NSIG; signal++)
		sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(077);
	sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
	setpriority(PRIO_PROCESS, 0, 0);
	syscall(SYS_ioprio_set, 1, 0, 0); // arguments: IOPRIO_WHO_PROCESS, this process, the default class
	memset(&all, 0xff, sizeof all);
	sched_setaffinity(0, sizeof all, &all);
	_cleanup_close_ int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	ssize_t unused = fd >= 0 ? write(fd, "0", 1) : 0;
	(void)unused;
}

// Checks the hard limits of resources. If they are too low, the daemon would fail later, with the reason only in its
// log.
static enum vg_status check_limits(void)
{
	static const struct {
		__rlimit_resource_t resource;
		uint64_t least;
		const char *what, *option;
		bool is_size;
	} needs[] = {
		{RLIMIT_NOFILE, 64, "open files", "ulimit -n", false},
		{RLIMIT_FSIZE, 16 << 20, "the size of files", "ulimit -f", true},
		{RLIMIT_AS, 512 << 20, "address space", "ulimit -v", true},
	};
	char has[VG_SIZE_TEXT], needed[VG_SIZE_TEXT];
	struct rlimit limit;

	for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
		if (getrlimit(needs[i].resource, &limit) < 0 || limit.rlim_max >= needs[i].least)
			continue;
		snprintf(has, sizeof has, "%llu", (unsigned long long)limit.rlim_max);
		snprintf(needed, sizeof needed, "%llu", (unsigned long long)needs[i].least);
		if (needs[i].is_size) {
			vg_size_format(limit.rlim_max, has);
			vg_size_format(needs[i].least, needed);
		}
		return vg_fail(
			VG_LIMIT, EAGAIN,
			"no daemon runs, and none can be started from here: this session's hard limit of %s is %s "
			"(%s), and the daemon needs %s; raise it, or start virgated from another session",
			needs[i].what, has, needs[i].option, needed);
	}
	return VG_OK;
}

__attribute__((noreturn)) static void become_daemon(const struct start *start, char **environment, int ready_fd)
{
	char number[12];

	setsid();
	if (fork() != 0) // the parent exits, so that init adopts the daemon and reaps it
		_exit(0);
	int null_fd = open("/dev/null", O_RDWR);
	int log_fd = open(start->log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
	if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(log_fd < 0 ? null_fd : log_fd, 1) < 0 || dup2(1, 2) < 0)
		_exit(1);
	if (ready_fd != READY_FD)
		dup2(ready_fd, READY_FD);
	else
		fcntl(READY_FD, F_SETFD, 0);
	pid_t own = getpid();
	// Send the daemon's pid to launch_daemon(). is_lock_held() compares it with the pid in the lock file.
	if (write(READY_FD, &own, sizeof own) != sizeof own)
		_exit(1);
	close_range(READY_FD + 1, ~0u, 0);
	reset_inherited_state();
	if (chdir("/") < 0)
		_exit(1);
	snprintf(number, sizeof number, "%d", READY_FD);
	execve(start->program, (char *[]){(char *)start->program, "--ready-fd", number, NULL}, environment);
	fprintf(stderr, "%s: %m\n", start->program);
	_exit(1);
}

// Waits until the daemon reports that it is ready, or exits, or the deadline has passed.
static void wait_for_ready(int fd, uint64_t deadline)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	uint64_t now = vg_clock_monotonic_ns();

	while (now < deadline && poll(&poll_fd, 1, (int)((deadline - now) / 1000000) + 1) < 0 && errno == EINTR)
		now = vg_clock_monotonic_ns();
}

static bool daemon_answers(const struct vg_node *node)
{
	_cleanup_close_ int fd = vg_node_connect(node);

	return fd >= 0;
}

// Returns whether a daemon other than `own` has locked the lock file of the runtime directory. The file contains the
// pid of the daemon that locked it. A zombie does not have the lock any more.
static bool is_lock_held(const struct vg_node *node, pid_t own)
{
	char path[PATH_MAX + 32], text[64];

	snprintf(path, sizeof path, "%s/lock", node->runtime_dir);
	int pid = vg_file_read(path, text, sizeof text - 1) > 0 ? atoi(text) : 0;
	_cleanup_close_ int fd = pid > 0 ? vg_pidfd_open(pid) : -1;
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	if (pid == own || fd < 0 || poll(&poll_fd, 1, 0) == 1)
		return false;
	snprintf(path, sizeof path, "/proc/%d/comm", pid);
	return vg_file_read(path, text, sizeof text - 1) > 0 && strcmp(text, "virgated\n") == 0;
}

// Waits until a daemon answers: `own`, which this process started, or another one. If another daemon has the lock,
// `own` exits at once; the other daemon may still be starting or exiting. Returns false at the deadline, or if no other
// daemon has the lock any more. *ret_lost: another daemon had the lock, so a retry is useful.
static bool wait_for_answer(const struct vg_node *node, pid_t own, uint64_t deadline, bool *ret_lost)
{
	uint64_t grace = vg_clock_monotonic_ns() + 200000000;

	*ret_lost = false;
	for (;;) {
		if (daemon_answers(node))
			return true;
		uint64_t now = vg_clock_monotonic_ns();
		bool held = is_lock_held(node, own);
		*ret_lost |= held;
		if (now >= deadline || (!held && (*ret_lost || now >= grace)))
			return false;
		poll(NULL, 0, 5);
	}
}

static off_t get_log_size(const char *path)
{
	struct stat info;

	return stat(path, &info) == 0 ? info.st_size : 0;
}

// Skips the prefix of a line of the log: "virgate sim: " or "TIME virgated[PID]: ".
static const char *skip_name(const char *line)
{
	const char *end = strstr(line, ": ");
	bool named = end > line && (strncmp(line, "virgate sim:", 12) == 0 || end[-1] == ']');

	return named ? end + 2 : line;
}

// Returns the lines of the log from offset `start` on, separated by semicolons. Leaves out times and pids, and then
// repeated lines: daemons that were started at the same time may log the same failure.
static void read_log(const char *path, off_t start, char ret_words[WORDS])
{
	char text[4096], *rest = text, *line;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, start);
	size_t used = 0;

	*ret_words = '\0';
	text[length > 0 ? length : 0] = '\0';
	while (used < WORDS && (line = strsep(&rest, "\n"))) {
		const char *words = skip_name(line);
		if (*line && !strstr(ret_words, words))
			used += (size_t)snprintf(ret_words + used, WORDS - used, "%s%s", used ? "; " : "", words);
	}
}

static enum vg_status check_parts(struct start *start)
{
	const struct vg_node *node = start->node;
	char problem[300];

	const char *nvml = secure_getenv("VIRGATE_NVML");
	if (!*node->simulate && !(nvml && *nvml) && access("/dev/nvidiactl", F_OK) < 0 && access("/dev/dxg", F_OK) < 0)
		return vg_fail(
			VG_NO_DRIVER, ENODEV,
			"no NVIDIA GPU on this machine (there is no /dev/nvidiactl): install NVIDIA's driver, or use "
			"the simulated GPU with --sim");
	if (!vg_paths_find(VG_PART_DAEMON, node->libdir, start->program))
		return vg_fail(VG_NO_DAEMON, ENOENT,
			       "no daemon listens on %.200s, and the program virgated is not where it was installed: "
			       "reinstall, or name it in VIRGATE_DAEMON",
			       node->socket);
	if (*node->simulate && !vg_paths_find(VG_PART_SIM_NVML, node->libdir, start->sim_nvml))
		return vg_fail(
			VG_NO_DRIVER, ENOENT,
			"the library %s of the simulated GPU is missing: install it (Debian package virgate-sim), "
			"or name its directory in VIRGATE_LIBDIR",
			vg_paths_file(VG_PART_SIM_NVML));
	int r = vg_paths_make_private(node->runtime_dir, problem, sizeof problem);
	if (r < 0)
		return vg_fail(r == -EPERM ? VG_DENIED : VG_SYSTEM, -r,
			       "%s: remove it, or name another directory in VIRGATE_RUNTIME_DIR", problem);
	return VG_OK;
}

// Launches the daemon and waits for it. *ret_daemon: its pid; 0: it was not started.
static int launch_daemon(const struct start *start, char **environment, uint64_t deadline, pid_t *ret_daemon)
{
	int ready[2], status, error = 0;

	*ret_daemon = 0;
	if (pipe2(ready, O_CLOEXEC) < 0)
		return -errno;
	pid_t child = fork();
	if (child == 0)
		become_daemon(start, environment, ready[1]);
	error = child < 0 ? errno : 0;
	close(ready[1]);
	if (child > 0) {
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
		while (read(ready[0], ret_daemon, sizeof *ret_daemon) < 0 && errno == EINTR)
			;
		wait_for_ready(ready[0], deadline);
	}
	close(ready[0]);
	return -error;
}

enum vg_status vg_node_start(const struct vg_node *node)
{
	uint64_t deadline = vg_clock_monotonic_ns() + (uint64_t)node->timeout * 1000000000;
	struct start start = {.node = node};
	bool answered = false, lost = true;
	char words[WORDS];
	off_t logged = 0;
	pid_t daemon;
	int r = 0;

	enum vg_status result = check_parts(&start);
	if (result == VG_OK)
		result = check_limits();
	if (result)
		return result;
	snprintf(start.log, sizeof start.log, "%.4000s/virgated.log", node->runtime_dir);
	char **environment = make_environment(&start);
	if (!environment)
		return vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for the daemon's environment");
	while (r == 0 && !answered && lost && vg_clock_monotonic_ns() < deadline) {
		logged = get_log_size(start.log);
		r = launch_daemon(&start, environment, deadline, &daemon);
		if (r == 0)
			answered = wait_for_answer(node, daemon, deadline, &lost);
	}
	free(environment);
	if (answered)
		return VG_OK;
	if (r < 0)
		return vg_fail(VG_SYSTEM, -r, "the daemon cannot be started: %s", strerror(-r));
	read_log(start.log, logged, words);
	return vg_fail(VG_NO_DAEMON, 0, "the daemon %.200s did not start%s%s (its log: %.200s)", start.program,
		       *words ? ": " : "", words, start.log);
}
