// virgate-exporter: reads options, and serves metrics until a signal ends it.
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <virgate/version.h>
#include <virgate/vgpu.h>

#include "exporter/listen.h"
#include "exporter/server.h"

#define DEFAULT_LISTEN "127.0.0.1:9844"

enum { EXIT_USAGE = 2, NODE_TIMEOUT_S = 2 };

static const char usage[] =
	"Usage: virgate-exporter [--listen ADDRESS:PORT | --listen unix:PATH] [--token-file FILE] [--host NAME]...\n"
	"                        [--socket-mode MODE] [--ephemeral]\n"
	"Serves the figures of this machine's virtual GPUs: a page at /, and text for Prometheus at /metrics.\n"
	"  --listen WHERE      an address in digits and a port, or unix:PATH (usual: " DEFAULT_LISTEN ")\n"
	"  --token-file FILE   a file with a token; readers with the token see as much as this user.\n"
	"                      An address outside the loopback network needs one\n"
	"  --host NAME         a name of this server that requests may use; may be given again\n"
	"  --socket-mode MODE  octal mode of the unix socket (usual: 0600)\n"
	"  --ephemeral         a row for each ephemeral vGPU, not one for each GPU and owner\n"
	"  --version, --help\n";

struct options {
	const char *listen, *token_file;
	mode_t socket_mode;
	struct server_options server;
};

static void stop_usage(const char *what, const char *value, const char *why)
{
	fprintf(stderr, "virgate-exporter: %s \"%s\": %s\n", what, value, why);
	exit(EXIT_USAGE);
}

static mode_t read_mode(const char *text)
{
	char *end;
	unsigned long mode = strtoul(text, &end, 8);

	if (!*text || *end || mode > 0777)
		stop_usage("--socket-mode", text, "it is not an octal mode from 0 to 0777");
	return (mode_t)mode;
}

static void add_host(struct guard *guard, const char *name)
{
	if (guard->host_count == GUARD_HOSTS_MOST)
		stop_usage("--host", name, "at most 16 names can be given");
	guard->hosts[guard->host_count++] = name;
}

static void apply_option(struct options *options, int option)
{
	switch (option) {
	case 'l':
		options->listen = optarg;
		break;
	case 't':
		options->token_file = optarg;
		break;
	case 'h':
		add_host(&options->server.guard, optarg);
		break;
	case 'm':
		options->socket_mode = read_mode(optarg);
		break;
	case 'e':
		options->server.source.lists_ephemeral = true;
		break;
	case 'v':
		printf("virgate-exporter %s\n", vg_version());
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
	static const struct option known[] = {
		{"listen", required_argument, NULL, 'l'}, {"token-file", required_argument, NULL, 't'},
		{"host", required_argument, NULL, 'h'},	  {"socket-mode", required_argument, NULL, 'm'},
		{"ephemeral", no_argument, NULL, 'e'},	  {"version", no_argument, NULL, 'v'},
		{"help", no_argument, NULL, 'u'},	  {0}};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1)
		apply_option(options, option);
	if (optind < argc)
		stop_usage("argument", argv[optind], "not understood; virgate-exporter --help says what is");
}

// Checks that the address may be served as the options say, and fills in the guard.
static void choose_guard(struct options *options, const struct listen_address *address)
{
	struct guard *guard = &options->server.guard;
	bool is_open = !address->is_unix && !address->is_loopback;

	if (options->token_file) {
		const char *wrong = guard_read_token(options->token_file, guard->token);
		if (wrong)
			stop_usage("--token-file", options->token_file, wrong);
	}
	if (is_open && !*guard->token)
		stop_usage("--listen", options->listen,
			   "other machines can reach this address: give a token with --token-file FILE, and put TLS "
			   "in front of it");
	if (is_open && !guard->host_count)
		stop_usage("--listen", options->listen,
			   "give the name or the address in digits that readers use, with --host NAME");
	guard->needs_token = is_open;
	options->server.source.has_token = *guard->token;
	guard->checks_host = !address->is_unix;
	options->server.is_unix = address->is_unix;
}

static void raise_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

// Waits for a signal that ends the program. Meanwhile ends connections that are too old.
static void wait_for_end(struct server *server, const sigset_t *signals)
{
	while (sigtimedwait(signals, NULL, &(struct timespec){.tv_sec = 1}) < 0)
		server_end_old(server);
}

static int serve(struct options *options, const struct listen_address *address)
{
	char problem[256], where[256];
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigprocmask(SIG_BLOCK, &signals, NULL); // the server's thread inherits the mask
	signal(SIGPIPE, SIG_IGN);
	int listener = listen_open(address, options->socket_mode, problem, sizeof problem);
	if (listener < 0) {
		fprintf(stderr, "virgate-exporter: cannot listen on %s: %s\n", options->listen, problem);
		return EXIT_FAILURE;
	}
	struct server *server = server_start(listener, &options->server);
	if (!server) {
		fprintf(stderr, "virgate-exporter: the HTTP server cannot be started\n");
		return EXIT_FAILURE;
	}
	listen_describe(listener, address, where, sizeof where);
	printf("serves %s%s\n", where, address->is_unix ? "" : "/metrics");
	fflush(stdout);
	wait_for_end(server, &signals);
	server_stop(server);
	if (address->is_unix)
		remove(((const struct sockaddr_un *)&address->address)->sun_path);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct options options = {.listen = DEFAULT_LISTEN, .socket_mode = 0600};
	struct listen_address address;

	read_options(argc, argv, &options);
	const char *wrong = listen_read(options.listen, &address);
	if (wrong)
		stop_usage("--listen", options.listen, wrong);
	choose_guard(&options, &address);
	raise_files();
	// The exporter only reads, so it does not start a daemon that does not run.
	const struct vg_node_options node = {.size = sizeof node, .no_start = 1, .timeout = NODE_TIMEOUT_S};
	if (vg_node_open(&node, &options.server.source.node)) {
		fprintf(stderr, "virgate-exporter: %s\n", vg_last_error()->text);
		return EXIT_FAILURE;
	}
	int r = serve(&options, &address);
	vg_node_close(options.server.source.node);
	return r;
}
