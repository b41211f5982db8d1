#include "daemon/mps.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/parts.h"
#include "daemon/answer.h"
#include "daemon/deadline.h"
#include "daemon/mps_server.h"
#include "daemon/path.h"
#include "daemon/process.h"
#include "daemon/say.h"
#include "daemon/source.h"
#include "daemon/work.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	START_MS = 5000,   // how long the control daemon may take until it listens
	LOOK_MS = 10,	   // time between two checks whether the control daemon listens
	END_MS = 5000,	   // how long the control daemon may take to end after SIGTERM
	LINGER_MS = 10000, // how long the control daemon runs after the last program has ended
	ENTER_MS = 1000,   // how long a control daemon that listens is kept for the request that waited for it
	// the pause before a control daemon is started again that ended unexpectedly; each further such end doubles it
	PAUSE_MS = 1000,
	PAUSE_MOST_MS = 60000, // the longest pause
	STABLE_MS = 60000,     // when the control daemon has run for this long, the pause is PAUSE_MS again
	GROUPS = 256,
};

// The user and group ids with which a control daemon runs.
struct identity {
	uid_t uid;
	gid_t gid;
	gid_t groups[GROUPS];
	int group_count;
};

static struct server *servers;

struct server *mps_next_server(const struct server *previous, uint64_t devices, uid_t uid)
{
	struct server *server = previous ? previous->next : servers;

	while (server && (!(server->devices & devices) || server->uid != uid))
		server = server->next;
	return server;
}

struct server *mps_find_server(size_t device, uid_t uid)
{
	return mps_next_server(NULL, UINT64_C(1) << device, uid);
}

// Writes the numbers of the GPUs, with `between` between them.
static void list_devices(uint64_t devices, const char *between, char *ret_text, size_t size)
{
	size_t length = 0;

	*ret_text = '\0';
	for (size_t i = 0; i < VG_SYSTEM_DEVICES && length < size; i++)
		if (devices >> i & 1)
			length += (size_t)snprintf(ret_text + length, size - length, "%s%zu", length ? between : "", i);
}

static void server_ended(struct node *node, struct source *source, uint32_t events);

struct server *mps_add_server(const struct node *node, uint64_t devices, uid_t uid)
{
	struct server *server = calloc(1, sizeof *server);
	bool is_one = (devices & (devices - 1)) == 0;
	char list[80];

	if (!server)
		return NULL;
	*server = (struct server){.source = {-1, server_ended}, .next = servers, .devices = devices, .uid = uid};
	list_devices(devices, ", ", list, sizeof list);
	snprintf(server->title, sizeof server->title, "GPU%s %s", is_one ? "" : "s", list);
	list_devices(devices, "+", list, sizeof list);
	snprintf(server->directory, sizeof server->directory, "mps/%s-%u", list, (unsigned int)uid);
	snprintf(server->pipe, sizeof server->pipe, "%s/%s/pipe", node->runtime_dir, server->directory);
	servers = server;
	return server;
}

// Returns the path of nvidia-cuda-mps-control, or NULL. The system's daemon does not search directories of users.
static const char *find_program(void)
{
	static const char *const paths[] = {"/usr/bin/nvidia-cuda-mps-control",
					    "/usr/local/bin/nvidia-cuda-mps-control",
					    "/usr/local/nvidia/bin/nvidia-cuda-mps-control"};
	const char *named = getenv("VIRGATE_MPS_CONTROL");

	if (named && *named)
		return access(named, X_OK) == 0 ? named : NULL;
	for (size_t i = 0; i < sizeof paths / sizeof *paths && !*vg_simulation_wanted(); i++)
		if (access(paths[i], X_OK) == 0)
			return paths[i];
	return NULL;
}

// ---- programs -------------------------------------------------------------------------------------------

unsigned int mps_count_programs(const struct vgpu *vgpu)
{
	unsigned int tenants = 0, launchers = 0;

	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		tenants += !tenant->is_dead && !tenant->seen.guest;
	for (const struct launcher *launcher = vgpu->launchers; launcher; launcher = launcher->next)
		launchers++;
	return tenants > launchers ? tenants : launchers; // a launcher is no MPS client, but starts at least one
}

unsigned int mps_count_clients(const struct node *node, size_t device, uid_t uid)
{
	unsigned int count = 0;

	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		if (vgpu->terms.is_mps && vgpu->device == device && vgpu->owner == uid)
			count += mps_count_programs(vgpu);
	return count;
}

bool mps_has_clients(const struct node *node, const struct server *server)
{
	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		if (vgpu->terms.is_mps && server->devices >> vgpu->device & 1 && vgpu->owner == server->uid &&
		    !vgpu->job_gpus && mps_count_programs(vgpu))
			return true; // a job that lacks GPUs has no programs yet, and may get another server
	return false;
}

// ---- starting ------------------------------------------------------------------------------------------

// Makes a directory of MPS: one that only the user of `server` may enter, or, if `server` is NULL, one that all users
// may pass through. Only root's daemon changes owners. The parent directory is the daemon's own, so users cannot
// replace the directory.
static int make_directory(const struct node *node, const char *path, const struct server *server)
{
	if (mkdir(path, server ? 0700 : 0711) < 0 && errno != EEXIST)
		return -errno;
	if (!server) // set the mode explicitly, since the umask may have cleared bits
		return chmod(path, 0711) < 0 ? -errno : 0;
	return node->system_wide && lchown(path, server->uid, (gid_t)-1) < 0 ? -errno : 0;
}

static int make_directories(const struct node *node, const struct server *server)
{
	char path[4][PATH_MAX];
	int r = 0;

	path_format(node, path[0], "mps");
	path_format(node, path[1], "%s", server->directory);
	path_format(node, path[2], "%s/pipe", server->directory);
	path_format(node, path[3], "%s/log", server->directory);
	for (int i = 0; i < 4 && r == 0; i++)
		r = make_directory(node, path[i], i < 2 ? NULL : server);
	return r;
}

// Removes the file `control`, which a killed control daemon leaves. Otherwise the next control daemon would seem to
// listen before it does. The user can write to this directory, so the function follows no symbolic link in it.
static int remove_stale_file(const struct node *node, const struct server *server)
{
	char path[PATH_MAX];

	path_format(node, path, "%s/pipe", server->directory);
	_cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return unlinkat(fd, "control", 0) < 0 && errno != ENOENT ? -errno : 0;
}

static bool changes_user(const struct node *node)
{
	return node->system_wide && geteuid() == 0;
}

// Runs the control daemon in the forked child, where only async-signal-safe functions may be called.
static void exec_control(const char *program, char *const *environment, const struct identity *identity)
{
	char *const words[] = {(char *)"nvidia-cuda-mps-control", (char *)"-f", NULL};
	sigset_t none;
	int null_fd = open("/dev/null", O_RDWR);

	setsid();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int signal_number = 1; signal_number < NSIG; signal_number++)
		signal(signal_number, SIG_DFL);
	for (int fd = 0; fd < 3; fd++)
		dup2(null_fd, fd);
	if (identity && (setgroups((size_t)identity->group_count, identity->groups) < 0 ||
			 setresgid(identity->gid, identity->gid, identity->gid) < 0 ||
			 setresuid(identity->uid, identity->uid, identity->uid) < 0))
		_exit(126);
	execve(program, words, environment);
	_exit(127);
}

// Writes CUDA_VISIBLE_DEVICES with the UUIDs of the server's GPUs.
static void list_uuids(const struct node *node, const struct server *server, char *ret_text, size_t size)
{
	size_t length = (size_t)snprintf(ret_text, size, "CUDA_VISIBLE_DEVICES=");
	const char *between = "";

	for (size_t i = 0; i < VG_SYSTEM_DEVICES && length < size; i++) {
		if (!(server->devices >> i & 1))
			continue;
		length += (size_t)snprintf(ret_text + length, size - length, "%s%s", between,
					   vg_system_device(node->system, i)->uuid_text);
		between = ",";
	}
}

// Starts the control daemon, and returns its pid. It gets an environment of its own, since its user must not see the
// environment of root's daemon.
static pid_t fork_control(const struct node *node, const struct server *server, const char *program,
			  const struct identity *identity)
{
	char pipe[PATH_MAX + 32], log[PATH_MAX + 32], visible[32 + VG_SYSTEM_DEVICES * 48];
	char *environment[] = {pipe, log, visible, (char *)"PATH=/usr/bin:/bin", (char *)"HOME=/", NULL};

	snprintf(pipe, sizeof pipe, "CUDA_MPS_PIPE_DIRECTORY=%s", server->pipe);
	snprintf(log, sizeof log, "CUDA_MPS_LOG_DIRECTORY=%.*slog", (int)(strlen(server->pipe) - 4), server->pipe);
	list_uuids(node, server, visible, sizeof visible);
	pid_t pid = fork();
	if (pid == 0)
		exec_control(program, environment, identity);
	return pid < 0 ? -errno : pid;
}

// Writes the control daemon's pid into a file, for the next daemon.
static void write_pid(const struct node *node, const struct server *server)
{
	char path[PATH_MAX], text[64];
	uint64_t start_time;

	if (vg_process_start_time(server->pid, &start_time) < 0)
		return;
	path_format(node, path, "%s/control.pid", server->directory);
	snprintf(text, sizeof text, "%d %llu\n", (int)server->pid, (unsigned long long)start_time);
	int r = path_write(path, text, 0600);
	if (r < 0)
		say("the next daemon will not know the MPS control daemon %d: %s: %s", (int)server->pid, path,
		    strerror(-r));
}

// Delays the next start of the control daemon.
static void delay_start(struct server *server, uint64_t now)
{
	uint64_t pause = PAUSE_MS;

	if (server->started_ns && now - server->started_ns >= STABLE_MS * 1000000ull)
		server->failures = 0;
	for (unsigned int i = 0; i < server->failures && pause < PAUSE_MOST_MS; i++)
		pause *= 2;
	server->failures++;
	server->awaited_until_ns = 0; // requests are refused until the pause is over
	server->next_start_ns = now + (pause < PAUSE_MOST_MS ? pause : PAUSE_MOST_MS) * 1000000;
}

// Starts the control daemon as the user `identity`; NULL: as the daemon's own user. Returns 0 or -errno.
static int start_server(struct node *node, struct server *server, const struct identity *identity)
{
	const char *program = find_program();

	int r = program ? make_directories(node, server) : -ENOENT;
	if (r == 0)
		r = remove_stale_file(node, server);
	if (r < 0)
		return r;
	pid_t pid = fork_control(node, server, program, identity);
	int fd = pid < 0 ? pid : vg_pidfd_open(pid);
	if (fd >= 0 && source_keep_descriptor(fd) < 0)
		fd = -EMFILE;
	if (fd < 0) {
		if (pid > 0) {
			kill(pid, SIGKILL);
			waitpid(pid, NULL, 0);
		}
		return fd;
	}
	server->pid = pid;
	server->is_adopted = false;
	server->source.fd = fd;
	server->listens = server->was_ended = false;
	server->started_ns = vg_clock_monotonic_ns();
	source_watch(node, &server->source, EPOLLIN);
	write_pid(node, server);
	say("started the MPS control daemon %d of %s for user %u", (int)pid, server->title, (unsigned int)server->uid);
	return 0;
}

static void report_failure(struct node *node, struct server *server, int error)
{
	delay_start(server, vg_clock_monotonic_ns());
	say("the MPS control daemon of %s cannot be started: %s", server->title, strerror(-error));
	node->must_retry = true;
}

struct lookup {
	struct work work;
	struct server *server;
	struct identity identity;
	int error;
};

// Looks up the user, in a thread, since a directory of users on the network can take long.
static void run_lookup(struct work *work)
{
	struct lookup *lookup = (struct lookup *)work;
	struct identity *identity = &lookup->identity;
	char space[16384];
	struct passwd entry, *found = NULL;

	getpwuid_r(identity->uid, &entry, space, sizeof space, &found);
	if (!found) {
		lookup->error = -ENOENT;
		return;
	}
	identity->gid = entry.pw_gid;
	identity->group_count = GROUPS;
	if (getgrouplist(entry.pw_name, entry.pw_gid, identity->groups, &identity->group_count) < 0)
		lookup->error = -E2BIG;
}

static void end_lookup(struct node *node, struct work *work)
{
	struct lookup *lookup = (struct lookup *)work;
	struct server *server = lookup->server;
	int r = lookup->error;

	server->is_looked_up = false;
	if (r == 0)
		r = start_server(node, server, &lookup->identity);
	if (r < 0)
		report_failure(node, server, r);
	free(lookup);
}

static int look_up_and_start(struct server *server)
{
	struct lookup *lookup = calloc(1, sizeof *lookup);

	if (!lookup)
		return -ENOMEM;
	*lookup = (struct lookup){.work = {.lane = WORK_NAMES, .run = run_lookup, .done = end_lookup},
				  .server = server,
				  .identity = {.uid = server->uid}};
	server->is_looked_up = work_post(server->uid, &lookup->work);
	if (!server->is_looked_up)
		free(lookup);
	return server->is_looked_up ? 0 : -EAGAIN;
}

// ---- ending --------------------------------------------------------------------------------------------

static void server_ended(struct node *node, struct source *source, uint32_t events)
{
	struct server *server = (struct server *)source;

	source_close(node, source);
	waitpid(server->pid, NULL, WNOHANG); // waitpid() fails if an earlier daemon started the control daemon
	if (server->was_ended) {
		server->failures = 0;
		server->next_start_ns = 0;
	} else {
		delay_start(server, vg_clock_monotonic_ns());
		say("the MPS control daemon %d of %s has ended: programs of its clients get errors", (int)server->pid,
		    server->title);
	}
	server->pid = 0;
	server->listens = server->was_ended = false;
	server->awaited_until_ns = 0; // a request that still needs the control daemon sets it again
	node->must_retry = true;
}

// Sends the signal to the control daemon and to the MPS servers that it started, which are in its process group. A
// control daemon that an earlier daemon started is not a child of this process, so another process may have its pid by
// now. Then only the pidfd is safe, by which kernels before Linux 6.9 signal the control daemon alone.
static void send_signal(const struct server *server, int number)
{
	enum { PROCESS_GROUP = 1 << 2 }; // PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9

	if (syscall(SYS_pidfd_send_signal, server->source.fd, number, NULL, PROCESS_GROUP) == 0)
		return;
	if (!server->is_adopted)
		kill(-server->pid, number);
	syscall(SYS_pidfd_send_signal, server->source.fd, number, NULL, 0);
}

static void end_server(struct server *server)
{
	if (server->source.fd < 0 || server->was_ended)
		return;
	server->was_ended = true;
	server->kill_ns = vg_clock_monotonic_ns() + END_MS * 1000000ull;
	send_signal(server, SIGTERM);
}

void mps_free_server(struct node *node, struct server *server)
{
	struct server **link = &servers;

	while (*link != server)
		link = &(*link)->next;
	*link = server->next;
	source_close(node, &server->source);
	free(server);
}

bool mps_retire_server(struct node *node, struct server *server)
{
	server->needed_ns = server->awaited_until_ns = 0; // so that the control daemon is not started again
	end_server(server);
	if (server->source.fd >= 0 || server->is_looked_up)
		return false;
	mps_free_server(node, server);
	return true;
}

// ---- the regular check of each server -------------------------------------------------------------------

bool mps_is_listening(const struct node *node, const struct server *server)
{
	char path[PATH_MAX];
	struct stat status;

	path_format(node, path, "%s/pipe/control", server->directory);
	return lstat(path, &status) == 0;
}

static void check_start(struct node *node, struct server *server, uint64_t now, uint64_t *deadline)
{
	if (mps_is_listening(node, server)) {
		server->listens = true;
		if (server->awaited_until_ns)
			server->awaited_until_ns = now + ENTER_MS * 1000000ull;
		node->must_retry = true;
	} else if (now - server->started_ns >= START_MS * 1000000ull) {
		say("the MPS control daemon %d of %s does not listen within %d s: it is ended", (int)server->pid,
		    server->title, START_MS / 1000);
		send_signal(server, SIGKILL);
	} else {
		deadline_lower(deadline, now + LOOK_MS * 1000000ull);
	}
}

// Kills a control daemon that got SIGTERM, but does not end.
static void check_end(struct server *server, uint64_t now, uint64_t *deadline)
{
	if (server->kill_ns && now >= server->kill_ns) {
		say("the MPS control daemon %d of %s does not end within %d s: it is killed", (int)server->pid,
		    server->title, END_MS / 1000);
		send_signal(server, SIGKILL);
		server->kill_ns = 0;
	}
	deadline_lower(deadline, server->kill_ns);
}

// Starts a control daemon that programs need, unless its user is still being looked up or its pause is not over.
static void start_needed(struct node *node, struct server *server, uint64_t now, uint64_t *deadline)
{
	if (server->is_looked_up || now < server->next_start_ns) {
		deadline_lower(deadline, server->next_start_ns);
		return;
	}
	int r = changes_user(node) ? look_up_and_start(server) : start_server(node, server, NULL);
	if (r < 0)
		report_failure(node, server, r);
	deadline_lower(deadline, now + LOOK_MS * 1000000ull);
}

void mps_await_server(struct server *server, uint64_t now)
{
	server->awaited_until_ns = now + (START_MS + ENTER_MS) * 1000000ull;
}

// Forgets the request that waits for the control daemon if its time is over, so that other requests may end the
// control daemon.
static void check_awaited(struct node *node, struct server *server, uint64_t now, uint64_t *deadline)
{
	if (server->awaited_until_ns && now >= server->awaited_until_ns) {
		server->awaited_until_ns = 0;
		node->must_retry = true;
	}
	deadline_lower(deadline, server->awaited_until_ns);
}

static void check_server(struct node *node, struct server *server, uint64_t now, uint64_t *deadline)
{
	if (mps_has_clients(node, server))
		server->needed_ns = now;
	check_awaited(node, server, now, deadline);
	bool is_needed = server->needed_ns && now < server->needed_ns + LINGER_MS * 1000000ull;
	bool runs = server->source.fd >= 0;
	if (runs && !is_needed)
		end_server(server);
	if (runs && server->was_ended)
		check_end(server, now, deadline);
	else if (runs && !server->listens)
		check_start(node, server, now, deadline);
	else if (!runs && is_needed)
		start_needed(node, server, now, deadline);
	if (is_needed)
		deadline_lower(deadline, server->needed_ns + LINGER_MS * 1000000ull);
}

void mps_keep(struct node *node, uint64_t now, uint64_t *deadline)
{
	for (struct server *server = servers; server; server = server->next)
		check_server(node, server, now, deadline);
}

// ---- what other modules ask for -------------------------------------------------------------------------

json_t *mps_admit(const struct vgpu *vgpu)
{
	const char *named = getenv("VIRGATE_MPS_CONTROL");

	if (!vgpu->terms.is_mps || find_program())
		return NULL;
	if (named && *named)
		return refuse("unsupported",
			      "the mode mps needs %.200s, which the daemon's VIRGATE_MPS_CONTROL names: it "
			      "is missing, or cannot be executed",
			      named);
	if (*vg_simulation_wanted())
		return refuse("unsupported", "simulated GPUs have no MPS: use --mode time");
	return refuse("unsupported",
		      "this machine has no nvidia-cuda-mps-control, which the mode mps needs: install the package of "
		      "NVIDIA's driver that has it, or use --mode time");
}

const char *mps_pipe_directory(const struct vgpu *vgpu)
{
	const struct server *server = vgpu->terms.is_mps ? mps_find_server(vgpu->device, vgpu->owner) : NULL;

	return server ? server->pipe : NULL;
}

const char *mps_problem(const struct vgpu *vgpu)
{
	const struct server *server = vgpu->terms.is_mps ? mps_find_server(vgpu->device, vgpu->owner) : NULL;

	if (!server || server->listens)
		return NULL;
	return server->source.fd >= 0 ? "its MPS server is being started"
				      : "its MPS server has ended: start its programs again";
}

// ---- the end of this daemon -----------------------------------------------------------------------------

void mps_end(struct node *node)
{
	while (servers) {
		if (!mps_has_clients(node, servers))
			end_server(servers);
		mps_free_server(node, servers);
	}
}
