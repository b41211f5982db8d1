// trace: records for some seconds what the vGPUs do on the GPUs, and writes it as a file for Perfetto.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"
#include "list.h"
#include "node/fields.h"
#include "node/node.h"
#include "options.h"
#include "say.h"
#include "session.h"
#include "timeline.h"
#include "virgate/version.h"

// A request for turns and counters goes to the daemon every POLL_MS, and one for the journal's events after EVENT_POLLS
// of them. The daemon records the times of turns itself, so these do not depend on the interval; counters are only read
// at each answer.
enum { POLL_MS = 50, EVENT_POLLS = 10, MOST_SECONDS = 3600 };
// How long to wait before the journal is read for the last time. The daemon may notice a refusal, or the start or end
// of a program, up to 250 ms late.
enum { LATE_MS = 400 };

struct trace {
	struct vg_node *node;
	const struct arguments *arguments;
	struct timeline *timeline;
	struct trace_file *file;
	const char *path;
	struct vg_device_list *devices;
	int device;
	unsigned seconds;
	uint64_t next;	       // number of the last record received; the next request asks for later ones
	uint64_t next_event;   // number of the journal's last event received; the next request asks for later ones
	double daemon_started; // start time of the daemon that answered the first request
	bool has_begun, has_ended, lost, left_out;
};

static volatile sig_atomic_t is_interrupted;

static void interrupt(int signal)
{
	is_interrupted = 1;
}

// Lets ^C and SIGTERM end the trace early, unless they are ignored, as in a background program of a script.
static void catch_interrupts(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction before;

	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			sigaction(signals[i], &(struct sigaction){.sa_handler = interrupt}, NULL);
}

// ---- the command line -----------------------------------------------------------------------------------------

static int read_seconds(const struct arguments *arguments, unsigned *ret_seconds)
{
	const char *text = option_value(arguments, "seconds");
	char *end;

	*ret_seconds = 5;
	if (!text)
		return 0;
	unsigned long value = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || value < 1 || value > MOST_SECONDS)
		return say_usage(arguments->verb, "--seconds: \"%s\" is not a number from 1 to %d", text, MOST_SECONDS);
	*ret_seconds = (unsigned)value;
	return 0;
}

// Finds the GPU of the option --device.
static int find_device(struct trace *trace)
{
	const char *text = option_value(trace->arguments, "device");
	char index[16];

	trace->device = ALL_DEVICES;
	if (vg_device_list(trace->node, &trace->devices))
		return fail_with_last_error(trace->arguments);
	for (size_t i = 0; text && i < trace->devices->count; i++) {
		const struct vg_device_info *one = &trace->devices->devices[i];
		snprintf(index, sizeof index, "%d", one->index);
		if (strcmp(text, index) == 0 || strcasecmp(text, one->uuid) == 0)
			trace->device = one->index;
	}
	if (!text || trace->device != ALL_DEVICES)
		return 0;
	say_error("there is no GPU %s: this node has %zu, see `virgate devices%s`", text, trace->devices->count,
		  sim_flag());
	return verb_failure_code(trace->arguments->verb);
}

static int fail_to_write(const struct trace *trace, int r)
{
	say_error("cannot write the trace to %s: %s", trace->path,
		  r == -EINVAL ? "it is not a regular file; choose another name" : strerror(-r));
	return verb_failure_code(trace->arguments->verb);
}

// ---- the daemon's answers -------------------------------------------------------------------------------------

// Reads the parts of an answer that the next request needs, and adds the answer to the timeline. Returns the name of a
// field that is missing or invalid, or NULL.
static const char *read_answer(struct trace *trace, const json_t *answer, int *ret_more)
{
	struct vg_fields fields = {answer, NULL};
	double started = vg_field_seconds(&fields, "started");

	*ret_more = vg_field_truth(&fields, "more");
	trace->has_ended = trace->has_begun && started != trace->daemon_started;
	if (fields.wrong || trace->has_ended)
		return fields.wrong;
	trace->daemon_started = started;
	trace->next = vg_field_size(&fields, "next");
	trace->lost |= trace->has_begun && vg_field_truth(&fields, "lost");
	trace->left_out |= !vg_field_truth(&fields, "complete");
	trace->has_begun = true;
	return fields.wrong ? fields.wrong : timeline_add(trace->timeline, answer);
}

// Requests records from the daemon until it has no more of them.
static enum vg_status ask_daemon(struct trace *trace)
{
	int has_more = 1;

	while (has_more && !trace->has_ended) {
		json_t *request = json_pack("{s:s}", "op", "trace"), *answer;
		if (trace->has_begun)
			json_object_set_new(request, "after", json_integer((json_int_t)trace->next));
		enum vg_status status = vg_node_request(trace->node, request, &answer);
		if (status)
			return status;
		const char *wrong = read_answer(trace, answer, &has_more);
		json_decref(answer);
		if (wrong)
			return vg_fields_refuse(wrong);
	}
	return VG_OK;
}

// Adds the events of the journal since the last call. If `begins`, only finds the end of the journal, and adds nothing.
static enum vg_status ask_journal(struct trace *trace, bool begins)
{
	const struct vg_journal_options options = {
		.size = sizeof options, .after = trace->next_event, .newest = begins, .most = begins ? 1 : 0};
	struct vg_journal_list *list;

	enum vg_status status = vg_journal_list(trace->node, &options, &list);
	if (status)
		return status;
	for (size_t i = 0; !begins && i < list->count; i++)
		timeline_add_event(trace->timeline, &list->events[i]);
	trace->next_event = list->next;
	vg_journal_list_free(list);
	return VG_OK;
}

static void rest(unsigned ms)
{
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL); // a signal makes nanosleep() return early
}

// Records until the time is over, the user interrupts, or the daemon ends. *ret_error is the -errno of a failed write,
// or 0.
static enum vg_status record(struct trace *trace, int *ret_error)
{
	enum vg_status status = ask_journal(trace, true);
	bool is_last = false;
	uint64_t end = 0;

	for (unsigned poll = 1; !status; poll++) {
		is_last = poll > 1 && vg_clock_monotonic_ns() >= end;
		status = ask_daemon(trace);
		if (poll == 1) // the time of --seconds begins when the daemon has answered for the first time
			end = vg_clock_monotonic_ns() + trace->seconds * 1000000000ull;
		if (!status && poll % EVENT_POLLS == 0)
			status = ask_journal(trace, false);
		*ret_error = trace_file_flush(trace->file);
		if (status || *ret_error || trace->has_ended || is_interrupted || is_last)
			break;
		rest(POLL_MS);
	}
	if (status || *ret_error || trace->has_ended)
		return status;
	rest(LATE_MS);
	return ask_journal(trace, false);
}

// ---- the end --------------------------------------------------------------------------------------------------

static json_t *describe(const struct trace *trace, double seconds)
{
	return json_pack("{s:s, s:s, s:f, s:b, s:b, s:b}", "program", "virgate trace", "version", VG_VERSION_TEXT,
			 "seconds", seconds, "daemon_ended", (int)trace->has_ended, "turns_lost", (int)trace->lost,
			 "programs_left_out", (int)trace->left_out);
}

static void print_summary(const struct trace *trace, double seconds)
{
	struct timeline_counts counts = timeline_counts(trace->timeline);

	if (trace->lost)
		say_warning("some turns are missing in %s: the daemon records them only while it is asked in time",
			    trace->path);
	if (trace->left_out)
		say_warning("some programs are missing in %s: there were too many for one answer of the daemon",
			    trace->path);
	print_line("%s: %.1f s of %u vGPU%s, %u program%s, %u turn%s, %u event%s; ui.perfetto.dev shows it",
		   trace->path, seconds, counts.vgpus, counts.vgpus == 1 ? "" : "s", counts.tenants,
		   counts.tenants == 1 ? "" : "s", counts.turns, counts.turns == 1 ? "" : "s", counts.events,
		   counts.events == 1 ? "" : "s");
}

// Completes the file. If the daemon has ended, the file shows what happened until then.
static int finish(struct trace *trace, enum vg_status status)
{
	double seconds = (double)timeline_finish(trace->timeline) / 1e9;
	bool is_complete = !status && !trace->has_ended;

	if (status && !trace->has_ended)
		say_last_error();
	int r = trace_file_end(trace->file, describe(trace, seconds));
	trace->file = NULL;
	if (r < 0)
		return fail_to_write(trace, r);
	if (trace->has_ended)
		say_error("the daemon ended after %.1f s: %s has what happened until then", seconds, trace->path);
	else if (status)
		say_error("the trace ended after %.1f s: %s has what happened until then", seconds, trace->path);
	print_summary(trace, seconds);
	return is_complete ? EXIT_OK : verb_failure_code(trace->arguments->verb);
}

static int record_and_finish(struct trace *trace)
{
	int error = 0;

	catch_interrupts();
	enum vg_status status = record(trace, &error);
	if (error)
		return fail_to_write(trace, error);
	if (status == VG_NO_DAEMON && trace->has_begun)
		trace->has_ended = true;
	if (!trace->has_begun)
		return fail_with_last_error(trace->arguments);
	return finish(trace, status);
}

static int trace_node(struct trace *trace)
{
	int r = find_device(trace);

	if (r)
		return r;
	r = trace_file_begin(trace->path, &trace->file);
	if (r < 0)
		return fail_to_write(trace, r);
	trace->timeline = timeline_create(trace->file, trace->device, trace->devices);
	if (trace->timeline) {
		r = record_and_finish(trace);
	} else {
		say_error("out of memory");
		r = verb_failure_code(trace->arguments->verb);
	}
	if (trace->file)
		trace_file_discard(trace->file);
	timeline_destroy(trace->timeline);
	return r;
}

static int run_trace(const struct arguments *arguments)
{
	struct trace trace = {.arguments = arguments, .path = option_value(arguments, "output")};
	struct session session;

	int r = read_seconds(arguments, &trace.seconds);
	if (r)
		return r;
	if (!trace.path || !*trace.path)
		return say_usage(arguments->verb, "name the file of the trace, such as --output trace.json");
	r = session_open_quietly(&session, arguments);
	if (r)
		return r;
	trace.node = session.node;
	r = trace_node(&trace);
	vg_device_list_free(trace.devices);
	session_close(&session);
	return r;
}

static const struct option options[] = {
	{"output", 'o', "FILE", "the file of the trace; an existing one is replaced", COMPLETE_FILE},
	{"seconds", 0, "N", "how long to record, 1 to 3600; without it 5", 0},
	{"device", 'd', "GPU", "only this GPU, by index or UUID", COMPLETE_DEVICE},
	OPTION_SIM,
	{0}};

const struct verb verb_trace = {
	.name = "trace",
	.synopsis = "--output FILE [--seconds N] [--device GPU] [--sim]",
	.summary = "Record who has the GPU when, as a timeline for Perfetto",
	.details =
		"Records turns, waiting, launches, copies, memory in the host, suspensions and refusals. ^C ends the "
		"trace early. The web page ui.perfetto.dev shows the file.",
	.options = options,
	.most = 0,
	.run = run_trace,
};
