// Runs rounds. In each round, the balancer reads the load of all virtual GPUs, and decides which work to move and which
// shares to change. It executes these decisions, and logs each one with its reason.
#include "manager/balancer_engine.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DECISIONS = 64 }; // maximum number of decisions of a round

// ---- actions ---------------------------------------------------------------------------------------------------

// Moves unbound work, newest first. Returns how many executions it moved.
static size_t move_unbound(struct vg_balancer *balancer, struct balancer_key from, struct balancer_key to, size_t count)
{
	pthread_mutex_lock(&balancer->worker.lock);
	struct balancer_queue *a = balancer_queue_find(balancer, from), *b = balancer_queue_find(balancer, to);
	size_t moved = a && b ? a->waiting.count : 0; // either queue may have been removed since the snapshot
	if (moved > count)
		moved = count;
	if (moved) {
		struct vg_balanced *work = a->waiting.first;
		for (size_t i = moved; i < a->waiting.count; i++)
			work = work->next;
		for (struct vg_balanced *one = work; one; one = one->next) {
			one->info.moves++;
			one->info.manager = to.manager;
			one->info.id = to.id;
		}
		balancer_list_move(&a->waiting, &b->waiting, moved);
		pthread_cond_signal(&balancer->worker.wake);
	}
	pthread_mutex_unlock(&balancer->worker.lock);
	return moved;
}

// Moves unbound work. If there is too little of it, `bound` is true and both virtual GPUs have the same manager, also
// moves bound work. Bound work can move while it waits in the compute unit.
static enum vg_status migrate_work(struct vg_balancer *balancer, struct balancer_key from, struct balancer_key to,
				   bool bound, struct balancer_decision *decision)
{
	size_t wanted = decision->executions, moved = move_unbound(balancer, from, to, wanted), more = 0;
	enum vg_status status = VG_OK;

	if (moved < wanted && bound && from.manager == to.manager)
		status = balancer_migrate(balancer->managers[from.manager], from, to, wanted - moved, &more);
	decision->executions = moved + more;
	return moved ? VG_OK : status;
}

// Executes a decision. Sets *ret_done if something has changed.
static enum vg_status execute_decision(struct vg_balancer *balancer, const struct balancer_load *loads,
				       struct balancer_decision *decision, bool *ret_done)
{
	struct balancer_key from = loads[decision->from].key, to = loads[decision->to].key;
	struct vg_manager *manager = balancer->managers[to.manager];
	enum vg_status status;

	switch (decision->action) {
	case VG_ACTION_MIGRATE:
		status = migrate_work(balancer, from, to, loads[decision->from].takes_work, decision);
		*ret_done = decision->executions > 0;
		return status;
	case VG_ACTION_ADJUST_SHARE:
		status = balancer_adjust(manager, from, to, decision->share);
		break;
	case VG_ACTION_SCALE_UNITS:
		status = balancer_scale(manager, to, decision->units);
		break;
	default:
		return balancer_preempt(manager, from, ret_done);
	}
	*ret_done = status == VG_OK;
	return status;
}

// ---- the log ---------------------------------------------------------------------------------------------------

const char *vg_balancing_action_text(enum vg_balancing_action action)
{
	switch (action) {
	case VG_ACTION_MIGRATE:
		return "migrate";
	case VG_ACTION_ADJUST_SHARE:
		return "adjust share";
	case VG_ACTION_SCALE_UNITS:
		return "scale units";
	case VG_ACTION_PREEMPT:
		return "preempt";
	default:
		return "unknown action";
	}
}

static struct vg_balancing_entry make_entry(const struct balancer_load *loads, const struct balancer_decision *decision,
					    enum vg_status status, uint64_t round)
{
	const struct balancer_key from = loads[decision->from].key, to = loads[decision->to].key;
	struct vg_balancing_entry entry = {
		.time_ns = vg_clock_monotonic_ns(),
		.round = round,
		.action = decision->action,
		.status = status,
		.from_manager = from.manager,
		.to_manager = to.manager,
		.from = from.id,
		.to = to.id,
	};

	entry.amount = decision->action == VG_ACTION_ADJUST_SHARE  ? decision->share
		       : decision->action == VG_ACTION_SCALE_UNITS ? decision->units
								   : (double)decision->executions;
	if (status)
		snprintf(entry.why, sizeof entry.why, "%s; it failed: %.200s", decision->why, vg_last_error()->text);
	else
		snprintf(entry.why, sizeof entry.why, "%s", decision->why);
	return entry;
}

static void record_entry(struct vg_balancer *balancer, const struct vg_balancing_entry *entry)
{
	balancer->log[balancer->log_next] = *entry;
	balancer->log_next = (balancer->log_next + 1) % VG_BALANCER_LOG;
	if (balancer->log_count < VG_BALANCER_LOG)
		balancer->log_count++;
	balancer->info.actions += entry->status == VG_OK;
	balancer->info.failures += entry->status != VG_OK;
}

static void log_entry(const struct vg_balancer *balancer, const struct vg_balancing_entry *entry)
{
	enum vg_log_level level = entry->status ? VG_LOG_WARNING : VG_LOG_INFO;

	if (level <= balancer->log_level)
		vg_log(level, "balancer: %s: %s", vg_balancing_action_text(entry->action), entry->why);
}

enum vg_status vg_balancer_log(struct vg_balancer *balancer, struct vg_balancing_entry *entries, size_t capacity,
			       size_t *ret_count)
{
	VG_ENTRY();
	BALANCER_USABLE(balancer);
	CORE_NEEDED(ret_count);
	if (capacity)
		CORE_NEEDED(entries);
	pthread_mutex_lock(&balancer->worker.lock);
	size_t count = balancer->log_count;
	if (capacity && count > capacity)
		count = capacity;
	for (size_t i = 0; capacity && i < count; i++)
		entries[i] = balancer->log[(balancer->log_next + VG_BALANCER_LOG - count + i) % VG_BALANCER_LOG];
	pthread_mutex_unlock(&balancer->worker.lock);
	*ret_count = count;
	return VG_OK;
}

// ---- rounds ----------------------------------------------------------------------------------------------------

// Executes decisions. Stores in `entries` a log entry for each decision that changed something or failed. Call with
// `rounds` locked. Returns the number of these entries.
static size_t execute_decisions(struct vg_balancer *balancer, const struct balancer_load *loads,
				struct balancer_decision *decisions, size_t count, struct vg_balancing_entry *entries)
{
	size_t written = 0;

	for (size_t i = 0; i < count; i++) {
		bool done = false;
		enum vg_status status = execute_decision(balancer, loads, &decisions[i], &done);
		if (status == VG_OK && !done)
			continue; // the work has started meanwhile, so nothing was moved
		pthread_mutex_lock(&balancer->worker.lock);
		entries[written] = make_entry(loads, &decisions[i], status, balancer->memory.round);
		if (done)
			balancer_commit(&balancer->memory, loads, &decisions[i]);
		record_entry(balancer, &entries[written++]);
		pthread_mutex_unlock(&balancer->worker.lock);
	}
	return written;
}

static enum vg_status make_decisions(struct vg_balancer *balancer, struct balancer_load *loads, size_t count,
				     struct balancer_decision *decisions, size_t *ret_decided)
{
	enum vg_status status;

	pthread_mutex_lock(&balancer->worker.lock);
	status = balancer->worker.stopping ? vg_fail(VG_CLOSED, 0, "the balancer has been closed")
					   : balancer_begin_round(&balancer->memory, loads, count);
	if (status == VG_OK) {
		balancer->info.rounds++;
		*ret_decided =
			balancer_decide(&balancer->rules, loads, count, &balancer->memory, decisions, MAX_DECISIONS);
	}
	pthread_mutex_unlock(&balancer->worker.lock);
	return status;
}

// Runs a round: reads the loads, makes decisions and executes them. Call with `rounds` locked. *ret_written is the
// number of log entries; 0 after a failure.
static enum vg_status run_round(struct vg_balancer *balancer, struct balancer_decision *decisions,
				struct vg_balancing_entry *entries, size_t *ret_written)
{
	struct balancer_load *loads;
	size_t count, decided;

	*ret_written = 0;
	enum vg_status status = balancer_take_snapshot(balancer, &loads, &count);
	if (status)
		return status;
	status = make_decisions(balancer, loads, count, decisions, &decided);
	if (!status)
		*ret_written = execute_decisions(balancer, loads, decisions, decided, entries);
	free(loads);
	return status;
}

enum vg_status balancer_round(struct vg_balancer *balancer, size_t *ret_taken)
{
	struct balancer_decision *decisions = calloc(MAX_DECISIONS, sizeof *decisions);
	struct vg_balancing_entry *entries = calloc(MAX_DECISIONS, sizeof *entries);
	enum vg_status status = VG_NO_MEMORY;
	size_t written = 0, taken = 0;

	if (!decisions || !entries) {
		vg_fail(VG_NO_MEMORY, 0, "no memory for a round's decisions");
		goto out;
	}
	pthread_mutex_lock(&balancer->rounds);
	status = run_round(balancer, decisions, entries, &written);
	pthread_mutex_unlock(&balancer->rounds);
	if (status)
		goto out;
	for (size_t i = 0; i < written; i++) {
		taken += entries[i].status == VG_OK;
		log_entry(balancer, &entries[i]);
	}
	if (ret_taken)
		*ret_taken = taken;
out:
	free(entries);
	free(decisions);
	return status;
}

enum vg_status vg_balancer_rebalance(struct vg_balancer *balancer, size_t *ret_taken)
{
	VG_ENTRY();
	BALANCER_USABLE(balancer);
	return balancer_round(balancer, ret_taken);
}

void balancer_give_back(struct vg_balancer *balancer)
{
	struct balancer_memory *memory = &balancer->memory;

	struct balancer_load *loads = NULL;
	size_t count;

	pthread_mutex_lock(&balancer->rounds); // a thread of the program may be running a round
	// If the program has set the share of a virtual GPU since the last round, keep that share.
	// balancer_begin_round() then forgets the loans and the added units of this virtual GPU, so the loops below
	// undo nothing there.
	if (balancer_read(balancer->managers, balancer->manager_count, &loads, &count) == VG_OK)
		(void)balancer_begin_round(memory, loads, count);
	free(loads);
	for (size_t i = 0; i < memory->loan_count; i++) {
		const struct balancer_loan *loan = &memory->loans[i];
		(void)balancer_adjust(balancer->managers[loan->to.manager], loan->to, loan->from, loan->share);
	}
	for (size_t i = 0; i < memory->count; i++) {
		const struct balancer_mark *mark = &memory->marks[i];
		if (mark->scaled)
			(void)balancer_scale(balancer->managers[mark->key.manager], mark->key, -mark->scaled);
	}
	pthread_mutex_unlock(&balancer->rounds);
}
