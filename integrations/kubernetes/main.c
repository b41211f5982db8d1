// virgate-device-plugin: reads options, and serves the kubelet until a signal ends it.
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <virgate/profile.h>
#include <virgate/version.h>
#include <virgate/vgpu.h>

#include "plugin.h"
#include "watch.h"

enum { EXIT_USAGE = 2, DAEMON_TIMEOUT_S = 2, RESERVE_S = 300, RESERVE_MOST_S = 86400 };

static const char usage[] =
	"Usage: virgate-device-plugin [PROFILE...] [--kubelet-dir DIRECTORY] [--gpu-device uuid|index|all|none]\n"
	"                             [--reserve SECONDS] [--ignore-xid NUMBER]...\n"
	"Offers vGPUs to Kubernetes: a resource virgate.dev/PROFILE for each profile of virgate.conf.\n"
	"  --kubelet-dir DIRECTORY  the directory of the kubelet's socket (usual: /var/lib/kubelet/device-plugins)\n"
	"  --gpu-device WHICH       the name of the device nvidia.com/gpu=... that a container gets (usual: uuid)\n"
	"  --reserve SECONDS        how long the room of an allocated device is kept for its container (usual: 300)\n"
	"  --ignore-xid NUMBER      an error of a GPU that does not make its devices unhealthy; may be given again\n"
	"  --version, --help\n"
	"SIGHUP makes it read the profiles again, and forget the errors of GPUs.\n";

struct options {
	const char *directory;
	enum api_gpu gpu;
	uint64_t reserve_ms;
	// Kinds of errors that the program in a container causes, and that do not make the GPU unusable: exceptions and
	// page faults in kernels, a channel that was stopped or cleaned up, an exception of the video decoder, and a
	// context switch that timed out.
	struct watch_options watch;
	char **profiles; // NULL: all
	int profile_count;
};

static void stop_usage(const char *what, const char *value, const char *why)
{
	fprintf(stderr, "virgate-device-plugin: %s \"%s\": %s\n", what, value, why);
	exit(EXIT_USAGE);
}

static unsigned long read_number(const char *option, unsigned long least, unsigned long most)
{
	char *end, why[64];
	unsigned long number = strtoul(optarg, &end, 10);

	snprintf(why, sizeof why, "it is not a number from %lu to %lu", least, most);
	if (*optarg < '0' || *optarg > '9' || *end || number < least || number > most)
		stop_usage(option, optarg, why);
	return number;
}

static enum api_gpu read_gpu(void)
{
	static const char *const names[] = {
		[API_GPU_UUID] = "uuid", [API_GPU_INDEX] = "index", [API_GPU_ALL] = "all", [API_GPU_NONE] = "none"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(names[i], optarg) == 0)
			return (enum api_gpu)i;
	stop_usage("--gpu-device", optarg, "there are uuid, index, all and none");
	return API_GPU_NONE;
}

static void add_ignored(struct watch_options *watch)
{
	unsigned long number = read_number("--ignore-xid", 0, 9999);

	if (watch->ignored_count == WATCH_IGNORED)
		stop_usage("--ignore-xid", optarg, "too many numbers are given");
	watch->ignored[watch->ignored_count++] = number;
}

static void apply_option(struct options *options, int option)
{
	switch (option) {
	case 'k':
		options->directory = optarg;
		break;
	case 'g':
		options->gpu = read_gpu();
		break;
	case 'r':
		options->reserve_ms = read_number("--reserve", 1, RESERVE_MOST_S) * 1000;
		break;
	case 'i':
		add_ignored(&options->watch);
		break;
	case 'v':
		printf("virgate-device-plugin %s\n", vg_version());
		exit(0);
	case '?':
		exit(EXIT_USAGE);
	default:
		fputs(usage, stdout);
		exit(0);
	}
}

static void read_options(int argc, char **argv, struct options *options)
{
	static const struct option known[] = {{"kubelet-dir", required_argument, NULL, 'k'},
					      {"gpu-device", required_argument, NULL, 'g'},
					      {"reserve", required_argument, NULL, 'r'},
					      {"ignore-xid", required_argument, NULL, 'i'},
					      {"version", no_argument, NULL, 'v'},
					      {"help", no_argument, NULL, 'h'},
					      {0}};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1)
		apply_option(options, option);
	options->profiles = argv + optind;
	options->profile_count = argc - optind;
}

// ---- profiles -------------------------------------------------------------------------------------------------

static bool is_chosen(const struct options *options, const char *name)
{
	for (int i = 0; i < options->profile_count; i++)
		if (strcmp(options->profiles[i], name) == 0)
			return true;
	return options->profile_count == 0;
}

static void check_chosen(const struct options *options, const struct vg_profile_list *profiles)
{
	for (int i = 0; i < options->profile_count; i++) {
		if (vg_profile_find(profiles, options->profiles[i]))
			continue;
		fprintf(stderr, "virgate-device-plugin: virgate.conf has no section [profile %s]; it has:",
			options->profiles[i]);
		for (size_t at = 0; at < profiles->count; at++)
			fprintf(stderr, " %s", profiles->profiles[at].name);
		fprintf(stderr, "%s\n", profiles->count ? "" : " none");
		exit(EXIT_FAILURE);
	}
}

// Sets the user to whom vGPUs of containers belong: the hook of the CDI device runs as this program's user. The daemon
// shows a user's number if it finds no name, so both are stored.
static void set_owner(struct inventory *inventory)
{
	const struct passwd *entry = getpwuid(geteuid());

	snprintf(inventory->owner[0], sizeof inventory->owner[0], "%s", entry ? entry->pw_name : "");
	snprintf(inventory->owner[1], sizeof inventory->owner[1], "%u", (unsigned)geteuid());
}

// Reads the profiles, and fills in the inventory with those that the user chose. Ends the program if no profile is
// left.
static void read_profiles(const struct options *options, struct inventory *inventory)
{
	struct vg_profile_list *profiles;
	size_t count = 0;

	if (vg_profile_list_read(&profiles)) {
		fprintf(stderr, "virgate-device-plugin: %s\n", vg_last_error()->text);
		exit(EXIT_FAILURE);
	}
	check_chosen(options, profiles);
	if (!inventory_init(inventory, profiles, options->reserve_ms)) {
		fprintf(stderr, "virgate-device-plugin: no memory for the profiles\n");
		exit(EXIT_FAILURE);
	}
	set_owner(inventory);
	for (size_t i = 0; i < profiles->count; i++) {
		const char *name = profiles->profiles[i].name, *wrong = inventory_check_name(name);
		if (wrong && is_chosen(options, name))
			fprintf(stderr, "virgate-device-plugin: the profile %s is left out: %s\n", name, wrong);
	}
	for (size_t i = 0; i < inventory->count; i++)
		if (is_chosen(options, inventory->resources[i].profile->name))
			inventory->resources[count++] = inventory->resources[i];
	inventory->count = count;
	if (count)
		return;
	fprintf(stderr, "virgate-device-plugin: there is nothing to offer: write a section [profile NAME] in "
			"/etc/virgate/virgate.conf\n");
	exit(EXIT_FAILURE);
}

// ---- the program ----------------------------------------------------------------------------------------------

struct program {
	struct source signals; // first
	struct inventory inventory;
	struct api api;
	struct plugin *plugin;
	int ended_by;
	char problem[NODE_PROBLEM]; // why the daemon does not answer; "": it does
};

static void got_signal(struct source *source, uint32_t events)
{
	struct signalfd_siginfo info;

	if (read(source->fd, &info, sizeof info) == sizeof info)
		((struct program *)source)->ended_by = (int)info.ssi_signo;
}

static void read_node(void *program_, struct node_reading *reading)
{
	struct program *program = program_;
	bool was_lost = *program->problem, is_lost = !reading->devices;

	if (is_lost && strcmp(program->problem, reading->problem) != 0)
		fprintf(stderr, "virgate-device-plugin: no containers can start in vGPUs: %s\n", reading->problem);
	if (!is_lost && was_lost)
		fprintf(stderr, "virgate-device-plugin: the daemon answers again\n");
	snprintf(program->problem, sizeof program->problem, "%s", is_lost ? reading->problem : "");
	inventory_update(&program->inventory, reading->devices, reading->vgpus, loop_now_ms());
	vg_vgpu_list_free(reading->vgpus);
	plugin_push(program->plugin);
}

static void note_created(void *program, const char *vgpu)
{
	inventory_note_created(&((struct program *)program)->inventory, vgpu);
}

static void fail_gpu(void *program_, const char *uuid, const char *reason)
{
	struct program *program = program_;

	if (!inventory_failure(&program->inventory, uuid))
		fprintf(stderr,
			"virgate-device-plugin: %s has failed: %s; all of its devices are unhealthy until "
			"virgate-device-plugin gets SIGHUP or is restarted\n",
			uuid, reason);
	inventory_fail(&program->inventory, uuid, reason, loop_now_ms());
	plugin_push(program->plugin);
}

// Stores the directory in which the daemon's socket is.
static void find_directory(const char *socket, char ret_directory[PATH_MAX])
{
	const char *slash = strrchr(socket, '/');

	snprintf(ret_directory, PATH_MAX, "%.*s", slash ? (int)(slash - socket) : 1, slash ? socket : ".");
}

// Makes a token for an allocation (struct api). `user` is the path of the daemon's socket.
static int issue(void *user, const char *vgpu, bool is_first, char ret_token[TOKEN_TEXT])
{
	char directory[PATH_MAX];

	find_directory(user, directory);
	return token_issue(directory, vgpu, is_first, ret_token);
}

static int permit(void *user, const char *vgpu, uint64_t until)
{
	char directory[PATH_MAX];

	find_directory(user, directory);
	return token_permit(directory, vgpu, until);
}

static int open_signals(struct loop *loop, struct program *program)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL); // the other threads inherit the mask
	program->signals = (struct source){signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), got_signal};
	return program->signals.fd < 0 ? -errno : loop_add(loop, &program->signals, EPOLLIN);
}

static void run(struct loop *loop, struct program *program, const struct options *options, struct vg_node *daemon)
{
	struct node *node = NULL;
	const char *problem;

	int r = node_start(loop, daemon, read_node, note_created, program, &node);
	struct watch *watch = watch_start(loop, &options->watch, fail_gpu, program, &problem);
	if (!watch)
		fprintf(stderr, "virgate-device-plugin: errors of the GPUs are not seen: %s\n", problem);
	if (r < 0)
		fprintf(stderr, "virgate-device-plugin: cannot start a thread: %s\n", strerror(-r));
	while (r == 0 && !program->ended_by) {
		plugin_tick(program->plugin);
		loop_step(loop, 1000);
	}
	watch_stop(watch);
	node_stop(node);
}

int main(int argc, char **argv)
{
	struct options options = {.directory = "/var/lib/kubelet/device-plugins",
				  .reserve_ms = RESERVE_S * 1000,
				  .watch = {.ignored = {13, 31, 43, 45, 68, 109}, .ignored_count = 6}};
	const struct vg_node_options node = {.size = sizeof node, .no_start = 1, .timeout = DAEMON_TIMEOUT_S};
	struct program program = {0};
	char own_path[PATH_MAX] = "";
	struct vg_node *daemon;
	struct loop loop;

	if (readlink("/proc/self/exe", own_path, sizeof own_path - 1) < 0)
		*own_path = '\0';
	read_options(argc, argv, &options);
	read_profiles(&options, &program.inventory);
	if (vg_node_open(&node, &daemon)) {
		fprintf(stderr, "virgate-device-plugin: %s\n", vg_last_error()->text);
		return EXIT_FAILURE;
	}
	program.api = (struct api){&program.inventory, options.gpu, issue, permit, (void *)vg_node_socket(daemon)};
	int r = loop_init(&loop);
	if (r == 0)
		r = open_signals(&loop, &program);
	if (r < 0) {
		fprintf(stderr, "virgate-device-plugin: cannot wait for events: %s\n", strerror(-r));
		return EXIT_FAILURE;
	}
	program.plugin = plugin_start(&loop, &program.api, options.directory);
	if (program.plugin)
		run(&loop, &program, &options, daemon);
	plugin_stop(program.plugin);
	inventory_finish(&program.inventory);
	vg_node_close(daemon);
	if (program.ended_by == SIGHUP) {
		// Executes the program at this program's path, which an upgrade may have replaced. It keeps the options
		// and the mask of signals.
		execv(own_path, argv);
		execv("/proc/self/exe", argv);
		fprintf(stderr, "virgate-device-plugin: cannot start again: %m\n");
		return EXIT_FAILURE;
	}
	return program.ended_by ? EXIT_SUCCESS : EXIT_FAILURE;
}
