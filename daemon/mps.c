#include "daemon/mps.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/parts.h"
#include "daemon/process.h"
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
	CLIENTS = 48, // of one server, as NVIDIA's documentation has it
	RESERVE = 4,  // for processes that programs start after they were admitted
	START_MS = 5000, LOOK_MS = 10,
	LINGER_MS = 10000,     // after the last program
	PAUSE_MS = 1000,       // before the next start after an unexpected end; doubled each time,
	PAUSE_MOST_MS = 60000, // up to this
	STABLE_MS = 60000,     // one that ran for so long ended for another reason
	GROUPS = 256,
};

// Whom a control daemon runs as.
struct identity {
	uid_t uid;
	gid_t gid;
	gid_t groups[GROUPS];
	int group_count;
};

struct server {
	struct source source; // pidfd; -1: none runs
	struct server *next;
	size_t device;
	uid_t uid;
	pid_t pid;
	bool listens;
	bool told; // to end
	bool is_looked_up; // in a thread: its user's identity
	bool is_adopted;   // an earlier daemon started it
	uint64_t started_ns, needed_ns, next_start_ns;
	unsigned int failures; // in a row
	char pipe[PATH_MAX];   // as its clients have it
};

static struct server *servers;

// ---- which of them -------------------------------------------------------------------------------------

static struct server *find_server(size_t device, uid_t uid)
{
	struct server *server = servers;

	while (server && (server->device != device || server->uid != uid))
		server = server->next;
	return server;
}

static void server_ended(struct node *node, struct source *source, uint32_t events);

static struct server *add_server(const struct node *node, size_t device, uid_t uid)
{
	struct server *server = calloc(1, sizeof *server);

	if (!server)
		return NULL;
	*server = (struct server){.source = {-1, server_ended}, .next = servers, .device = device, .uid = uid};
	snprintf(server->pipe, sizeof server->pipe, "%s/mps/%zu-%u/pipe", node->runtime_dir, device, (unsigned int)uid);
	servers = server;
	return server;
}

// Returns the program, or NULL. The system's daemon looks in no directory of a user.
static const char *find_program(void)
{
	static const char *const paths[] = {"/usr/bin/nvidia-cuda-mps-control", "/usr/local/bin/nvidia-cuda-mps-control",
					    "/usr/local/nvidia/bin/nvidia-cuda-mps-control"};
	const char *named = getenv("VIRGATE_MPS_CONTROL");

	if (named && *named)
		return access(named, X_OK) == 0 ? named : NULL;
	for (size_t i = 0; i < sizeof paths / sizeof *paths && !*vg_simulation_wanted(); i++)
		if (access(paths[i], X_OK) == 0)
			return paths[i];
	return NULL;
}

// ---- who needs it --------------------------------------------------------------------------------------

static unsigned int count_programs(const struct vgpu *vgpu)
{
	unsigned int tenants = 0, launchers = 0;

	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		tenants += !tenant->dead && !tenant->seen.guest;
	for (const struct launcher *launcher = vgpu->launchers; launcher; launcher = launcher->next)
		launchers++;
	return tenants > launchers ? tenants : launchers; // a launcher is not a client; each has one at least
}

static unsigned int count_clients(const struct node *node, size_t device, uid_t uid)
{
	unsigned int count = 0;

	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		if (vgpu->terms.is_mps && vgpu->device == device && vgpu->owner == uid)
			count += count_programs(vgpu);
	return count;
}

// ---- starting ------------------------------------------------------------------------------------------

// Makes one that others may pass through, or, of a server, one of its user alone. Only root's daemon gives directories
// away; they lie in one of its own, so their names stay what they are.
static int make_directory(const struct node *node, const char *path, const struct server *server)
{
	if (mkdir(path, server ? 0700 : 0711) < 0 && errno != EEXIST)
		return -errno;
	if (!server) // also where umask took bits away
		return chmod(path, 0711) < 0 ? -errno : 0;
	return node->system_wide && lchown(path, server->uid, (gid_t)-1) < 0 ? -errno : 0;
}

static int make_directories(const struct node *node, const struct server *server)
{
	char path[4][PATH_MAX];
	unsigned int uid = server->uid;
	int r = 0;

	place_path(node, path[0], "mps");
	place_path(node, path[1], "mps/%zu-%u", server->device, uid);
	place_path(node, path[2], "mps/%zu-%u/pipe", server->device, uid);
	place_path(node, path[3], "mps/%zu-%u/log", server->device, uid);
	for (int i = 0; i < 4 && r == 0; i++)
		r = make_directory(node, path[i], i < 2 ? NULL : server);
	return r;
}

// Only root's daemon becomes another user.
static bool changes_user(const struct node *node)
{
	return node->system_wide && geteuid() == 0;
}

// In the forked child, where only functions that are safe in a signal handler may be called.
static void become_control(const char *program, char *const *environment, const struct identity *identity)
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
	if (identity &&
	    (setgroups((size_t)identity->group_count, identity->groups) < 0 ||
	     setresgid(identity->gid, identity->gid, identity->gid) < 0 ||
	     setresuid(identity->uid, identity->uid, identity->uid) < 0))
		_exit(126);
	execve(program, words, environment);
	_exit(127);
}

// The environment of root's daemon is none of the user's business, and the other way round.
static pid_t fork_control(const struct node *node, const struct server *server, const char *program,
			  const struct identity *identity)
{
	char pipe[PATH_MAX + 32], log[PATH_MAX + 32], visible[96];
	char *environment[] = {pipe, log, visible, (char *)"PATH=/usr/bin:/bin", (char *)"HOME=/", NULL};

	snprintf(pipe, sizeof pipe, "CUDA_MPS_PIPE_DIRECTORY=%s", server->pipe);
	snprintf(log, sizeof log, "CUDA_MPS_LOG_DIRECTORY=%.*slog", (int)(strlen(server->pipe) - 4), server->pipe);
	snprintf(visible, sizeof visible, "CUDA_VISIBLE_DEVICES=%s",
		 vg_system_device(node->system, server->device)->uuid_text);
	pid_t pid = fork();
	if (pid == 0)
		become_control(program, environment, identity);
	return pid < 0 ? -errno : pid;
}

// Remembers the process for the daemon after this one.
static void remember(const struct node *node, const struct server *server)
{
	char path[PATH_MAX], text[64];
	uint64_t start_time;

	if (vg_process_start_time(server->pid, &start_time) < 0)
		return;
	place_path(node, path, "mps/%zu-%u/control.pid", server->device, (unsigned int)server->uid);
	snprintf(text, sizeof text, "%d %llu\n", (int)server->pid, (unsigned long long)start_time);
	int r = place_write(path, text, 0600);
	if (r < 0)
		say("the next daemon will not know the MPS control daemon %d: %s: %s", (int)server->pid, path,
		    strerror(-r));
}

static void put_off(struct server *server, uint64_t now)
{
	uint64_t pause = PAUSE_MS;

	if (server->started_ns && now - server->started_ns >= STABLE_MS * 1000000ull)
		server->failures = 0;
	for (unsigned int i = 0; i < server->failures && pause < PAUSE_MOST_MS; i++)
		pause *= 2;
	server->failures++;
	server->next_start_ns = now + (pause < PAUSE_MOST_MS ? pause : PAUSE_MOST_MS) * 1000000;
}

// `identity`: NULL for the daemon's own. 0 or -errno.
static int start_server(struct node *node, struct server *server, const struct identity *identity)
{
	const char *program = find_program();

	int r = program ? make_directories(node, server) : -ENOENT;
	if (r < 0)
		return r;
	pid_t pid = fork_control(node, server, program, identity);
	int fd = pid < 0 ? pid : vg_pidfd_open(pid);
	if (fd >= 0 && node_keep_descriptor(fd) < 0)
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
	server->listens = server->told = false;
	server->started_ns = vg_clock_monotonic_ns();
	node_watch(node, &server->source, EPOLLIN);
	remember(node, server);
	say("started the MPS control daemon %d of GPU %zu for user %u", (int)pid, server->device,
	    (unsigned int)server->uid);
	return 0;
}

static void report_failure(struct node *node, struct server *server, int error)
{
	put_off(server, vg_clock_monotonic_ns());
	say("the MPS control daemon of GPU %zu cannot be started: %s", server->device, strerror(-error));
	node->retry = true;
}

struct lookup {
	struct work work;
	struct server *server;
	struct identity identity;
	int error;
};

// A directory of users in the network may take long, so a thread asks it.
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
				  .server = server, .identity = {.uid = server->uid}};
	server->is_looked_up = work_post(server->uid, &lookup->work);
	if (!server->is_looked_up)
		free(lookup);
	return server->is_looked_up ? 0 : -EAGAIN;
}

// ---- ending --------------------------------------------------------------------------------------------

static void server_ended(struct node *node, struct source *source, uint32_t events)
{
	struct server *server = (struct server *)source;

	node_unwatch(node, source);
	waitpid(server->pid, NULL, WNOHANG); // one that an earlier daemon started is no child
	if (server->told) {
		server->failures = 0;
		server->next_start_ns = 0;
	} else {
		put_off(server, vg_clock_monotonic_ns());
		say("the MPS control daemon %d of GPU %zu has ended: programs of its clients get errors", (int)server->pid,
		    server->device);
	}
	server->pid = 0;
	server->listens = server->told = false;
	node->retry = true;
}

// With the servers that it has started, which are in its process group. One that an earlier daemon started is no child
// of ours, so its number may be somebody else's by now: the pidfd names it. Older kernels signal it alone then.
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
	if (server->source.fd < 0 || server->told)
		return;
	server->told = true;
	send_signal(server, SIGTERM);
}

// ---- the regular check of each server -------------------------------------------------------------------

static void sooner(uint64_t *deadline, uint64_t other)
{
	if (!*deadline || other < *deadline)
		*deadline = other;
}

// Its files are the user's: only whether there is one is asked.
static bool has_control(const struct node *node, const struct server *server)
{
	char path[PATH_MAX];
	struct stat status;

	place_path(node, path, "mps/%zu-%u/pipe/control", server->device, (unsigned int)server->uid);
	return lstat(path, &status) == 0;
}

static void keep_starting(struct node *node, struct server *server, uint64_t now, uint64_t *deadline)
{
	if (has_control(node, server)) {
		server->listens = true;
		node->retry = true;
	} else if (now - server->started_ns >= START_MS * 1000000ull) {
		say("the MPS control daemon %d of GPU %zu does not listen within %d s: it is ended", (int)server->pid,
		    server->device, START_MS / 1000);
		send_signal(server, SIGKILL);
	} else {
		sooner(deadline, now + LOOK_MS * 1000000ull);
	}
}

static void keep_server(struct node *node, struct server *server, uint64_t now, uint64_t *deadline)
{
	if (count_clients(node, server->device, server->uid))
		server->needed_ns = now;
	bool needed = server->needed_ns && now < server->needed_ns + LINGER_MS * 1000000ull;
	if (server->source.fd >= 0 && !needed)
		end_server(server);
	else if (server->source.fd >= 0 && !server->listens)
		keep_starting(node, server, now, deadline);
	else if (server->source.fd < 0 && needed && !server->is_looked_up && now >= server->next_start_ns) {
		int r = changes_user(node) ? look_up_and_start(server) : start_server(node, server, NULL);
		if (r < 0)
			report_failure(node, server, r);
		sooner(deadline, now + LOOK_MS * 1000000ull);
	} else if (server->source.fd < 0 && needed)
		sooner(deadline, server->next_start_ns);
	if (needed)
		sooner(deadline, server->needed_ns + LINGER_MS * 1000000ull);
}

void mps_keep(struct node *node, uint64_t now, uint64_t *deadline)
{
	for (struct server *server = servers; server; server = server->next)
		keep_server(node, server, now, deadline);
}

// ---- requests ------------------------------------------------------------------------------------------

json_t *mps_admit(const struct request *request, const struct vgpu *vgpu)
{
	const char *named = getenv("VIRGATE_MPS_CONTROL");

	if (!vgpu->terms.is_mps || find_program())
		return NULL;
	if (named && *named)
		return refuse("unsupported", "the mode mps needs %.200s, which the daemon's VIRGATE_MPS_CONTROL names: it "
			      "is missing, or cannot be executed", named);
	if (*vg_simulation_wanted())
		return refuse("unsupported", "simulated GPUs have no MPS: use --mode time");
	return refuse("unsupported",
		      "this machine has no nvidia-cuda-mps-control, which the mode mps needs: install the package of "
		      "NVIDIA's driver that has it, or use --mode time");
}

// One mode and, in the mode mps, one user: clients of different servers would share the GPU without turns.
static json_t *refuse_mixture(const struct request *request, const struct vgpu *vgpu)
{
	for (const struct vgpu *other = request->node->vgpus; other; other = other->next) {
		if (other == vgpu || other->device != vgpu->device || !count_programs(other))
			continue;
		if (other->terms.is_mps != vgpu->terms.is_mps)
			return refuse("busy",
				      "GPU %zu: the vGPU %s has the mode %s, but programs of the mode %s run there (vGPU "
				      "%s), and a GPU has one mode at a time: wait until they have ended, or choose the "
				      "mode %s or another GPU",
				      vgpu->device, vgpu->name, vgpu->terms.is_mps ? "mps" : "time",
				      other->terms.is_mps ? "mps" : "time", other->name,
				      other->terms.is_mps ? "mps" : "time");
		if (vgpu->terms.is_mps && other->owner != vgpu->owner)
			return refuse("busy",
				      "GPU %zu: programs of user %u use it in the mode mps, which serves one user at a "
				      "time: wait until they have ended, or choose another GPU",
				      vgpu->device, (unsigned int)other->owner);
	}
	return NULL;
}

static json_t *refuse_ended(const struct server *server, uint64_t now)
{
	return refuse("busy",
		      "GPU %zu: its MPS control daemon has ended %u time%s in a row; the next start is in %.1f s: try "
		      "again then, and see its log in %.*slog",
		      server->device, server->failures, server->failures == 1 ? "" : "s",
		      (double)(server->next_start_ns - now) / 1e9, (int)(strlen(server->pipe) - 4), server->pipe);
}

json_t *mps_check(const struct request *request, const struct vgpu *vgpu)
{
	const struct server *server = find_server(vgpu->device, vgpu->owner);
	uint64_t now = vg_clock_monotonic_ns();
	json_t *refusal = refuse_mixture(request, vgpu);

	if (refusal || !vgpu->terms.is_mps || (refusal = mps_admit(request, vgpu)))
		return refusal;
	unsigned int clients = count_clients(request->node, vgpu->device, vgpu->owner);
	if (clients >= CLIENTS - RESERVE)
		return refuse("limit",
			      "GPU %zu: %u programs run there in the mode mps, and a server has at most %d clients, of "
			      "which %d are kept for processes that they start: wait until some have ended, or choose "
			      "another GPU",
			      vgpu->device, clients, CLIENTS, RESERVE);
	return server && server->source.fd < 0 && now < server->next_start_ns ? refuse_ended(server, now) : NULL;
}

json_t *mps_enter(const struct request *request, const struct vgpu *vgpu, bool *ret_ready)
{
	json_t *refusal = mps_check(request, vgpu);

	*ret_ready = true;
	if (refusal || !vgpu->terms.is_mps)
		return refusal;
	struct server *server = find_server(vgpu->device, vgpu->owner);
	if (!server)
		server = add_server(request->node, vgpu->device, vgpu->owner);
	if (!server)
		return refuse("system", "no memory for the MPS control daemon of GPU %zu", vgpu->device);
	server->needed_ns = vg_clock_monotonic_ns(); // mps_keep() starts it
	*ret_ready = server->listens && !server->told;
	return *ret_ready ? NULL : answer_later(request);
}

const char *mps_pipe_directory(const struct node *node, const struct vgpu *vgpu)
{
	const struct server *server = vgpu->terms.is_mps ? find_server(vgpu->device, vgpu->owner) : NULL;

	return server ? server->pipe : NULL;
}

const char *mps_problem(const struct vgpu *vgpu)
{
	const struct server *server = vgpu->terms.is_mps ? find_server(vgpu->device, vgpu->owner) : NULL;

	if (!server || server->listens)
		return NULL;
	return server->source.fd >= 0 ? "its MPS server is being started"
				      : "its MPS server has ended: start its programs again";
}

// ---- the daemon's life ---------------------------------------------------------------------------------

static void adopt_server(struct node *node, struct server *server)
{
	unsigned long long start_time;
	char path[PATH_MAX], text[64];
	int pid;

	place_path(node, path, "mps/%zu-%u/control.pid", server->device, (unsigned int)server->uid);
	if (vg_file_read(path, text, sizeof text) < 0 || sscanf(text, "%d %llu", &pid, &start_time) != 2)
		return;
	int fd = process_open(pid, start_time);
	if (fd < 0)
		return;
	server->source.fd = fd;
	server->pid = pid;
	server->is_adopted = true;
	server->started_ns = vg_clock_monotonic_ns();
	server->needed_ns = server->started_ns;
	server->listens = has_control(node, server);
	node_watch(node, &server->source, EPOLLIN);
}

void mps_adopt(struct node *node)
{
	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next) {
		if (!vgpu->terms.is_mps || find_server(vgpu->device, vgpu->owner))
			continue;
		struct server *server = add_server(node, vgpu->device, vgpu->owner);
		if (server)
			adopt_server(node, server);
	}
}

void mps_end(struct node *node)
{
	while (servers) {
		struct server *server = servers;
		servers = server->next;
		if (!count_clients(node, server->device, server->uid))
			end_server(server);
		node_unwatch(node, &server->source);
		free(server);
	}
}
