#include "node.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

struct node {
	struct source source; // first: an eventfd
	struct ledgers {
		struct source source; // inotify
		struct node *node;
		bool is_watched;
	} ledgers; // watches the daemon's directory, which has a file for each vGPU
	struct loop *loop;
	struct vg_node *daemon;
	node_read *read;
	node_created *created;
	void *user;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t stop;
	bool is_stopped, is_new;
	struct node_reading reading; // the latest reading, if `is_new`
};

static void free_reading(struct node_reading *reading)
{
	vg_device_list_free(reading->devices);
	vg_vgpu_list_free(reading->vgpus);
	*reading = (struct node_reading){0};
}

// Returns whether both lists are of the same time, as far as the number of vGPUs on each GPU shows.
static bool agrees(const struct node_reading *reading)
{
	for (size_t i = 0; i < reading->devices->count; i++) {
		const struct vg_device_info *device = &reading->devices->devices[i];
		unsigned found = 0;
		for (size_t at = 0; at < reading->vgpus->count; at++)
			found += strcmp(reading->vgpus->vgpus[at].uuid, device->uuid) == 0;
		if (found != device->vgpus)
			return false;
	}
	return true;
}

// Reads both lists. Reads them again, at most three times, if a vGPU was created or removed in between.
static struct node_reading read_daemon(const struct node *node)
{
	struct node_reading reading = {0};

	for (int tries = 0; tries < 3; tries++) {
		free_reading(&reading);
		if (vg_vgpu_list(node->daemon, &reading.vgpus) || vg_device_list(node->daemon, &reading.devices)) {
			free_reading(&reading);
			snprintf(reading.problem, sizeof reading.problem, "%s", vg_last_error()->text);
			break;
		}
		if (agrees(&reading))
			break;
	}
	return reading;
}

static void wait_for_next(struct node *node)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += NODE_PERIOD_MS * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	while (!node->is_stopped && pthread_cond_timedwait(&node->stop, &node->lock, &until) != ETIMEDOUT)
		;
}

static void *run(void *node_)
{
	struct node *node = node_;

	pthread_mutex_lock(&node->lock);
	while (!node->is_stopped) {
		pthread_mutex_unlock(&node->lock);
		struct node_reading reading = read_daemon(node);
		pthread_mutex_lock(&node->lock);
		free_reading(&node->reading);
		node->reading = reading;
		node->is_new = true;
		if (eventfd_write(node->source.fd, 1) < 0)
			break; // cannot happen: the eventfd's counter does not overflow
		wait_for_next(node);
	}
	pthread_mutex_unlock(&node->lock);
	return NULL;
}

// Begins to watch the directory with the ledgers. The directory may be missing now, since the daemon creates it when it
// starts.
static void watch_ledgers(struct node *node)
{
	const char *socket = vg_node_socket(node->daemon);
	const char *slash = strrchr(socket, '/');
	char path[PATH_MAX];

	if (node->ledgers.is_watched)
		return;
	snprintf(path, sizeof path, "%.*s/ledgers", slash ? (int)(slash - socket) : 1, slash ? socket : ".");
	node->ledgers.is_watched =
		inotify_add_watch(node->ledgers.source.fd, path, IN_CREATE | IN_MOVED_TO | IN_ONLYDIR) >= 0;
}

static void ledgers_changed(struct source *source, uint32_t events)
{
	struct node *node = ((struct ledgers *)source)->node;
	_Alignas(struct inotify_event) char buffer[4096];
	ssize_t length = read(source->fd, buffer, sizeof buffer);

	for (ssize_t at = 0; at < length;) {
		const struct inotify_event *event = (const struct inotify_event *)(buffer + at);
		if (event->mask & IN_IGNORED)
			node->ledgers.is_watched = false;
		else if (event->len)
			node->created(node->user, event->name);
		at += (ssize_t)sizeof *event + event->len;
	}
}

static void ready(struct source *source, uint32_t events)
{
	struct node *node = (struct node *)source;
	struct node_reading reading = {0};
	eventfd_t count;

	eventfd_read(source->fd, &count);
	watch_ledgers(node);
	pthread_mutex_lock(&node->lock);
	bool is_new = node->is_new;
	if (is_new)
		reading = node->reading;
	node->reading = (struct node_reading){0};
	node->is_new = false;
	pthread_mutex_unlock(&node->lock);
	if (is_new)
		node->read(node->user, &reading);
}

static void free_node(struct node *node)
{
	loop_close(node->loop, &node->source);
	loop_close(node->loop, &node->ledgers.source);
	pthread_cond_destroy(&node->stop);
	pthread_mutex_destroy(&node->lock);
	free(node);
}

int node_start(struct loop *loop, struct vg_node *daemon, node_read *read, node_created *created, void *user,
	       struct node **ret_node)
{
	struct node *node = calloc(1, sizeof *node);
	pthread_condattr_t attributes;

	if (!node)
		return -ENOMEM;
	*node = (struct node){.source = {eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), ready},
			      .ledgers = {{inotify_init1(IN_CLOEXEC | IN_NONBLOCK), ledgers_changed}, node, false},
			      .loop = loop,
			      .daemon = daemon,
			      .read = read,
			      .created = created,
			      .user = user};
	pthread_mutex_init(&node->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&node->stop, &attributes);
	pthread_condattr_destroy(&attributes);
	watch_ledgers(node);
	int r = loop_add(loop, &node->source, EPOLLIN);
	if (r == 0)
		r = loop_add(loop, &node->ledgers.source, EPOLLIN);
	if (r == 0)
		r = -pthread_create(&node->thread, NULL, run, node);
	if (r == 0)
		*ret_node = node;
	else
		free_node(node);
	return r;
}

void node_stop(struct node *node)
{
	if (!node)
		return;
	pthread_mutex_lock(&node->lock);
	node->is_stopped = true;
	pthread_cond_signal(&node->stop);
	pthread_mutex_unlock(&node->lock);
	pthread_join(node->thread, NULL);
	free_reading(&node->reading);
	free_node(node);
}
