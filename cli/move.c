#include "move.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/size.h"
#include "checkpoint.h"
#include "eviction.h"
#include "list.h"
#include "options.h"
#include "say.h"
#include "session.h"
#include "vgpu/suspend.h"

enum {
	DRAIN_MS = 10000, // how long a process waits for its threads and the GPU
	ANSWER_MS = 2000, // how long the verb waits for an answer after that
	RETURN_MS = 10000,
	POLL_LEAST_MS = 10,
	POLL_MOST_MS = 200
};
static const uint64_t COPY_RATE = 256 << 20; // bytes per second: the verb does not wait for a slower copy

struct move {
	bool is_out;
	struct vg_suspend_target target;
	unsigned drain_ms;
	struct vg_suspend_list *asked;
	struct vg_vgpu_list *now; // the vGPU in the last listing; NULL: it was removed, and its processes have ended
	uint64_t begin_ns;
};

// The result for one process.
enum outcome {
	OUTCOME_MOVING,
	OUTCOME_MOVED,
	OUTCOME_ENDED,
	OUTCOME_REVERSED, // another user or program asked for the opposite
	OUTCOME_GAVE_UP,  // the process gave up the request
	OUTCOME_SILENT,	  // it did not answer in time
	OUTCOME_LATE,	  // its memory did not move in time
};

static const struct vg_tenant_info *find_process(const struct move *move, const struct vg_suspend_process *asked)
{
	const struct vg_vgpu_info *vgpu = move->now ? move->now->vgpus : NULL;

	for (size_t i = 0; vgpu && i < vgpu->tenant_count; i++) {
		const struct vg_tenant_info *tenant = &vgpu->tenants[i];
		if (tenant->pid == asked->pid && tenant->started == asked->started && !tenant->ended &&
		    tenant->eviction.known)
			return tenant;
	}
	return NULL;
}

// ---- time ------------------------------------------------------------------------------------------------

static uint64_t answer_ms(const struct move *move)
{
	return move->is_out ? move->drain_ms + (uint64_t)ANSWER_MS : RETURN_MS;
}

// Returns how long the copies may take. They share the bus, so their sizes are added up. A process can report any size,
// so the sum is bounded by the vGPU's limit. Pinning host memory takes no longer than such a copy.
static uint64_t copy_ms(const struct move *move)
{
	uint64_t bytes = 0, most = move->now->vgpus->memory;

	for (size_t i = 0; i < move->asked->count && bytes < most; i++)
		bytes += move->asked->processes[i].bytes;
	return (bytes < most ? bytes : most) / (COPY_RATE / 1000);
}

static uint64_t waited_ms(const struct move *move)
{
	return (vg_clock_monotonic_ns() - move->begin_ns) / 1000000;
}

static bool is_in_state(const struct vg_eviction_info *eviction, const char *state)
{
	return strcmp(eviction->state, state) == 0;
}

// Whether it pins host memory or copies.
static bool is_on_its_way(const struct vg_eviction_info *eviction, bool is_out)
{
	return is_out ? is_in_state(eviction, "preparing") || is_in_state(eviction, "leaving")
		      : is_in_state(eviction, "returning");
}

// Returns the result for a process that has not answered yet.
static enum outcome judge_delay(const struct move *move, const struct vg_eviction_info *eviction)
{
	uint64_t waited = waited_ms(move);

	if (waited <= answer_ms(move))
		return OUTCOME_MOVING;
	if (is_in_state(eviction, "waiting") || is_in_state(eviction, "out"))
		return OUTCOME_GAVE_UP;
	bool drains = is_in_state(eviction, "draining") && eviction->state_ns / 1000000 <= answer_ms(move);
	if (!drains && !is_on_its_way(eviction, move->is_out))
		return OUTCOME_SILENT;
	// It prepares for as long as it copies, at most.
	return waited <= answer_ms(move) + 2 * copy_ms(move) ? OUTCOME_MOVING : OUTCOME_LATE;
}

// ---- results ----------------------------------------------------------------------------------------------

static enum outcome judge_process(const struct move *move, const struct vg_tenant_info *tenant)
{
	const struct vg_eviction_info *eviction = tenant ? &tenant->eviction : NULL;

	if (!eviction)
		return OUTCOME_ENDED;
	if (!eviction->suspended == move->is_out)
		return OUTCOME_REVERSED;
	if (strcmp(eviction->state, "broken") == 0)
		return OUTCOME_GAVE_UP;
	if (strcmp(eviction->state, "none") == 0)
		return OUTCOME_MOVED;
	if (eviction->pending || is_in_state(eviction, "waiting") || (!move->is_out && is_in_state(eviction, "out")))
		return judge_delay(move, eviction);
	return strcmp(eviction->state, move->is_out ? "suspended" : "running") == 0 ? OUTCOME_MOVED : OUTCOME_GAVE_UP;
}

static bool is_moving(const struct move *move)
{
	for (size_t i = 0; i < move->asked->count; i++)
		if (judge_process(move, find_process(move, &move->asked->processes[i])) == OUTCOME_MOVING)
			return true;
	return false;
}

static enum vg_status update_listing(struct vg_node *node, struct move *move)
{
	struct vg_vgpu_list *now = NULL;

	enum vg_status status = vg_vgpu_inspect(node, move->asked->vgpu, &now);
	if (status && status != VG_NOT_FOUND)
		return status;
	vg_vgpu_list_free(move->now);
	move->now = now;
	return VG_OK;
}

static enum vg_status wait_for_all(struct vg_node *node, struct move *move)
{
	enum vg_status status = update_listing(node, move);
	while (status == VG_OK && is_moving(move)) {
		uint64_t pause_ms = waited_ms(move) / 8; // the wait is at most an eighth longer than the move
		poll(NULL, 0, (int)(pause_ms < POLL_LEAST_MS ? POLL_LEAST_MS : pause_ms > POLL_MOST_MS ? POLL_MOST_MS : pause_ms));
		status = update_listing(node, move);
	}
	return status;
}

// ---- messages --------------------------------------------------------------------------------------------

static void print_moved(const char *subject, const struct vg_suspend_process *before,
			const struct vg_eviction_info *eviction, bool is_out)
{
	uint64_t from = is_out ? before->host : eviction->host, to = is_out ? eviction->host : before->host;
	uint64_t bytes = to > from ? to - from : 0;
	double seconds = (double)eviction->moved_ns / 1e9;
	char size[VG_SIZE_TEXT], rate[VG_SIZE_TEXT], unchanged[EVICTION_TEXT] = "";
	uint64_t copied = is_out && eviction->unchanged < bytes ? bytes - eviction->unchanged : is_out ? 0 : bytes;

	if (is_out)
		unchanged_text(eviction, unchanged);
	if (!eviction->bytes)
		print_line("%s: no GPU memory to move", subject);
	else if (!bytes)
		print_line("%s: %s, %s already", subject, vg_size_format(eviction->bytes, size),
			   is_out ? "in the host" : "on the GPU");
	else if (!eviction->moved_ns)
		print_line("%s: %s to the %s", subject, vg_size_format(bytes, size), is_out ? "host" : "GPU");
	else
		print_line("%s: %s to the %s in %.3f s, %s/s%s", subject, vg_size_format(bytes, size),
			   is_out ? "host" : "GPU", seconds,
			   vg_size_format((uint64_t)((double)copied / seconds), rate), unchanged);
}

static const char *failure_text(const struct move *move, enum outcome outcome, const struct vg_eviction_info *eviction,
				char buffer[EVICTION_TEXT])
{
	double seconds = (double)waited_ms(move) / 1000;

	switch (outcome) {
	case OUTCOME_REVERSED:
		return move->is_out ? "it was resumed meanwhile" : "it was suspended meanwhile";
	case OUTCOME_SILENT:
		snprintf(buffer, EVICTION_TEXT,
			 "it did not answer within %.0f s: is it stopped (SIGSTOP, a debugger)? The request takes "
			 "effect when it runs again",
			 seconds);
		return buffer;
	case OUTCOME_LATE:
		snprintf(buffer, EVICTION_TEXT,
			 "its memory was still moving after %.0f s; the move continues, see `virgate ps%s %s`", seconds,
			 sim_flag(), move->asked->vgpu);
		return buffer;
	default:
		return eviction_reason(eviction, buffer);
	}
}

static size_t count_moved(const struct move *move)
{
	size_t count = 0;

	for (size_t i = 0; i < move->asked->count; i++)
		count += judge_process(move, find_process(move, &move->asked->processes[i])) == OUTCOME_MOVED;
	return count;
}

static void say_failure(const struct move *move, const char *subject, enum outcome outcome,
			const struct vg_eviction_info *eviction)
{
	char reason[EVICTION_TEXT], others[80] = "";
	const char *what = move->is_out ? "suspended" : "resumed";
	size_t count = count_moved(move);

	if (count)
		snprintf(others, sizeof others, "; the other%s %s %s", count == 1 ? "" : "s",
			 !move->is_out ? count == 1 ? "is" : "are" : count == 1 ? "stays" : "stay", what);
	say_error("%s could not be %s: %s%s", subject, what, failure_text(move, outcome, eviction, reason), others);
}

// Prints the result for one process. Returns the verb's exit code.
static int report_process(const struct move *move, const struct vg_suspend_process *asked)
{
	const struct vg_tenant_info *tenant = find_process(move, asked);
	enum outcome outcome = judge_process(move, tenant);
	char subject[256];

	snprintf(subject, sizeof subject, "%s: process %lld (%s)", move->asked->vgpu, (long long)asked->pid,
		 asked->command);
	if (outcome == OUTCOME_ENDED)
		print_line("%s has ended", subject);
	else if (outcome == OUTCOME_MOVED)
		print_moved(subject, asked, &tenant->eviction, move->is_out);
	else
		say_failure(move, subject, outcome, &tenant->eviction);
	return outcome == OUTCOME_ENDED || outcome == OUTCOME_MOVED ? EXIT_OK : EXIT_NOT_MOVED;
}

// Tells the user how to repeat or cancel a suspension, which stays requested for processes that did not obey.
static void say_next_steps(const struct move *move)
{
	const char *sim = sim_flag(), *name = move->asked->vgpu;
	long long pid = (long long)move->target.pid;

	if (!move->is_out)
		return;
	if (move->target.vgpu)
		say_error("%s: `virgate suspend%s %s` tries again, `virgate resume%s %s` resumes all of it", name,
			  sim, name, sim, name);
	else
		say_error("%s: `virgate suspend%s --pid %lld` tries again, `virgate resume%s --pid %lld` cancels it",
			  name, sim, pid, sim, pid);
}

static int report_processes(const struct move *move)
{
	int code = EXIT_OK;

	if (!move->asked->count)
		print_line("%s: %s, no process runs in it", move->asked->vgpu, move->is_out ? "suspended" : "resumed");
	for (size_t i = 0; i < move->asked->count; i++)
		if (report_process(move, &move->asked->processes[i]))
			code = EXIT_NOT_MOVED;
	if (code)
		say_next_steps(move);
	return code;
}

// ---- the verbs -------------------------------------------------------------------------------------------

static int move_and_report(struct vg_node *node, const struct arguments *arguments, struct move *move)
{
	const char *function = arguments->verb->name;

	move->begin_ns = vg_clock_monotonic_ns();
	const struct vg_suspend_target *target = &move->target;
	enum vg_status status = move->is_out
					? vg_suspend_request(node, function, target, move->drain_ms, &move->asked)
					: vg_resume_request(node, function, target, &move->asked);
	if (status == VG_OK)
		status = wait_for_all(node, move);
	int r = status ? fail_with_last_error(arguments) : report_processes(move);
	vg_suspend_list_free(move->asked);
	vg_vgpu_list_free(move->now);
	return r;
}

static int read_target(const struct arguments *arguments, struct move *move)
{
	long pid;
	int r = checkpoint_number(arguments, "pid", 4194304, &pid);

	if (r)
		return r;
	if ((pid != 0) == (arguments->count != 0)) {
		say_usage(arguments->verb,
			  pid ? "a vGPU and --pid: give one of them" : "give the NAME of a vGPU, or --pid PID");
		return verb_usage_code(arguments->verb);
	}
	move->target = (struct vg_suspend_target){arguments->words[0], pid};
	return 0;
}

int move_memory(const struct arguments *arguments, bool is_out)
{
	struct move move = {.is_out = is_out, .drain_ms = DRAIN_MS};
	struct session session;
	long seconds = 0;

	int r = read_target(arguments, &move);
	if (r == 0 && is_out)
		r = checkpoint_number(arguments, "drain", 3600, &seconds);
	if (seconds)
		move.drain_ms = (unsigned)seconds * 1000;
	if (r == 0)
		r = session_open(&session, arguments);
	if (r)
		return r;
	r = move_and_report(session.node, arguments, &move);
	session_close(&session);
	return r;
}
