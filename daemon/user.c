#include "daemon/user.h"

#include "base/clock.h"
#include "daemon/deadline.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

static struct user *users;
static struct user fallback = {.events = {.fd = -1}}; // shared by all users for whose own record there was no memory

static uid_t find_no_other(uid_t uid)
{
	return uid;
}

static uid_t (*find_owner)(uid_t uid) = find_no_other;

struct user *user_of(uid_t uid)
{
	struct user *user;

	for (user = users; user; user = user->next)
		if (user->uid == uid)
			return user;
	user = calloc(1, sizeof *user);
	if (!user)
		return &fallback;
	user->uid = uid;
	user->events.fd = -1;
	user->owner = find_owner(uid);
	user->next = users;
	users = user;
	return user;
}

// Handles one event of the user's sources.
static void handle_user_event(struct node *node, struct source *source, uint32_t events)
{
	struct epoll_event event;

	if (epoll_wait(source->fd, &event, 1, 0) != 1)
		return;
	source = event.data.ptr;
	source->ready(node, source, event.events);
}

struct user *user_events(struct node *node, uid_t uid)
{
	struct user *user = user_of(uid);
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = &user->events};

	if (user->events.fd >= 0)
		return user;
	user->events = (struct source){epoll_create1(EPOLL_CLOEXEC), handle_user_event};
	if (user->events.fd < 0)
		return NULL;
	if (epoll_ctl(node->epoll_fd, EPOLL_CTL_ADD, user->events.fd, &event) == 0)
		return user;
	close(user->events.fd);
	user->events.fd = -1;
	return NULL;
}

uid_t user_owner(uid_t uid)
{
	for (const struct user *user = users; user; user = user->next)
		if (user->uid == uid)
			return user->owner;
	return find_owner(uid);
}

void user_set_owners(uid_t (*find)(uid_t uid))
{
	find_owner = find;
	for (struct user *user = users; user; user = user->next)
		user->owner = find_owner(user->uid);
}

struct user user_total(uid_t uid)
{
	struct user total = {.uid = uid, .owner = user_owner(uid)};

	for (const struct user *user = users; user; user = user->next) {
		if (user->owner != total.owner)
			continue;
		total.connections += user->connections;
		total.served += user->served;
		total.vgpus += user->vgpus;
		total.tenants += user->tenants;
		total.processes += user->processes;
		for (size_t lane = 0; lane < WORK_LANES; lane++)
			total.jobs[lane] += user->jobs[lane];
	}
	return total;
}

static bool has_jobs(const struct user *user)
{
	for (size_t lane = 0; lane < WORK_LANES; lane++)
		if (user->jobs[lane])
			return true;
	return false;
}

static void close_events(struct node *node, struct user *user)
{
	if (user->events.fd < 0)
		return;
	epoll_ctl(node->epoll_fd, EPOLL_CTL_DEL, user->events.fd, NULL);
	close(user->events.fd);
}

static bool is_counted(const struct user *user)
{
	return user->connections || user->vgpus || user->tenants || user->processes || has_jobs(user) || user->watched;
}

// Returns the time from which the user's record can be freed: after it, the record delays neither the user's requests
// nor the work on the user's ledgers.
static uint64_t find_end_of_limits(const struct user *user)
{
	uint64_t window_end_ns = user->window_ns + USER_WINDOW_MS * 1000000ull;

	return user->rests_until_ns > window_end_ns ? user->rests_until_ns : window_end_ns;
}

void user_forget_idle(struct node *node, uint64_t *deadline)
{
	uint64_t now = vg_clock_monotonic_ns();

	for (struct user **link = &users; *link;) {
		struct user *user = *link;
		uint64_t end_ns = find_end_of_limits(user);
		if (is_counted(user) || now < end_ns) {
			if (!is_counted(user))
				deadline_lower(deadline, end_ns);
			link = &user->next;
			continue;
		}
		*link = user->next;
		close_events(node, user);
		free(user);
	}
}

bool user_is_limited(const struct node *node, uid_t uid)
{
	return node->system_wide && uid != 0;
}

bool user_count_process(const struct node *node, uid_t uid)
{
	struct rlimit files = {.rlim_cur = 1024};

	getrlimit(RLIMIT_NOFILE, &files);
	if (user_is_limited(node, uid) && user_total(uid).processes >= files.rlim_cur / USER_FILES_PART)
		return false;
	user_of(uid)->processes++;
	return true;
}

void user_uncount_process(uid_t uid)
{
	user_of(uid)->processes--;
}

void user_charge_request(uid_t uid, uint64_t begun)
{
	uint64_t now = vg_clock_monotonic_ns();

	if (now - begun > USER_LONG_MS * 1000000ull)
		user_of(user_owner(uid))->rests_until_ns = now + 2 * (now - begun);
}

uint64_t user_waits_until(const struct node *node, uid_t uid)
{
	uint64_t until = user_of(user_owner(uid))->rests_until_ns;

	return user_is_limited(node, uid) && vg_clock_monotonic_ns() < until ? until : 0;
}

// ---- the loop's time ----------------------------------------------------------------------------------------

static struct user *timed; // the user to whom the loop's time is charged now; NULL: no user, or one without limits
static uint64_t begun_ns;

bool user_begin_time(const struct node *node, uid_t uid)
{
	begun_ns = vg_clock_monotonic_ns();
	timed = user_is_limited(node, uid) ? user_of(user_owner(uid)) : NULL;
	if (timed && begun_ns - timed->window_ns >= USER_WINDOW_MS * 1000000ull) {
		timed->window_ns = begun_ns;
		timed->used_ns = 0;
	}
	return user_has_time();
}

bool user_has_time(void)
{
	return !timed || timed->used_ns + (vg_clock_monotonic_ns() - begun_ns) < USER_TIME_MS * 1000000ull;
}

void user_end_time(void)
{
	if (timed)
		timed->used_ns += vg_clock_monotonic_ns() - begun_ns;
	timed = NULL;
}
