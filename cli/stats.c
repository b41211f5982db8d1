// stats: sums up the figures of one vGPU over a time up to now (--since), from the daemon's samples and its journal.
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/size.h"
#include "duration.h"
#include "list.h"
#include "options.h"
#include "say.h"
#include "session.h"
#include "virgate/journal.h"

enum { KINDS_MOST = 32 };
static const double HOUR = 3600;

// The summary of one figure over the samples in which it is known.
struct summary {
	size_t count;
	uint64_t now, least, most;
	double sum;
	uint64_t growth; // growth of a counter over the samples; a counter may begin again at 0
	uint64_t last;
};

struct stats {
	double since, from, to;
	size_t samples;
	struct summary charged, physical, in_host, gpu, waited, refusals;
	struct {
		const char *kind;
		unsigned count;
	} kinds[KINDS_MOST];
	size_t kind_count;
	bool has_all_events;
};

static void add_figure(struct summary *summary, uint64_t value)
{
	if (value == VG_HISTORY_UNKNOWN)
		return;
	if (summary->count && value > summary->last)
		summary->growth += value - summary->last;
	summary->last = summary->now = value;
	if (!summary->count || value < summary->least)
		summary->least = value;
	if (value > summary->most)
		summary->most = value;
	summary->sum += (double)value;
	summary->count++;
}

static void add_samples(struct stats *stats, const struct vg_history_series *series)
{
	for (size_t i = 0; i < series->count; i++) {
		const struct vg_history_sample *sample = &series->samples[i];
		if (sample->time < stats->since)
			continue;
		stats->from = stats->samples ? stats->from : sample->time;
		stats->to = sample->time;
		stats->samples++;
		add_figure(&stats->charged, sample->charged);
		add_figure(&stats->physical, sample->physical);
		add_figure(&stats->in_host, sample->in_host);
		add_figure(&stats->gpu, sample->gpu_ns);
		add_figure(&stats->waited, sample->waited_ns);
		add_figure(&stats->refusals, sample->refusals);
	}
}

static void add_events(struct stats *stats, const struct vg_journal_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		size_t row = 0;
		while (row < stats->kind_count && strcmp(stats->kinds[row].kind, list->events[i].kind) != 0)
			row++;
		if (row == KINDS_MOST)
			continue;
		stats->kinds[row].kind = list->events[i].kind;
		stats->kinds[row].count += list->events[i].count;
		stats->kind_count = row < stats->kind_count ? stats->kind_count : row + 1;
	}
	stats->has_all_events = list->count < 512;
}

static json_t *summary_json(const struct summary *summary)
{
	if (!summary->count)
		return json_null();
	return json_pack("{s:I, s:f, s:I, s:I}", "now", (json_int_t)summary->now, "mean",
			 summary->sum / (double)summary->count, "least", (json_int_t)summary->least, "most",
			 (json_int_t)summary->most);
}

static json_t *growth_json(const struct summary *summary)
{
	return summary->count ? json_integer((json_int_t)summary->growth) : json_null();
}

static int print_stats_json(const char *name, const struct stats *stats)
{
	json_t *events = json_object();

	for (size_t i = 0; i < stats->kind_count; i++)
		json_object_set_new(events, stats->kinds[i].kind, json_integer(stats->kinds[i].count));
	return print_json(json_pack("{s:s, s:f, s:f, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name", name, "from",
				    stats->from, "to", stats->to, "samples", (json_int_t)stats->samples, "charged",
				    summary_json(&stats->charged), "physical", summary_json(&stats->physical),
				    "in_host", summary_json(&stats->in_host), "gpu_ns", growth_json(&stats->gpu),
				    "waited_ns", growth_json(&stats->waited), "refusals", growth_json(&stats->refusals),
				    "events", events));
}

static void add_size_row(struct table *table, const char *title, const struct summary *summary)
{
	char now[VG_SIZE_TEXT], mean[VG_SIZE_TEXT], least[VG_SIZE_TEXT], most[VG_SIZE_TEXT];

	if (summary->count)
		table_add(table, (const char *const[]){
					 title, vg_size_format(summary->now, now),
					 vg_size_format((uint64_t)(summary->sum / (double)summary->count), mean),
					 vg_size_format(summary->least, least), vg_size_format(summary->most, most)});
}

static void print_time(const char *title, const struct summary *summary, double seconds)
{
	double value = (double)summary->growth / 1e9;

	if (summary->count > 1 && seconds > 0)
		print_line("%s  %.1f s, %.1f %% of the time", title, value, 100 * value / seconds);
}

static int print_stats_text(const char *name, const struct stats *stats)
{
	struct table table = {.columns = 5, .right = {[1] = true, [2] = true, [3] = true, [4] = true}};
	char from[CELL_TEXT], to[CELL_TEXT];

	if (!stats->samples) {
		print_line("%s: no samples in that time", name);
	} else {
		print_line("%s  %s to %s, %zu samples", name, time_text(stats->from, from), time_text(stats->to, to),
			   stats->samples);
		table_add(&table, (const char *const[]){"MEMORY", "NOW", "MEAN", "LEAST", "MOST"});
		add_size_row(&table, "charged", &stats->charged);
		add_size_row(&table, "physical", &stats->physical);
		add_size_row(&table, "in host", &stats->in_host);
		table_print(&table);
		print_time("GPU time", &stats->gpu, stats->to - stats->from);
		print_time("waiting ", &stats->waited, stats->to - stats->from);
	}
	for (size_t i = 0; i < stats->kind_count; i++)
		print_line("%-9s  %u%s", stats->kinds[i].kind, stats->kinds[i].count,
			   stats->has_all_events ? "" : " or more");
	return EXIT_OK;
}

static int show_stats(struct vg_node *node, const struct arguments *arguments)
{
	const char *name = arguments->words[0];
	struct stats stats = {0};
	struct vg_history_list *history;
	struct vg_journal_list *events;
	double since = HOUR;

	int r = read_since(arguments, &since);
	if (r)
		return r;
	stats.since = (double)time(NULL) - since;
	const struct vg_history_options of_vgpu = {.size = sizeof of_vgpu, .vgpu = name};
	if (vg_history_list(node, &of_vgpu, &history))
		return fail_with_last_error(arguments);
	const struct vg_journal_options recent = {
		.size = sizeof recent, .vgpu = name, .since = stats.since, .newest = 1};
	if (vg_journal_list(node, &recent, &events)) {
		vg_history_list_free(history);
		return fail_with_last_error(arguments);
	}
	for (size_t i = 0; i < history->count; i++)
		add_samples(&stats, &history->series[i]);
	add_events(&stats, events);
	r = option_value(arguments, "json") ? print_stats_json(name, &stats) : print_stats_text(name, &stats);
	vg_journal_list_free(events);
	vg_history_list_free(history);
	return r;
}

static int run_stats(const struct arguments *arguments)
{
	return run_in_session(arguments, show_stats);
}

static const struct option options[] = {
	{"since", 0, "DURATION", "the last 90s, 15m or 1h; without it an hour, the most there is", 0},
	OPTION_JSON,
	OPTION_SIM,
	{0}};

const struct verb verb_stats = {
	.name = "stats",
	.synopsis = "NAME [--since DURATION] [--json] [--sim]",
	.summary = "Sum up memory, GPU time and events of a vGPU over the last hour",
	.details = "The daemon takes a sample every 5 seconds, and keeps those of an hour until it ends.",
	.options = options,
	.least = 1,
	.most = 1,
	.complete = COMPLETE_VGPU,
	.run = run_stats,
};
