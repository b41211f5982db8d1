// virgated: reads options and environment, starts the daemon, and ends it.
#include "base/hash.h"
#include "base/parts.h"
#include "daemon/discard.h"
#include "daemon/loop.h"
#include "daemon/path.h"
#include "daemon/directory.h"
#include "daemon/say.h"
#include "daemon/start.h"
#include "wire/wire.h"

#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEFAULT_IDLE_SECONDS = 300 };

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
	static const struct option known[] = {{"system", no_argument, NULL, 's'},
					      {"foreground", no_argument, NULL, 'f'},
					      {"idle-seconds", required_argument, NULL, 'i'},
					      {"ready-fd", required_argument, NULL, 'r'},
					      {"version", no_argument, NULL, 'v'},
					      {"help", no_argument, NULL, 'h'},
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

static const char *read_environment(const char *variable)
{
	const char *value = getenv(variable);

	return value && *value ? value : NULL;
}

// Creates the directory in which the system's daemon keeps simulated devices, which processes of all users map. The
// directory belongs to root. The simulator recognizes by the mode that it is for all users.
static void share_simulated_node(const char *state)
{
	const char *named = read_environment("VIRGATE_SIM_DIR");
	char path[PATH_MAX];

	if (geteuid() != 0) // other users could not trust the directory
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

// Creates a directory and its parents. A failure is reported when the directory is used.
static void make_directories(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0755);
		*slash = '/';
	}
	mkdir(path, 0700);
}

static void choose_state_path(struct node *node)
{
	const char *state = read_environment("VIRGATE_STATE_DIR"), *runtime = read_environment("VIRGATE_RUNTIME_DIR");
	const char *xdg = read_environment("XDG_STATE_HOME"), *home = read_environment("HOME");
	char directory[PATH_MAX - 64], name[32] = "state";
	unsigned long long hash = vg_hash_text(node->runtime_dir);

	if (state)
		snprintf(directory, sizeof directory, "%s", state);
	else if (node->system_wide)
		snprintf(directory, sizeof directory, "/var/lib/virgate");
	else if (xdg)
		snprintf(directory, sizeof directory, "%s/virgate", xdg);
	else
		snprintf(directory, sizeof directory, "%s/.local/state/virgate", home ? home : node->runtime_dir);
	make_directories(directory);
	if (node->system_wide && *vg_simulation_wanted())
		share_simulated_node(directory);
	// Each set of simulated GPUs (a simulated node) has its own vGPUs, so each has a daemon and a state file of its
	// own.
	if (*vg_simulation_wanted())
		snprintf(name, sizeof name, "sim-%016llx", hash);
	else if (runtime && !state && !node->system_wide)
		snprintf(name, sizeof name, "state-%016llx", hash);
	snprintf(node->state_path, sizeof node->state_path, "%s/%s.json", directory, name);
}

// Chooses the runtime directory and the state directory. Returns -1 if the runtime directory's path is too long.
static int choose_directories(struct node *node)
{
	const char *runtime = read_environment("VIRGATE_RUNTIME_DIR"), *claims = read_environment("VIRGATE_CLAIMS_DIR");
	size_t room = sizeof node->runtime_dir;
	int length;

	if (runtime || node->system_wide)
		length = snprintf(node->runtime_dir, room, "%s", runtime ? runtime : "/run/virgate");
	else // XDG_RUNTIME_DIR is not used: it is removed at logout, and programs of the user may run longer
		length = snprintf(node->runtime_dir, room, "/tmp/virgate-%u", (unsigned int)geteuid());
	snprintf(node->claims_dir, sizeof node->claims_dir, "%s", claims ? claims : "/tmp/virgate-claims");
	choose_state_path(node);
	return length < (int)room ? 0 : -1;
}

// Forks; the child becomes the daemon. The parent waits until the child listens, so that the caller can use the daemon
// at once.
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
	dup2(null_fd, 1); // standard error stays open, for the log
	if (chdir("/") < 0)
		exit(125);
	options->ready_fd = ready[1];
}

// Raises resource limits to their maximum: the daemon needs a pidfd for each tenant and a mapping for each vGPU.
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
	signal(SIGXFSZ, SIG_IGN); // a write beyond the limit fails with EFBIG instead
}

// Replaces this process by the installed program (exec), which an upgrade may have changed. That program takes over the
// tenants. Returns only if exec fails; the next `virgate` command then starts a daemon.
static void run_installed_program(const struct node *node)
{
	static const char deleted[] = " (deleted)";
	char program[PATH_MAX], seconds[12], *end;

	ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
	if (length < 0) {
		say("/proc/self/exe: %m");
		return;
	}
	program[length] = '\0';
	end = program + length - (sizeof deleted - 1);
	if (end > program && strcmp(end, deleted) == 0)
		*end = '\0';
	snprintf(seconds, sizeof seconds, "%u", node->idle_seconds);
	execl(program, program, "--foreground", "--idle-seconds", seconds, node->system_wide ? "--system" : NULL, NULL);
	say("cannot run %s: %m; the next use of virgate starts a daemon", program);
}

int main(int argc, char **argv)
{
	static struct node node = {.listener.fd = -1,
				   .signals.fd = -1,
				   .name_lock.fd = -1,
				   .lock_fd = -1,
				   .epoll_fd = -1,
				   .directory = -1};
	struct options options = {.ready_fd = -1, .idle_seconds = -1};

	read_options(argc, argv, &node, &options);
	node.idle_seconds = options.idle_seconds >= 0 ? (unsigned int)options.idle_seconds
			    : node.system_wide	      ? 0
						      : DEFAULT_IDLE_SECONDS;
	if (choose_directories(&node) < 0) {
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
	if (start_node(&node) < 0)
		return 125;
	if (options.ready_fd >= 0) {
		if (write(options.ready_fd, "1", 1) != 1)
			say("descriptor %d cannot be written: %m", options.ready_fd);
		close(options.ready_fd);
	}
	size_t gpus = vg_system_device_count(node.system);
	say("serves %s (%zu GPU%s, driver %s%s)", node.runtime_dir, gpus, gpus == 1 ? "" : "s",
	    vg_system_driver_version(node.system), node.simulated ? ", simulated" : "");
	loop_run(&node);
	start_finish(&node);
	if (node.is_replaced)
		run_installed_program(&node);
	return 0;
}
