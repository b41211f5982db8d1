#include "move.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "checkpoint.h"
#include "eviction.h"
#include "guard.h"
#include "list.h"
#include "options.h"
#include "progress.h"
#include "say.h"
#include "session.h"

struct move {
	bool is_out;
	const char *vgpu; // NULL: only the process `pid` is moved
	long pid;
	struct vg_suspend_options options;
	const struct vg_suspend_result *result;
};

// ---- messages --------------------------------------------------------------------------------------------

static double seconds_waited(const struct move *move)
{
	return move->result->seconds[move->is_out ? VG_CHECKPOINT_EVICT : VG_CHECKPOINT_DEVICE_IN];
}

// Returns a text about what the driver did after the pager had moved the memory, for the end of a line; "" if the
// driver did nothing.
static const char *driver_text(const struct move *move, const struct vg_suspended_process *process, char *buffer,
			       size_t capacity)
{
	const double *seconds = move->result->seconds;

	if (!process->deep)
		*buffer = '\0';
	else if (move->is_out)
		snprintf(buffer, capacity, "; taken off the GPU by the driver in %.3f s",
			 seconds[VG_CHECKPOINT_LOCK] + seconds[VG_CHECKPOINT_DEVICE_OUT]);
	else
		snprintf(buffer, capacity, "; brought back by the driver");
	return buffer;
}

static void print_moved(const struct move *move, const char *subject, const struct vg_suspended_process *process)
{
	const struct vg_eviction_info *eviction = &process->eviction;
	uint64_t from = move->is_out ? process->host_before : eviction->host;
	uint64_t to = move->is_out ? eviction->host : process->host_before, bytes = to > from ? to - from : 0;
	double seconds = (double)eviction->moved_ns / 1e9;
	char size[VG_SIZE_TEXT], rate[VG_SIZE_TEXT], driver[96], unchanged[EVICTION_TEXT] = "";
	uint64_t copied = !move->is_out ? bytes : eviction->unchanged < bytes ? bytes - eviction->unchanged : 0;

	if (move->is_out)
		unchanged_text(eviction, unchanged);
	driver_text(move, process, driver, sizeof driver);
	if (move->result->by_driver)
		print_line("%s: %s%s", subject, vg_size_format(process->charged, size), driver);
	else if (!eviction->bytes)
		print_line("%s: no GPU memory to move%s", subject, driver);
	else if (!bytes)
		print_line("%s: %s, %s already%s", subject, vg_size_format(eviction->bytes, size),
			   move->is_out ? "in the host" : "on the GPU", driver);
	else if (!eviction->moved_ns)
		print_line("%s: %s to the %s%s", subject, vg_size_format(bytes, size), move->is_out ? "host" : "GPU",
			   driver);
	else if (!copied)
		print_line("%s: %s to the %s in %.3f s%s%s", subject, vg_size_format(bytes, size),
			   move->is_out ? "host" : "GPU", seconds, unchanged, driver);
	else
		print_line("%s: %s to the %s in %.3f s, %s/s%s%s", subject, vg_size_format(bytes, size),
			   move->is_out ? "host" : "GPU", seconds,
			   vg_size_format((uint64_t)((double)copied / seconds), rate), unchanged, driver);
}

static const char *failure_text(const struct move *move, const struct vg_suspended_process *process,
				char buffer[EVICTION_TEXT])
{
	switch (process->outcome) {
	case VG_SUSPEND_REVERSED:
		return move->is_out ? "it was resumed meanwhile" : "it was suspended meanwhile";
	case VG_SUSPEND_SILENT:
		snprintf(buffer, EVICTION_TEXT,
			 "it did not answer within %.0f s: is it stopped (SIGSTOP, a debugger), or does it load a "
			 "large module? The request takes effect when it runs again",
			 seconds_waited(move));
		return buffer;
	case VG_SUSPEND_LATE:
		snprintf(buffer, EVICTION_TEXT,
			 "its memory was still moving after %.0f s; the move continues, see `virgate ps%s %s`",
			 seconds_waited(move), sim_flag(), move->result->vgpu);
		return buffer;
	default:
		return eviction_reason(&process->eviction, buffer);
	}
}

static size_t count_moved(const struct move *move)
{
	size_t count = 0;

	for (size_t i = 0; i < move->result->count; i++)
		count += move->result->processes[i].outcome == VG_SUSPEND_DONE;
	return count;
}

static void say_failure(const struct move *move, const char *subject, const struct vg_suspended_process *process)
{
	char reason[EVICTION_TEXT], others[80] = "";
	const char *what = move->is_out ? "suspended" : "resumed";
	size_t count = count_moved(move);

	if (count)
		snprintf(others, sizeof others, "; the other%s %s %s", count == 1 ? "" : "s",
			 !move->is_out ? count == 1 ? "is" : "are"
			 : count == 1  ? "stays"
				       : "stay",
			 what);
	say_error("%s could not be %s: %s%s", subject, what, failure_text(move, process, reason), others);
}

static void report_process(const struct move *move, const struct vg_suspended_process *process)
{
	char subject[256];

	snprintf(subject, sizeof subject, "%s: process %lld (%s)", move->result->vgpu, (long long)process->pid,
		 process->command);
	if (process->outcome == VG_SUSPEND_ENDED)
		print_line("%s has ended", subject);
	else if (process->outcome == VG_SUSPEND_DONE)
		print_moved(move, subject, process);
	else
		say_failure(move, subject, process);
}

// Prints how to repeat or cancel a suspension. The suspension stays requested for processes that have not completed it.
static void say_next_steps(const struct move *move)
{
	const char *sim = sim_flag(), *name = move->result->vgpu;

	if (!move->is_out)
		return;
	if (move->vgpu)
		say_error("%s: `virgate suspend%s %s` tries again, `virgate resume%s %s` resumes all of it", name, sim,
			  name, sim, name);
	else
		say_error("%s: `virgate suspend%s --pid %ld` tries again, `virgate resume%s --pid %ld` cancels it",
			  name, sim, move->pid, sim, move->pid);
}

static void report_result(const struct move *move)
{
	const struct vg_suspend_result *result = move->result;

	if (*result->warning)
		say_warning("%s", result->warning);
	if (result->by_driver && move->is_out)
		say_warning("vGPU %s is not evictable: the driver moves all of its memory, which is slower",
			    result->vgpu);
	if (!result->count)
		print_line("%s: %s, no process runs in it", result->vgpu, move->is_out ? "suspended" : "resumed");
	for (size_t i = 0; i < result->count; i++)
		report_process(move, &result->processes[i]);
	if (result->failed)
		say_next_steps(move);
}

// ---- the verbs -------------------------------------------------------------------------------------------

static int move_and_report(const struct arguments *arguments, struct move *move)
{
	struct vg_suspend_result *result = NULL;

	enum vg_status status = move->is_out ? vg_checkpoint_suspend(&move->options, &result)
					     : vg_checkpoint_resume(&move->options, &result);
	progress_hide();
	move->result = result;
	if (result)
		report_result(move);
	bool is_reported = status == VG_OK || (status == VG_NOT_READY && result && result->failed);
	int r = is_reported ? status ? EXIT_NOT_MOVED : EXIT_OK : checkpoint_fail(arguments);
	vg_suspend_result_free(result);
	return r;
}

static int read_target(const struct arguments *arguments, struct move *move)
{
	int r = checkpoint_read_number(arguments, "pid", 4194304, &move->pid);

	if (r)
		return r;
	if ((move->pid != 0) == (arguments->count != 0))
		return say_usage(arguments->verb, move->pid ? "a vGPU and --pid: give one of them"
							    : "give the NAME of a vGPU, or --pid PID");
	move->vgpu = arguments->words[0];
	return 0;
}

static int move_in_session(const struct arguments *arguments, struct session *session, struct move *move)
{
	move->options.size = sizeof move->options;
	move->options.node = session->node;
	move->options.vgpu = move->vgpu;
	move->options.pid = (pid_t)move->pid;
	move->options.progress = checkpoint_show_progress;
	return move_and_report(arguments, move);
}

static int move_memory(const struct arguments *arguments, struct move *move)
{
	struct session session;

	int r = checkpoint_open_session(&session, arguments);
	if (r)
		return r;
	r = move_in_session(arguments, &session, move);
	session_close(&session);
	return r;
}

int suspend_vgpu(const struct arguments *arguments, struct session *session, const char *name)
{
	struct move move = {.is_out = true, .vgpu = name};

	return move_in_session(arguments, session, &move);
}

int suspend_memory(const struct arguments *arguments)
{
	const struct guarded guarded = {.is_suspension = true};
	struct move move = {.is_out = true};
	struct guard guard = {.end = -1};
	long seconds;

	int r = read_target(arguments, &move);
	if (r == 0)
		r = checkpoint_read_number(arguments, "drain", 3600, &seconds);
	if (r)
		return r;
	move.options.drain_ms = (unsigned)seconds * 1000;
	move.options.deep = option_value(arguments, "deep") != NULL;
	if (move.options.deep) {
		// The guard is a child process, and a child cannot use a driver that was loaded before the fork.
		r = guard_start_for_target(arguments, move.vgpu, (pid_t)move.pid, &guarded, &guard);
		if (r)
			return r;
	}
	r = move_memory(arguments, &move);
	guard_stop(&guard);
	return r;
}

int resume_memory(const struct arguments *arguments)
{
	struct move move = {.is_out = false};

	int r = read_target(arguments, &move);
	return r ? r : move_memory(arguments, &move);
}
