#include "daemon/loop.h"

#include "base/clock.h"
#include "daemon/arbiter.h"
#include "daemon/broker/broker.h"
#include "daemon/connection.h"
#include "daemon/container.h"
#include "daemon/deadline.h"
#include "daemon/history.h"
#include "daemon/journal.h"
#include "daemon/leftover.h"
#include "daemon/measure.h"
#include "daemon/mend.h"
#include "daemon/mps.h"
#include "daemon/names.h"
#include "daemon/directory.h"
#include "daemon/removal.h"
#include "daemon/residence.h"
#include "daemon/say.h"
#include "daemon/state.h"
#include "daemon/stops.h"
#include "daemon/tenant.h"
#include "daemon/trace.h"
#include "daemon/user.h"

#include <sys/epoll.h>

enum { SCAN_EVERY_MS = 250 };

static bool is_in_use(const struct node *node)
{
	if (node->connections || node->sessions)
		return true;
	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		if (vgpu->launchers || vgpu->tenants)
			return true;
	return false;
}

// Does the work that must follow a scan of all ledgers.
static void finish_scan(struct node *node)
{
	node->is_scanning = false;
	measure_all(node);
	container_check_outsiders(node);
	stops_look(node);
	mend_all(node);
	leftover_check_all();
	journal_add_refusals(node);
	node->must_retry = true;
	if (node->runtime_is_stale)
		state_save_runtime(node);
	if (!node->is_leaving)
		directory_check(node);
}

// Begins or continues a scan of all ledgers, and lowers *deadline to the time of the next one.
static void run_scan(struct node *node, uint64_t now, uint64_t *deadline)
{
	bool is_needed = node->vgpus || leftover_any();

	if (is_needed && now >= node->next_scan_ns && !node->is_scanning) {
		node->is_scanning = true;
		node->scan_next = node->vgpus;
		node->next_scan_ns = now + SCAN_EVERY_MS * 1000000ull;
	}
	if (node->is_scanning && tenant_scan_some(node))
		finish_scan(node);
	if (is_needed)
		deadline_lower(deadline, node->next_scan_ns);
}

// Ends the daemon after its idle time. Lowers *deadline to the end of that time.
static void check_idle(struct node *node, uint64_t now, uint64_t *deadline)
{
	if (is_in_use(node))
		node->busy_until_ns = now;
	if (!node->idle_seconds)
		return;
	uint64_t end = node->busy_until_ns + node->idle_seconds * 1000000000ull;
	if (now >= end)
		node->is_leaving = true;
	deadline_lower(deadline, end);
}

// Does all periodic work that is due. Returns when the next work is due; 0: never.
static uint64_t do_due_work(struct node *node)
{
	uint64_t now = vg_clock_monotonic_ns(), deadline = 0;

	run_scan(node, now, &deadline);
	if (node->next_reap_ns && now >= node->next_reap_ns)
		tenant_reap(node);
	if (node->must_retry) {
		node->must_retry = false;
		connection_retry(node);
	}
	removal_sweep_ephemeral(node);
	mps_keep(node, now, &deadline);
	removal_sweep(node);
	residence_keep(node, now, &deadline);
	arbiter_follow(node);
	history_keep(node, now, &deadline);
	trace_expire(node, now, &deadline);
	connection_expire(node, now, &deadline);
	broker_expire_sessions(node, now, &deadline);
	names_expire(node, now, &deadline);
	say_left_out(now, &deadline);
	user_forget_idle(node, &deadline);
	if (node->must_retry || node->is_scanning)
		deadline_lower(&deadline, now);
	deadline_lower(&deadline, node->next_reap_ns);
	check_idle(node, now, &deadline);
	return deadline;
}

// Returns whether the daemon ends. Removes the socket first, so that no new client can connect. A client may have
// connected since the decision to end; then the daemon stays.
static bool try_to_leave(struct node *node)
{
	directory_leave(node);
	if (node->is_interrupted)
		return true;
	connection_accept(node);
	if (!node->connections)
		return true;
	if (node->was_shut_down) // first answer the clients that connected before the shutdown
		return false;
	node->is_leaving = false;
	node->busy_until_ns = vg_clock_monotonic_ns();
	return directory_listen(node) < 0;
}

int loop_step(struct node *node, int longest_ms)
{
	uint64_t deadline = do_due_work(node), now = vg_clock_monotonic_ns();
	struct epoll_event event;
	int timeout = !deadline ? -1 : deadline <= now ? 0 : (int)((deadline - now) / 1000000) + 1;

	if (longest_ms >= 0 && (timeout < 0 || timeout > longest_ms))
		timeout = longest_ms;
	if (node->is_leaving && try_to_leave(node))
		return -1;
	// Take one event at a time: handling an event can free the source of another one.
	if (epoll_wait(node->epoll_fd, &event, 1, timeout) != 1)
		return 0;
	struct source *source = event.data.ptr;
	source->ready(node, source, event.events);
	return 1;
}

void loop_run(struct node *node)
{
	node->busy_until_ns = vg_clock_monotonic_ns();
	while (loop_step(node, -1) >= 0)
		;
}
