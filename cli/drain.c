// drain: lets no new vGPUs and programs start on a GPU, and waits for, suspends or ends those that are there.
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "checkpoint.h"
#include "list.h"
#include "move.h"
#include "options.h"
#include "say.h"

enum { POLL_MS = 100, TERM_S = 10, KILL_S = 20 };

static int refuse_combination(const struct arguments *arguments)
{
	static const char *const ways[] = {"wait", "suspend", "end", "undo"};
	const char *first = NULL;

	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		if (!option_value(arguments, ways[i]))
			continue;
		if (first)
			return say_usage(arguments->verb, "--%s and --%s: give one of them", first, ways[i]);
		first = ways[i];
	}
	const char *seconds = option_value(arguments, "wait");
	const char *wrong = seconds && *seconds ? config_check(KIND_SECONDS, seconds) : NULL;
	return wrong ? say_usage(arguments->verb, "--wait: \"%s\" %s", seconds, wrong) : 0;
}

static bool is_named(const struct vg_device_info *device, const char *text)
{
	char index[16];

	snprintf(index, sizeof index, "%d", device->index);
	return strcmp(text, index) == 0 || strcasecmp(text, device->uuid) == 0;
}

// Reads the GPU's index and how many of its vGPUs are in use. Returns 0, or the verb's exit code after a message.
static int read_use(struct session *session, const struct arguments *arguments, int *ret_index, unsigned *ret_in_use)
{
	struct vg_device_list *list;

	if (vg_device_list(session->node, &list))
		return fail_with_last_error(arguments);
	for (size_t i = 0; i < list->count; i++)
		if (is_named(&list->devices[i], arguments->words[0])) {
			*ret_index = list->devices[i].index;
			*ret_in_use = list->devices[i].in_use;
		}
	vg_device_list_free(list);
	return 0;
}

static const char *count_text(unsigned count, char buffer[CELL_TEXT])
{
	snprintf(buffer, CELL_TEXT, "%u vGPU%s", count, count == 1 ? " is" : "s are");
	return buffer;
}

// Waits until no vGPU of the GPU is in use; `seconds` 0: without a limit. *ret_in_use: how many are in use at the end.
static int wait_for_end(struct session *session, const struct arguments *arguments, unsigned seconds,
			unsigned *ret_in_use)
{
	uint64_t deadline = vg_clock_monotonic_ns() + seconds * 1000000000ull;
	int index, r;

	while ((r = read_use(session, arguments, &index, ret_in_use)) == 0 && *ret_in_use) {
		if (seconds && vg_clock_monotonic_ns() >= deadline)
			return 0;
		poll(NULL, 0, POLL_MS);
	}
	return r;
}

// Prints that no program runs on the GPU, if `in_use`, the number of its vGPUs in which a program runs, is 0. Otherwise
// reports an error with that number. Returns the exit code.
static int report_use(const struct arguments *arguments, int index, unsigned in_use)
{
	char text[CELL_TEXT];

	if (!in_use) {
		print_line("GPU %d: no program runs on it", index);
		return EXIT_OK;
	}
	say_error("GPU %d is drained, but %s still in use: `virgate ps%s` lists the programs", index,
		  count_text(in_use, text), sim_flag());
	return verb_failure_code(arguments->verb);
}

// ---- ways ------------------------------------------------------------------------------------------------

static int wait_on_gpu(struct session *session, const struct arguments *arguments, int index)
{
	const char *seconds = option_value(arguments, "wait");
	unsigned in_use;

	int r = wait_for_end(session, arguments, *seconds ? (unsigned)atoi(seconds) : 0, &in_use);
	if (r)
		return r;
	return report_use(arguments, index, in_use);
}

// Calls `work` for each vGPU on the GPU. Returns the last exit code that was not EXIT_OK.
static int for_each_vgpu(struct session *session, const struct arguments *arguments, int index,
			 int (*work)(struct session *session, const struct arguments *arguments,
				     const struct vg_vgpu_info *vgpu))
{
	struct vg_vgpu_list *list;
	int result = EXIT_OK;

	if (vg_vgpu_list(session->node, &list))
		return fail_with_last_error(arguments);
	for (size_t i = 0; i < list->count; i++) {
		int r = list->vgpus[i].device == index ? work(session, arguments, &list->vgpus[i]) : EXIT_OK;
		result = r ? r : result;
	}
	vg_vgpu_list_free(list);
	return result;
}

static int suspend_one(struct session *session, const struct arguments *arguments, const struct vg_vgpu_info *vgpu)
{
	if (vgpu->suspended || !vgpu->tenant_count)
		return EXIT_OK;
	if (vgpu->evictable)
		return suspend_vgpu(arguments, session, vgpu->name);
	say_error("%s is not evictable, so it stays on the GPU: `virgate suspend --deep%s %s` lets the driver move it",
		  vgpu->name, sim_flag(), vgpu->name);
	return EXIT_NOT_MOVED;
}

static int send_signal(struct session *session, const struct arguments *arguments, const char *name, int number)
{
	unsigned count;

	enum vg_status status = vg_vgpu_signal(session->node, name, number, &count);
	return status && status != VG_NOT_FOUND ? fail_with_last_error(arguments) : EXIT_OK;
}

static int terminate_one(struct session *session, const struct arguments *arguments, const struct vg_vgpu_info *vgpu)
{
	return send_signal(session, arguments, vgpu->name, SIGTERM);
}

static int kill_one(struct session *session, const struct arguments *arguments, const struct vg_vgpu_info *vgpu)
{
	return send_signal(session, arguments, vgpu->name, SIGKILL);
}

static int end_on_gpu(struct session *session, const struct arguments *arguments, int index)
{
	unsigned in_use = 0;

	int r = for_each_vgpu(session, arguments, index, terminate_one);
	if (r == 0)
		r = wait_for_end(session, arguments, TERM_S, &in_use);
	if (r == 0 && in_use)
		r = for_each_vgpu(session, arguments, index, kill_one);
	if (r == 0 && in_use)
		r = wait_for_end(session, arguments, KILL_S, &in_use);
	if (r)
		return r;
	return report_use(arguments, index, in_use);
}

// ---- the verb --------------------------------------------------------------------------------------------

static int drain_gpu(struct session *session, const struct arguments *arguments)
{
	unsigned in_use = 0;
	char text[CELL_TEXT];
	int index = -1;

	if (vg_device_drain(session->node, arguments->words[0]))
		return fail_with_last_error(arguments);
	int r = read_use(session, arguments, &index, &in_use);
	if (r)
		return r;
	print_line("GPU %d: drained, %s in use", index, count_text(in_use, text));
	fflush(stdout);
	if (option_value(arguments, "wait"))
		return wait_on_gpu(session, arguments, index);
	if (option_value(arguments, "suspend"))
		return for_each_vgpu(session, arguments, index, suspend_one);
	return option_value(arguments, "end") ? end_on_gpu(session, arguments, index) : EXIT_OK;
}

static int undo_drain(struct session *session, const struct arguments *arguments)
{
	if (vg_device_undrain(session->node, arguments->words[0]))
		return fail_with_last_error(arguments);
	print_line("GPU %s: not drained", arguments->words[0]);
	return EXIT_OK;
}

static int run_drain(const struct arguments *arguments)
{
	struct session session;

	int r = refuse_combination(arguments);
	if (r)
		return r;
	if (option_value(arguments, "suspend"))
		r = checkpoint_open_session(&session, arguments);
	else
		r = session_open(&session, arguments);
	if (r)
		return r;
	r = option_value(arguments, "undo") ? undo_drain(&session, arguments) : drain_gpu(&session, arguments);
	session_close(&session);
	return r;
}

static const struct option options[] = {
	{"wait", 'w', "[SECONDS]", "wait until no program runs on it", 0},
	{"suspend", 0, NULL, "suspend its evictable vGPUs", 0},
	{"end", 0, NULL, "end its programs: TERM, and KILL after 10 s", 0},
	{"undo", 'u', NULL, "let vGPUs and programs start on it again", 0},
	OPTION_SIM,
	{0},
};

const struct verb verb_drain = {
	.name = "drain",
	.synopsis = "GPU [--wait[=SECONDS] | --suspend | --end | --undo] [--sim]",
	.summary = "Let no new vGPUs and programs start on a GPU",
	.details = "GPU is an index or UUID. Programs that run on it continue, unless --suspend or --end is\n"
		   "given. The GPU stays drained until --undo, also after a restart of the daemon.\n"
		   "Exit status: 3 if a vGPU could not be suspended.",
	.options = options,
	.least = 1,
	.most = 1,
	.complete = COMPLETE_DEVICE,
	.run = run_drain,
};
