// Helpers of the broker's tests. Each test has a daemon of its own, which starts on the first request.
#pragma once
#include "share_test.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/descriptor.h"

static char broker_directory[64];
static struct vg_node *node;

static inline pid_t broker_pid(void)
{
	char path[128], text[32];

	snprintf(path, sizeof path, "%s/run/lock", broker_directory);
	return vg_file_read(path, text, sizeof text) > 0 ? (pid_t)atoi(text) : 0;
}

// Kills the daemon with SIGKILL, and waits until it has ended.
static inline void kill_broker(void)
{
	pid_t pid = broker_pid();
	int fd = pid > 1 ? vg_pidfd_open(pid) : -1;
	struct pollfd ended = {.fd = fd, .events = POLLIN};

	if (fd < 0)
		return;
	kill(pid, SIGKILL);
	poll(&ended, 1, 5000);
	close(fd);
}

static inline void end_broker(void)
{
	char command[128];

	if (getpid() != test_pid)
		return;
	kill_broker();
	snprintf(command, sizeof command, "rm -rf '%s'", broker_directory);
	if (system(command) != 0)
		fprintf(stderr, "left behind: %s\n", broker_directory);
}

// Finds the daemon beside this program, in a build tree or in a bundle.
static inline void find_daemon(void)
{
	static const char *const places[] = {"../../daemon/virgated", "../../../../bin/virgated"};
	char own[PATH_MAX], path[PATH_MAX + 64];

	CHECK(realpath("/proc/self/exe", own));
	strrchr(own, '/')[1] = '\0';
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		snprintf(path, sizeof path, "%s%s", own, places[i]);
		if (access(path, X_OK) == 0)
			setenv("VIRGATE_DAEMON", path, 0);
	}
}

static inline struct vg_node *open_node(void)
{
	char path[128];

	if (node)
		return node;
	snprintf(broker_directory, sizeof broker_directory, "/tmp/test-broker-XXXXXX");
	CHECK(mkdtemp(broker_directory));
	atexit(end_broker);
	find_daemon();
	snprintf(path, sizeof path, "%s/state", broker_directory);
	setenv("VIRGATE_STATE_DIR", path, 1);
	snprintf(path, sizeof path, "%s/run", broker_directory);
	const struct vg_node_options options = {.size = sizeof options, .runtime_dir = path};
	OK(vg_node_open(&options, &node));
	OK(vg_node_ping(node));
	return node;
}

static inline struct vg_publication *publish(const char *name, struct vg_vram_handle *ret_handle)
{
	struct vg_share_offer *offer = offer_of(1, MIB, 1, ret_handle);
	struct vg_publication *publication;

	OK(vg_share_publish(open_node(), name, offer, NULL, &publication));
	vg_share_offer_destroy(offer);
	return publication;
}

static inline struct vg_share_lease *open_lease(const char *name, int writable)
{
	const struct vg_share_open_options options = {.size = sizeof options, .writable = writable};
	struct vg_share_lease *lease;

	OK(vg_share_open(open_node(), name, &options, &lease));
	return lease;
}

static inline enum vg_publication_state state_of(struct vg_publication *publication)
{
	struct vg_publication_view view = {.size = sizeof view};

	OK(vg_publication_look(publication, &view));
	return view.state;
}

static inline enum vg_publication_state lease_state(struct vg_share_lease *lease)
{
	struct vg_publication_view view = {.size = sizeof view};

	OK(vg_share_lease_look(lease, &view));
	return view.state;
}

// Returns the number of listed publications with that name. Stores the number of leases and the state of the last one
// in *ret_leases and ret_state.
static inline int listed(const char *name, unsigned *ret_leases, char ret_state[16])
{
	struct vg_publication_list *list;
	int rows = 0;

	OK(vg_publication_list(open_node(), &list));
	for (size_t i = 0; i < list->count; i++) {
		if (strcmp(list->publications[i].name, name) != 0)
			continue;
		rows++;
		if (ret_leases)
			*ret_leases = list->publications[i].leases;
		if (ret_state)
			snprintf(ret_state, 16, "%s", list->publications[i].state);
	}
	vg_publication_list_free(list);
	return rows;
}

// Waits until that many publications are listed with the name. The daemon notices the end of a process only after a
// moment.
static inline void await_rows(const char *name, int rows)
{
	for (int i = 0; i < 1000 && listed(name, NULL, NULL) != rows; i++)
		poll(NULL, 0, 2);
	CHECK_INT(listed(name, NULL, NULL), rows);
}

static inline void await_leases(const char *name, unsigned wanted)
{
	unsigned leases = ~0u;

	for (int i = 0; i < 1000; i++) {
		listed(name, &leases, NULL);
		if (leases == wanted)
			return;
		poll(NULL, 0, 2);
	}
	CHECK_INT(leases, wanted);
}
