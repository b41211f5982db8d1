#include "plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "registration.h"
#include "server.h"

// SOON_MS, LATER_MS: when to try again. UNWATCHED_MS: how long to wait for the kubelet's call of ListAndWatch after a
// registration. The kubelet calls it at once, but a machine can be busy.
enum { SOON_MS = 200, LATER_MS = 5000, UNWATCHED_MS = 60000 };

static const char kubelet_socket[] = "kubelet.sock";

// A call of ListAndWatch that has not ended.
struct watcher {
	struct call *call;
	struct watcher *next;
};

struct endpoint {
	struct plugin *plugin;
	struct resource *resource;
	char name[80]; // of the socket
	struct server *server;
	struct registration *registration;
	bool is_registered;
	uint64_t retry_at;
	uint64_t watched_by; // when to register again if the kubelet has no call of ListAndWatch
	char said[256];	     // the problem that was printed last
	struct watcher *watchers;
};

struct plugin {
	struct source source; // first: inotify
	struct loop *loop;
	const struct api *api;
	const char *directory;
	int lock;  // descriptor of the locked directory; -1: the directory is missing
	int watch; // inotify's descriptor number for the directory
	struct endpoint *endpoints;
	size_t count;
};

static void say_problem(struct endpoint *endpoint, const char *problem)
{
	if (strcmp(endpoint->said, problem) == 0)
		return;
	snprintf(endpoint->said, sizeof endpoint->said, "%s", problem);
	fprintf(stderr, "virgate-device-plugin: %s: %s\n", endpoint->resource->name, problem);
}

// ---- calls of the kubelet -------------------------------------------------------------------------------------

static void send_list(struct endpoint *endpoint, struct watcher *only)
{
	struct api_answer answer;

	api_list(endpoint->resource, &answer);
	for (struct watcher *watcher = endpoint->watchers; answer.data && watcher; watcher = watcher->next)
		if (!only || watcher == only)
			call_update(watcher->call, answer.data, answer.length);
	free(answer.data);
}

void plugin_push(struct plugin *plugin)
{
	for (size_t i = 0; i < plugin->count; i++) {
		struct endpoint *endpoint = &plugin->endpoints[i];
		if (endpoint->resource->is_changed)
			send_list(endpoint, NULL);
		endpoint->resource->is_changed = false;
	}
}

static void watch(struct endpoint *endpoint, struct call *call)
{
	struct watcher *watcher = malloc(sizeof *watcher);

	if (!watcher) {
		call_fail(call, RPC_RESOURCE_EXHAUSTED, "no memory to send lists");
		return;
	}
	*watcher = (struct watcher){call, endpoint->watchers};
	endpoint->watchers = watcher;
	call_keep(call);
	send_list(endpoint, watcher);
}

// Called when a call of ListAndWatch ends. Without such a call, the kubelet considers the plugin gone until it
// registers again. The plugin waits a little before it does so, because the kubelet may call ListAndWatch again by
// itself, or may be ending.
static void end_watch(void *endpoint_, struct call *call)
{
	struct endpoint *endpoint = endpoint_;
	struct watcher **link = &endpoint->watchers;

	while (*link && (*link)->call != call)
		link = &(*link)->next;
	struct watcher *watcher = *link;
	if (watcher)
		*link = watcher->next;
	free(watcher);
	uint64_t now = loop_now_ms(), earliest = endpoint->retry_at; // at least LATER_MS after the last registration
	endpoint->watched_by = earliest > now + SOON_MS ? earliest : now + SOON_MS;
}

static void answer(void *endpoint_, struct call *call, const char *method, const uint8_t *message, size_t length)
{
	struct endpoint *endpoint = endpoint_;
	struct api_answer answer;

	api_answer(endpoint->plugin->api, endpoint->resource, method, message, length, loop_now_ms(), &answer);
	if (answer.status) {
		fprintf(stderr, "virgate-device-plugin: %s: refused: %s\n", endpoint->resource->name, answer.text);
		call_fail(call, answer.status, answer.text);
	} else if (answer.is_list) {
		watch(endpoint, call);
	} else {
		call_send(call, answer.data, answer.length);
	}
	free(answer.data);
	plugin_push(endpoint->plugin);
}

// ---- registration ---------------------------------------------------------------------------------------------

static void registered(void *endpoint_, const char *error)
{
	struct endpoint *endpoint = endpoint_;
	char problem[256];

	endpoint->registration = NULL;
	endpoint->is_registered = !error;
	endpoint->retry_at = loop_now_ms() + LATER_MS;
	endpoint->watched_by = loop_now_ms() + UNWATCHED_MS;
	if (error) {
		snprintf(problem, sizeof problem, "the kubelet refused the registration: %.180s; retries every 5 s",
			 error);
		say_problem(endpoint, problem);
		return;
	}
	endpoint->said[0] = '\0';
	printf("registered %s: %zu devices\n", endpoint->resource->name, endpoint->resource->count);
	fflush(stdout);
}

static void try_register(struct endpoint *endpoint)
{
	char path[PATH_MAX], problem[256];

	snprintf(path, sizeof path, "%s/%s", endpoint->plugin->directory, kubelet_socket);
	endpoint->registration = registration_begin(endpoint->plugin->loop, path, endpoint->name,
						    endpoint->resource->name, registered, endpoint);
	if (endpoint->registration)
		return;
	endpoint->retry_at = loop_now_ms() + SOON_MS;
	snprintf(problem, sizeof problem, "waits for the kubelet: %.150s: %s", path, strerror(errno));
	say_problem(endpoint, problem);
}

static void register_again(struct endpoint *endpoint)
{
	registration_cancel(endpoint->registration);
	endpoint->registration = NULL;
	endpoint->is_registered = false;
	endpoint->retry_at = 0;
}

// ---- sockets --------------------------------------------------------------------------------------------------

// Creates the socket again if it is missing: the kubelet removes all sockets in its directory when it starts.
static void check_socket(struct endpoint *endpoint)
{
	const struct service service = {endpoint, answer, end_watch};
	char path[PATH_MAX], problem[256];

	if (endpoint->server && server_is_reachable(endpoint->server))
		return;
	server_destroy(endpoint->server);
	endpoint->server = NULL;
	register_again(endpoint);
	snprintf(path, sizeof path, "%s/%s", endpoint->plugin->directory, endpoint->name);
	int r = server_create(endpoint->plugin->loop, path, &service, &endpoint->server);
	if (r == 0)
		return;
	snprintf(problem, sizeof problem, "cannot listen on %.150s: %s", path, strerror(-r));
	say_problem(endpoint, problem);
}

// Locks and watches the directory. Returns 0 or -errno.
static int open_directory(struct plugin *plugin)
{
	const uint32_t events = IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE_SELF | IN_MOVE_SELF;

	plugin->lock = open(plugin->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (plugin->lock >= 0 && flock(plugin->lock, LOCK_EX | LOCK_NB) == 0) {
		plugin->watch = inotify_add_watch(plugin->source.fd, plugin->directory, events);
		if (plugin->watch >= 0)
			return 0;
	}
	int r = -errno;
	if (plugin->lock >= 0)
		close(plugin->lock);
	plugin->lock = -1;
	return r;
}

static void close_directory(struct plugin *plugin)
{
	if (plugin->lock < 0)
		return;
	close(plugin->lock);
	inotify_rm_watch(plugin->source.fd, plugin->watch);
	plugin->lock = -1;
}

static void handle_change(struct plugin *plugin, const struct inotify_event *event)
{
	if (event->wd != plugin->watch)
		return; // the event is from a directory that was removed
	if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED))
		close_directory(plugin);
	if (!event->len || strcmp(event->name, kubelet_socket) != 0 || !(event->mask & (IN_CREATE | IN_MOVED_TO)))
		return;
	for (size_t i = 0; i < plugin->count; i++)
		register_again(&plugin->endpoints[i]);
}

static void directory_changed(struct source *source, uint32_t events)
{
	struct plugin *plugin = (struct plugin *)source;
	_Alignas(struct inotify_event) char buffer[4096];
	ssize_t length = read(source->fd, buffer, sizeof buffer);

	for (ssize_t at = 0; at < length;) {
		const struct inotify_event *event = (const struct inotify_event *)(buffer + at);
		handle_change(plugin, event);
		at += (ssize_t)sizeof *event + event->len;
	}
	for (size_t i = 0; plugin->lock >= 0 && i < plugin->count; i++)
		check_socket(&plugin->endpoints[i]);
}

// Registers again if the kubelet has no call of ListAndWatch any more, or has not made one.
static void check_watched(struct endpoint *endpoint, uint64_t now)
{
	if (!endpoint->is_registered || endpoint->watchers || now < endpoint->watched_by)
		return;
	say_problem(endpoint, "the kubelet does not watch the devices any more; registers again");
	register_again(endpoint);
}

static void tick_endpoint(struct endpoint *endpoint, uint64_t now)
{
	registration_end_late(endpoint->registration);
	if (!endpoint->server && endpoint->retry_at <= now) {
		check_socket(endpoint);
		endpoint->retry_at = now + SOON_MS;
	}
	if (!endpoint->server)
		return;
	server_tick(endpoint->server, now);
	if (server_is_paused(endpoint->server))
		say_problem(endpoint, "accepts no connection: too many open files, or no memory; tries again every "
				      "second");
	check_watched(endpoint, now);
	if (!endpoint->is_registered && !endpoint->registration && endpoint->retry_at <= now)
		try_register(endpoint);
}

void plugin_tick(struct plugin *plugin)
{
	uint64_t now = loop_now_ms();

	if (plugin->lock < 0 && open_directory(plugin) == 0)
		for (size_t i = 0; i < plugin->count; i++)
			check_socket(&plugin->endpoints[i]);
	for (size_t i = 0; i < plugin->count; i++)
		tick_endpoint(&plugin->endpoints[i], now);
}

// ---- start and end --------------------------------------------------------------------------------------------

static void say_directory(const struct plugin *plugin, int error)
{
	if (error == EWOULDBLOCK)
		fprintf(stderr,
			"virgate-device-plugin: another virgate-device-plugin serves %s already: stop it first, or "
			"give another directory with --kubelet-dir\n",
			plugin->directory);
	else
		fprintf(stderr,
			"virgate-device-plugin: %s cannot be used: %s; the kubelet makes this directory: start the "
			"kubelet first, or name its directory with --kubelet-dir\n",
			plugin->directory, strerror(error));
}

static bool make_endpoints(struct plugin *plugin)
{
	struct inventory *inventory = plugin->api->inventory;

	plugin->endpoints = calloc(inventory->count + 1, sizeof *plugin->endpoints);
	for (size_t i = 0; plugin->endpoints && i < inventory->count; i++) {
		struct endpoint *endpoint = &plugin->endpoints[plugin->count++];
		endpoint->plugin = plugin;
		endpoint->resource = &inventory->resources[i];
		snprintf(endpoint->name, sizeof endpoint->name, "virgate-%.60s.sock",
			 inventory->resources[i].profile->name);
		check_socket(endpoint);
		if (!endpoint->server)
			return false;
	}
	return plugin->endpoints != NULL;
}

struct plugin *plugin_start(struct loop *loop, const struct api *api, const char *directory)
{
	struct plugin *plugin = calloc(1, sizeof *plugin);

	if (!plugin)
		return NULL;
	*plugin = (struct plugin){.source = {inotify_init1(IN_CLOEXEC | IN_NONBLOCK), directory_changed},
				  .loop = loop,
				  .api = api,
				  .directory = directory,
				  .lock = -1};
	int r = plugin->source.fd < 0 ? -errno : open_directory(plugin);
	if (r == 0)
		r = loop_add(loop, &plugin->source, EPOLLIN);
	if (r < 0)
		say_directory(plugin, -r);
	if (r == 0 && make_endpoints(plugin))
		return plugin;
	plugin_stop(plugin);
	return NULL;
}

void plugin_stop(struct plugin *plugin)
{
	if (!plugin)
		return;
	for (size_t i = 0; i < plugin->count; i++) {
		registration_cancel(plugin->endpoints[i].registration);
		server_destroy(plugin->endpoints[i].server);
	}
	free(plugin->endpoints);
	close_directory(plugin);
	loop_close(plugin->loop, &plugin->source);
	free(plugin);
}
