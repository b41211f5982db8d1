// virgated: options, environment, life.
#include "base/descriptor.h"
#include "base/hash.h"
#include "base/parts.h"
#include "daemon/arbiter.h"
#include "daemon/broker.h"
#include "daemon/mps.h"
#include "daemon/names.h"
#include "daemon/save.h"
#include "daemon/subordinate.h"
#include "daemon/work.h"
#include "wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { USUAL_IDLE_SECONDS = 300, START_PATIENCE_MS = 2000 };

static const char usage[] =
	"Usage: virgated [--system] [--foreground] [--idle-seconds N] [--ready-fd N]\n"
	"The daemon of a node's virtual GPUs. It is started by `virgate` when needed, or by\n"
	"the system for all users.\n"
	"  --system          serve all users, at /run/virgate; state in /var/lib/virgate\n"
	"  --foreground      do not go to the background\n"
	"  --idle-seconds N  end after N seconds without use; 0: never (usual: 300, with --system 0)\n"
	"  --ready-fd N      write a byte there once it listens; stays in the foreground\n"
	"  --version, --help\n";

struct options {
	bool foreground;
	int ready_fd, idle_seconds;
};

static int read_number(const char *name, const char *text, int most)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (!*text || *end || value < 0 || value > most) {
		fprintf(stderr, "virgated: %s \"%s\" is not a number from 0 to %d\n", name, text, most);
		exit(125);
	}
	return (int)value;
}

static void read_options(int argc, char **argv, struct node *node, struct options *options)
{
	static const struct option known[] = {
		{"system", no_argument, NULL, 's'},	     {"foreground", no_argument, NULL, 'f'},
		{"idle-seconds", required_argument, NULL, 'i'}, {"ready-fd", required_argument, NULL, 'r'},
		{"version", no_argument, NULL, 'v'},	     {"help", no_argument, NULL, 'h'},
		{0}};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 's':
			node->system_wide = true;
			break;
		case 'f':
			options->foreground = true;
			break;
		case 'i':
			options->idle_seconds = read_number("--idle-seconds", optarg, 1000000000);
			break;
		case 'r':
			options->ready_fd = read_number("--ready-fd", optarg, 1 << 20);
			break;
		case 'v':
			printf("virgated %s\n", VIRGATE_VERSION);
			exit(0);
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			exit(125);
		}
	}
	if (optind < argc) {
		fprintf(stderr, "virgated: \"%s\" is not understood; virgated --help says what is\n", argv[optind]);
		exit(125);
	}
}

static const char *environment(const char *variable)
{
	const char *value = getenv(variable);

	return value && *value ? value : NULL;
}

// All users map the simulated devices of the system's daemon: in a directory of root's with the mode that the simulator
// takes for one that is shared. What else lies in the state directory has modes of its own.
static void share_simulated_node(const char *state)
{
	const char *named = environment("VIRGATE_SIM_DIR");
	char path[PATH_MAX];

	if (geteuid() != 0) // nobody else could trust it
		return;
	snprintf(path, sizeof path, "%s/sim-%016llx", state, (unsigned long long)vg_hash_text(vg_simulation_wanted()));
	if (!named)
		setenv("VIRGATE_SIM_DIR", path, 1);
	if (!named && chmod(state, 0711) < 0)
		say("%s: %m", state);
	mkdir(named ? named : path, 0700);
	if (chmod(named ? named : path, 01711) < 0)
		say("%s: %m", named ? named : path);
}

// -1 when a folder's name is too long to leave room for what goes in.
static int choose_folders(struct node *node)
{
	const char *runtime = environment("VIRGATE_RUNTIME_DIR"), *state = environment("VIRGATE_STATE_DIR");
	const char *xdg, *home = environment("HOME"), *claims = environment("VIRGATE_CLAIMS_DIR");
	char folder[PATH_MAX - 64], *dir = node->runtime_dir;
	size_t room = sizeof node->runtime_dir;
	int length;

	if (runtime || node->system_wide)
		length = snprintf(dir, room, "%s", runtime ? runtime : "/run/virgate");
	else // not of a session, which ends before its programs do
		length = snprintf(dir, room, "/tmp/virgate-%u", (unsigned int)geteuid());
	snprintf(node->claims_dir, sizeof node->claims_dir, "%s", claims ? claims : "/tmp/virgate-claims");
	if (state)
		snprintf(folder, sizeof folder, "%s", state);
	else if (node->system_wide)
		snprintf(folder, sizeof folder, "/var/lib/virgate");
	else if ((xdg = environment("XDG_STATE_HOME")))
		snprintf(folder, sizeof folder, "%s/virgate", xdg);
	else
		snprintf(folder, sizeof folder, "%s/.local/state/virgate", home ? home : dir);
	for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(folder, 0755);
		*slash = '/';
	}
	mkdir(folder, 0700);
	if (node->system_wide && *vg_simulation_wanted())
		share_simulated_node(folder);
	// Each simulated node has its own vGPUs.
	char node_name[32] = "state";
	if (*vg_simulation_wanted())
		snprintf(node_name, sizeof node_name, "sim-%016llx", (unsigned long long)vg_hash_text(dir));
	else if (runtime && !state && !node->system_wide) // a second daemon of the user's
		snprintf(node_name, sizeof node_name, "state-%016llx", (unsigned long long)vg_hash_text(dir));
	snprintf(node->state_path, sizeof node->state_path, "%s/%s.json", folder, node_name);
	return length < (int)room ? 0 : -1;
}

static void signal_came(struct node *node, struct source *source, uint32_t events)
{
	struct signalfd_siginfo info;

	if (read(source->fd, &info, sizeof info) == sizeof info) {
		say("ends on signal %u", info.ssi_signo);
		node->leaving = true;
		node->ending = true;
	}
}

static int watch_signals(struct node *node)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGIO, SIG_IGN); // leftover.c takes leases, for a moment
	node->signals = (struct source){signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), signal_came};
	return node->signals.fd < 0 ? -1 : node_watch(node, &node->signals, EPOLLIN);
}

// The parent waits until the child listens, so that who started it may go on at once.
static void go_to_background(struct options *options)
{
	int ready[2], null_fd;
	char byte;

	if (pipe2(ready, O_CLOEXEC) < 0)
		exit(125);
	pid_t child = fork();
	if (child < 0)
		exit(125);
	if (child > 0) {
		close(ready[1]);
		_exit(read(ready[0], &byte, 1) == 1 ? 0 : 125);
	}
	close(ready[0]);
	setsid();
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	dup2(null_fd, 0);
	dup2(null_fd, 1); // stderr stays: it is where the words go
	if (chdir("/") < 0)
		exit(125);
	options->ready_fd = ready[1];
}

// As far as they go: a pidfd for every tenant, a ledger for every vGPU.
static void raise_limits(void)
{
	static const int resources[] = {RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_AS, RLIMIT_DATA, RLIMIT_CPU, RLIMIT_NPROC};

	for (size_t i = 0; i < sizeof resources / sizeof *resources; i++) {
		struct rlimit limit;
		if (getrlimit((__rlimit_resource_t)resources[i], &limit) < 0)
			continue;
		limit.rlim_cur = limit.rlim_max;
		setrlimit((__rlimit_resource_t)resources[i], &limit);
	}
	signal(SIGXFSZ, SIG_IGN); // a write that is too much fails, and says so
}

int node_start(struct node *node)
{
	char problem[512];
	struct vg_ledger_owner self;

	if (place_prepare(node) < 0)
		return -1;
	if (vg_ledger_self(&self) < 0) {
		say("/proc is not mounted here");
		return -1;
	}
	node->pid_namespace = self.pid_namespace;
	if (vg_system_open(&node->system, problem, sizeof problem) != 0) {
		say("%s", problem);
		return -1;
	}
	node->simulated = vg_system_simulated(node->system);
	node->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	node->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (node->epoll_fd < 0 || watch_signals(node) < 0 || work_start(node) < 0) {
		say("no events: %m");
		return -1;
	}
	registry_guard(node);
	subordinate_start(node);
	state_load(node);
	mps_adopt(node);
	page_load_all(node);
	// Neither a user whose processes cannot be looked at nor a slow directory of users keeps others waiting.
	for (int i = 0; i < START_PATIENCE_MS / 20; i++) {
		bool waits = damage_mend_all(node);
		waits |= names_are_pending();
		waits |= subordinate_is_pending();
		if (!waits)
			break;
		work_collect(node, 20);
	}
	admission_publish(node);
	return place_listen(node);
}

int main(int argc, char **argv)
{
	static struct node node = {.listener.fd = -1, .signals.fd = -1, .door.fd = -1, .lock_fd = -1, .epoll_fd = -1, .directory = -1};
	struct options options = {.ready_fd = -1, .idle_seconds = -1};

	read_options(argc, argv, &node, &options);
	node.idle_seconds = options.idle_seconds >= 0 ? (unsigned int)options.idle_seconds
						      : node.system_wide ? 0 : USUAL_IDLE_SECONDS;
	if (choose_folders(&node) < 0) {
		say("the name of the runtime directory is too long");
		return 125;
	}
	if (*node.runtime_dir != '/') {
		say("the runtime directory \"%s\" must begin with '/'", node.runtime_dir);
		return 125;
	}
	umask(077);
	if (!options.foreground && !node.system_wide && options.ready_fd < 0)
		go_to_background(&options);
	vg_wire_discard = discard;
	raise_limits();
	if (node_start(&node) < 0)
		return 125;
	if (options.ready_fd >= 0) {
		if (write(options.ready_fd, "1", 1) != 1)
			say("nobody waits for us on descriptor %d", options.ready_fd);
		close(options.ready_fd);
	}
	size_t gpus = vg_system_device_count(node.system);
	say("serves %s (%zu GPU%s, driver %s%s)", node.runtime_dir, gpus, gpus == 1 ? "" : "s",
	    vg_system_driver_version(node.system), node.simulated ? ", simulated" : "");
	node_run(&node);
	save_finish(&node);
	arbiter_end_all(&node);
	mps_end(&node);
	say_left_out(UINT64_MAX, &(uint64_t){0});
	vg_system_close(node.system);
	place_give_up(&node);
	return 0;
}
