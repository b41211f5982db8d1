#include "base/clock.h"
#include "daemon/arbiter.h"
#include "daemon/broker.h"
#include "daemon/mps.h"
#include "daemon/names.h"
#include "daemon/user.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SCAN_EVERY_MS = 250 };

int node_watch(struct node *node, struct source *source, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = source};
	struct user *user = source->is_users ? user_events(node, source->user) : NULL;
	int epoll_fd = user ? user->events.fd : node->epoll_fd;

	if (source->is_users && !user)
		return -EMFILE;
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, source->fd, &event) == 0) {
		if (user)
			user->watched++;
		return 0;
	}
	if (errno == EEXIST && epoll_ctl(epoll_fd, EPOLL_CTL_MOD, source->fd, &event) == 0)
		return 0;
	return -errno;
}

void node_leave(struct node *node, struct source *source)
{
	struct user *user = source->is_users ? user_of(source->user) : NULL;

	if (!user)
		epoll_ctl(node->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
	else if (user->events.fd >= 0 && epoll_ctl(user->events.fd, EPOLL_CTL_DEL, source->fd, NULL) == 0)
		user->watched--;
}

void node_unwatch(struct node *node, struct source *source)
{
	if (source->fd < 0)
		return;
	node_leave(node, source);
	close(source->fd);
	source->fd = -1;
}

int node_keep_descriptor(int fd)
{
	struct rlimit limit;

	if (fd < 0 || getrlimit(RLIMIT_NOFILE, &limit) < 0 || (rlim_t)fd < limit.rlim_cur - limit.rlim_cur / 4)
		return fd;
	close(fd);
	return -EMFILE;
}

static bool in_use(const struct node *node)
{
	if (node->connections || node->sessions)
		return true;
	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		if (vgpu->launchers || vgpu->tenants)
			return true;
	return false;
}

static void sooner(uint64_t *deadline, uint64_t other)
{
	if (other && (!*deadline || other < *deadline))
		*deadline = other;
}

// Does what is due; the time of the next thing to do, 0: none.
static uint64_t keep_house(struct node *node)
{
	uint64_t now = vg_clock_monotonic_ns(), deadline = 0;

	bool scans = node->vgpus || leftover_any();
	if (scans && now >= node->next_scan_ns && !node->is_scanning) {
		node->is_scanning = true;
		node->scan_next = node->vgpus;
		node->next_scan_ns = now + SCAN_EVERY_MS * 1000000ull;
	}
	if (node->is_scanning && tenant_scan_some(node)) {
		node->is_scanning = false;
		measure_tenants(node);
		stops_look(node);
		damage_mend_all(node);
		leftover_look();
		node->retry = true;
		if (node->runtime_is_stale)
			state_save_runtime(node);
		if (!node->leaving)
			place_check(node);
	}
	if (node->next_reap_ns && now >= node->next_reap_ns)
		tenant_reap(node);
	if (node->retry) {
		node->retry = false;
		connection_retry(node);
	}
	launcher_sweep(node);
	mps_keep(node, now, &deadline);
	removal_sweep(node);
	residence_keep(node, now, &deadline);
	arbiter_follow(node);
	connection_expire(node, now, &deadline);
	session_expire_all(node, now, &deadline);
	names_expire(node, now, &deadline);
	say_left_out(now, &deadline);
	user_forget_idle(node);
	if (node->retry || node->is_scanning)
		sooner(&deadline, now);
	if (scans)
		sooner(&deadline, node->next_scan_ns);
	sooner(&deadline, node->next_reap_ns);
	if (in_use(node))
		node->busy_until_ns = now;
	if (node->idle_seconds) {
		uint64_t leave = node->busy_until_ns + node->idle_seconds * 1000000000ull;
		if (now >= leave)
			node->leaving = true;
		sooner(&deadline, leave);
	}
	return deadline;
}

// Somebody may have connected while we made up our mind: once the name is gone nobody new can.
static bool really_leave(struct node *node)
{
	place_leave(node);
	if (node->ending)
		return true;
	connection_accept(node);
	if (!node->connections)
		return true;
	if (node->told_to_end) // those who came in time are served first
		return false;
	node->leaving = false;
	node->busy_until_ns = vg_clock_monotonic_ns();
	return place_listen(node) < 0;
}

int node_step(struct node *node, int longest_ms)
{
	uint64_t deadline = keep_house(node), now = vg_clock_monotonic_ns();
	struct epoll_event event;
	int timeout = !deadline ? -1 : deadline <= now ? 0 : (int)((deadline - now) / 1000000) + 1;

	if (longest_ms >= 0 && (timeout < 0 || timeout > longest_ms))
		timeout = longest_ms;
	if (node->leaving && really_leave(node))
		return -1;
	// One event at a time: handling it may free what another would name.
	if (epoll_wait(node->epoll_fd, &event, 1, timeout) != 1)
		return 0;
	struct source *source = event.data.ptr;
	source->ready(node, source, event.events);
	return 1;
}

void node_run(struct node *node)
{
	node->busy_until_ns = vg_clock_monotonic_ns();
	while (node_step(node, -1) >= 0)
		;
}
