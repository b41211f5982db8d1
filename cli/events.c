// events: lists what happened on the node, and follows it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/size.h"
#include "duration.h"
#include "list.h"
#include "options.h"
#include "say.h"
#include "session.h"
#include "virgate/journal.h"

static const double FOREVER = 1e9;

static json_t *event_json(const struct vg_journal_event *event)
{
	return json_pack("{s:I, s:f, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I}", "number", (json_int_t)event->number,
			 "time", event->time, "kind", event->kind, "vgpu", text_or_null(event->vgpu), "owner",
			 text_or_null(event->owner), "user", text_or_null(event->user), "pid",
			 event->pid ? json_integer((json_int_t)event->pid) : json_null(), "command",
			 text_or_null(event->command), "text", text_or_null(event->text), "bytes",
			 event->bytes ? json_integer((json_int_t)event->bytes) : json_null(), "count",
			 (json_int_t)event->count);
}

// Prints one event as a line of JSON, with escapes for all characters outside ASCII.
static void print_json_line(const struct vg_journal_event *event)
{
	json_t *object = event_json(event);
	char *text = json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(17));

	json_decref(object);
	if (text)
		puts(text);
	free(text);
}

static void print_event(const struct vg_journal_event *event)
{
	char time[CELL_TEXT], who[160] = "", bytes[VG_SIZE_TEXT + 3] = "", count[32] = "", text[VG_SIZE_TEXT];

	if (event->pid)
		snprintf(who, sizeof who, "  process %lld%s%s%s%s%s", (long long)event->pid,
			 *event->command ? " (" : "", event->command, *event->command ? ")" : "",
			 *event->user ? " of " : "", event->user);
	else if (*event->user)
		snprintf(who, sizeof who, "  %s", event->user);
	if (event->bytes)
		snprintf(bytes, sizeof bytes, "  %s", vg_size_format(event->bytes, text));
	if (event->count > 1)
		snprintf(count, sizeof count, "  %u times", event->count);
	print_line("%s  %-9s  %s%s%s%s%s%s", time_text(event->time, time), event->kind,
		   *event->vgpu ? event->vgpu : "-", who, bytes, count, *event->text ? "  " : "", event->text);
}

static int print_list(const struct vg_journal_list *list, const struct arguments *arguments)
{
	json_t *array = json_array();

	if (!option_value(arguments, "json")) {
		json_decref(array);
		for (size_t i = 0; i < list->count; i++)
			print_event(&list->events[i]);
		if (!list->count)
			print_line("no events");
		return EXIT_OK;
	}
	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(array, event_json(&list->events[i]));
	return print_json(json_pack("{s:o, s:I}", "events", array, "next", (json_int_t)list->next));
}

// Prints events as they happen, until the output is closed. If the daemon ends, waits until it has started again.
static int follow(struct vg_node *node, const struct arguments *arguments, struct vg_journal_options *options)
{
	bool as_json = option_value(arguments, "json"), was_down = false;
	struct vg_journal_list *list;

	for (;;) {
		enum vg_status status = vg_journal_wait(node, options, FOREVER, &list);
		if (status && status != VG_NO_DAEMON)
			return fail_with_last_error(arguments);
		if (status) {
			if (!was_down)
				say_last_error();
			was_down = true;
			nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
			continue;
		}
		was_down = false;
		if (list->lost)
			say_warning("the journal no longer has all events since the last one shown");
		for (size_t i = 0; i < list->count; i++)
			as_json ? print_json_line(&list->events[i]) : print_event(&list->events[i]);
		options->after = list->next;
		options->newest = 0;
		vg_journal_list_free(list);
		if (fflush(stdout) != 0)
			return EXIT_FAILED;
	}
}

static int show_events(struct vg_node *node, const struct arguments *arguments)
{
	struct vg_journal_options options = {.size = sizeof options, .vgpu = arguments->words[0], .newest = 1};
	struct vg_journal_list *list;
	double since = 0;

	int r = read_since(arguments, &since);
	if (r)
		return r;
	if (since > 0)
		options.since = (double)time(NULL) - since;
	if (option_value(arguments, "follow"))
		return follow(node, arguments, &options);
	if (vg_journal_list(node, &options, &list))
		return fail_with_last_error(arguments);
	r = print_list(list, arguments);
	vg_journal_list_free(list);
	return r;
}

static int run_events(const struct arguments *arguments)
{
	return run_in_session(arguments, show_events);
}

static const struct option options[] = {{"follow", 'f', NULL, "continue with each event as it happens", 0},
					{"since", 0, "DURATION", "only events of the last 90s, 15m, 1h or 2d", 0},
					OPTION_JSON,
					OPTION_SIM,
					{0}};

const struct verb verb_events = {
	.name = "events",
	.synopsis = "[NAME] [--follow] [--since DURATION] [--json] [--sim]",
	.summary = "Show what happened: creations, entries, refusals, ends",
	.details = "Shows the newest 512 events of all vGPUs, or of the vGPU NAME. Of other users' vGPUs it shows only "
		   "what `virgate ps` shows.",
	.options = options,
	.most = 1,
	.complete = COMPLETE_VGPU,
	.run = run_events,
};
