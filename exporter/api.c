#include "exporter/api.h"

#include <inttypes.h>
#include <string.h>

#include "exporter/page.h"
#include "exporter/text.h"

// Writes `,"name":` before every member but the first, which begins with "{".
static void write_name(FILE *out, const char *between, const char *name)
{
	fprintf(out, "%s\"%s\":", between, name);
}

static void write_text(FILE *out, const char *name, const char *text)
{
	write_name(out, ",", name);
	text_write_json(out, text);
}

static void write_number(FILE *out, const char *name, bool is_known, uint64_t number)
{
	write_name(out, ",", name);
	if (is_known)
		fprintf(out, "%" PRIu64, number);
	else
		fputs("null", out);
}

static void write_real(FILE *out, const char *name, bool is_known, double number)
{
	write_name(out, ",", name);
	fprintf(out, is_known ? "%.3f" : "null", number);
}

static void write_flag(FILE *out, const char *name, bool is_set)
{
	write_name(out, ",", name);
	fputs(is_set ? "true" : "false", out);
}

void api_write_problem(FILE *out, const char *problem)
{
	fputs("{\"up\":false", out);
	write_text(out, "problem", problem);
	fputs("}\n", out);
}

// ---- overview ------------------------------------------------------------------------------------------

static void write_device(FILE *out, const struct vg_device_info *device)
{
	fprintf(out, "{\"index\":%d", device->index);
	write_text(out, "uuid", device->uuid);
	write_text(out, "name", device->name);
	write_text(out, "driver", device->driver);
	write_text(out, "compute_capability", device->compute_capability);
	write_flag(out, "simulated", device->simulated);
	write_flag(out, "drained", device->drained);
	write_number(out, "memory", true, device->memory);
	write_number(out, "memory_used", device->memory_used_known, device->memory_used);
	write_number(out, "reserved", true, device->reserved);
	write_number(out, "share_reserved", true, device->share_reserved);
	write_number(out, "vgpus", true, device->vgpus);
	write_number(out, "in_use", true, device->in_use);
	write_number(out, "waiting", true, device->waiting);
	fputc('}', out);
}

static void write_tenant(FILE *out, const struct vg_tenant_info *tenant)
{
	fprintf(out, "{\"pid\":%lld", (long long)tenant->pid);
	write_text(out, "command", tenant->command);
	write_number(out, "charged", true, tenant->charged);
	write_number(out, "overhead", true, tenant->overhead);
	write_number(out, "physical", tenant->physical_known, tenant->physical);
	write_number(out, "in_host", tenant->eviction.known, tenant->eviction.host);
	write_real(out, "started", true, tenant->started);
	write_flag(out, "guest", tenant->guest);
	write_flag(out, "ended", tenant->ended);
	write_flag(out, "outside", tenant->outside);
	write_text(out, "state", tenant->eviction.state);
	fputc('}', out);
}

// Writes as many tenants as the page shows, so that an answer is bounded.
static void write_tenants(FILE *out, const struct vg_vgpu_info *vgpu, bool is_public)
{
	bool is_known = !is_public && vgpu->tenants_known;
	size_t most = vgpu->tenant_count < PAGE_TENANTS_MOST ? vgpu->tenant_count : PAGE_TENANTS_MOST;

	write_name(out, ",", "tenants");
	fputs(is_known ? "[" : "null", out);
	for (size_t i = 0; is_known && i < most; i++) {
		fputs(i ? "," : "", out);
		write_tenant(out, &vgpu->tenants[i]);
	}
	fputs(is_known ? "]" : "", out);
	write_number(out, "tenants_left_out", is_known, vgpu->tenant_count - most);
}

static void write_turns(FILE *out, const struct vg_turns_info *turns)
{
	write_real(out, "gpu_percent", turns->known, turns->recent);
	write_number(out, "gpu_ns", turns->known, turns->gpu_ns);
	write_number(out, "waited_ns", turns->known, turns->waited_ns);
	write_number(out, "turns", turns->known, turns->turns);
	write_text(out, "holder", turns->holder);
	write_text(out, "reason", turns->reason);
}

static void write_vgpu(FILE *out, const struct vg_vgpu_info *vgpu, bool is_public)
{
	bool is_movable = *vgpu->eviction_state;

	fputs("{\"name\":", out);
	text_write_json(out, vgpu->name);
	fprintf(out, ",\"device\":%d", vgpu->device);
	write_text(out, "owner", vgpu->owner);
	write_text(out, "group", vgpu->group);
	write_text(out, "class", vgpu->scheduling_class == VG_CLASS_LATENCY ? "latency" : "batch");
	write_text(out, "mode", vgpu->mode == VG_MODE_MPS ? "mps" : "time");
	write_number(out, "memory", true, vgpu->memory);
	write_number(out, "charged", !vgpu->damaged, vgpu->charged);
	write_number(out, "overhead", !vgpu->damaged, vgpu->overhead);
	write_number(out, "physical", vgpu->physical_known, vgpu->physical);
	write_number(out, "on_gpu", is_movable, vgpu->on_gpu);
	write_number(out, "in_host", is_movable, vgpu->in_host);
	write_number(out, "share", vgpu->share > 0, vgpu->share);
	write_turns(out, &vgpu->turns);
	write_number(out, "refusals", !vgpu->damaged, vgpu->refusals);
	write_number(out, "suspends", true, vgpu->suspends);
	write_number(out, "evictions", true, vgpu->evictions);
	write_flag(out, "ephemeral", vgpu->ephemeral);
	write_flag(out, "evictable", vgpu->evictable);
	write_flag(out, "suspended", vgpu->suspended);
	write_flag(out, "damaged", vgpu->damaged);
	write_text(out, "state", vgpu->eviction_state);
	write_real(out, "created", true, vgpu->created);
	write_tenants(out, vgpu, is_public);
	fputc('}', out);
}

void api_write_overview(FILE *out, const struct gathered *gathered, bool is_public)
{
	const struct vg_vgpu_list *vgpus = gathered->vgpus;
	size_t most = vgpus->count < API_VGPUS_MOST ? vgpus->count : API_VGPUS_MOST;

	fputs("{\"up\":true", out);
	write_flag(out, "public", is_public);
	write_real(out, "time", true, gathered->time);
	write_real(out, "daemon_started", true, gathered->daemon.started);
	fputs(",\"devices\":[", out);
	for (size_t i = 0; i < gathered->devices->count; i++) {
		fputs(i ? "," : "", out);
		write_device(out, &gathered->devices->devices[i]);
	}
	fputs("],\"vgpus\":[", out);
	for (size_t i = 0; i < most; i++) {
		fputs(i ? "," : "", out);
		write_vgpu(out, &vgpus->vgpus[i], is_public);
	}
	fprintf(out, "],\"vgpus_left_out\":%zu}\n", vgpus->count - most);
}

// ---- history -------------------------------------------------------------------------------------------

static const struct {
	const char *name;
	size_t offset;
	bool is_level; // a merged point has the highest of its samples; else it is a counter, and has the last one
} figures[] = {
	{"charged", offsetof(struct vg_history_sample, charged), true},
	{"physical", offsetof(struct vg_history_sample, physical), true},
	{"in_host", offsetof(struct vg_history_sample, in_host), true},
	{"gpu_ns", offsetof(struct vg_history_sample, gpu_ns), false},
	{"waited_ns", offsetof(struct vg_history_sample, waited_ns), false},
	{"refusals", offsetof(struct vg_history_sample, refusals), false},
};

enum { FIGURES = sizeof figures / sizeof *figures };

bool api_read_figures(const char *text, unsigned *ret_figures)
{
	unsigned wanted = 0;

	for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
		size_t length = strcspn(at, ","), figure = 0;
		while (figure < FIGURES &&
		       (strlen(figures[figure].name) != length || strncmp(figures[figure].name, at, length) != 0))
			figure++;
		if (figure == FIGURES)
			return false;
		wanted |= 1u << figure;
	}
	*ret_figures = text ? wanted : (1u << FIGURES) - 1;
	return true;
}

static uint64_t read_figure(const struct vg_history_sample *sample, size_t figure)
{
	return *(const uint64_t *)((const char *)sample + figures[figure].offset);
}

// Merges the samples from `first` to `last`. Returns VG_HISTORY_UNKNOWN if the figure is unknown in all of them.
static uint64_t merge(const struct samples_series *series, size_t figure, uint64_t first, uint64_t last)
{
	uint64_t merged = VG_HISTORY_UNKNOWN;

	for (uint64_t number = first < series->first ? series->first : first; number <= last; number++) {
		uint64_t value = read_figure(&series->at[number % SAMPLES_MOST], figure);
		bool is_better = merged == VG_HISTORY_UNKNOWN || !figures[figure].is_level || value > merged;
		if (value != VG_HISTORY_UNKNOWN && is_better)
			merged = value;
	}
	return merged;
}

struct range {
	uint64_t first, last, step; // points begin at multiples of `step`, so a later answer has the same points
};

static uint64_t end_of(const struct range *range, uint64_t number)
{
	uint64_t end = number - number % range->step + range->step - 1;

	return end < range->last ? end : range->last;
}

static void write_points(FILE *out, const struct samples_series *series, size_t figure, const struct range *range)
{
	const char *between = "";

	fprintf(out, ",\"%s\":[", figures[figure].name);
	for (uint64_t number = range->first; number <= range->last; number = end_of(range, number) + 1) {
		uint64_t value = merge(series, figure, number, end_of(range, number));
		fputs(between, out);
		if (value == VG_HISTORY_UNKNOWN)
			fputs("null", out);
		else
			fprintf(out, "%" PRIu64, value);
		between = ",";
	}
	fputc(']', out);
}

static bool has_figure(const struct samples_series *series, size_t figure, const struct range *range)
{
	return merge(series, figure, range->first, range->last) != VG_HISTORY_UNKNOWN;
}

static void write_series(FILE *out, const struct samples_series *series, unsigned wanted, const struct range *range)
{
	fputs("{\"vgpu\":", out);
	if (*series->vgpu)
		text_write_json(out, series->vgpu);
	else
		fputs("null", out);
	fprintf(out, ",\"device\":%d", series->device);
	for (size_t figure = 0; figure < FIGURES; figure++)
		if (wanted >> figure & 1 && has_figure(series, figure, range))
			write_points(out, series, figure, range);
	fputc('}', out);
}

static void write_times(FILE *out, const struct samples_series *series, const struct range *range)
{
	const char *between = "";

	for (uint64_t number = range->first; number <= range->last; number = end_of(range, number) + 1) {
		fprintf(out, "%s%.0f", between, series->at[end_of(range, number) % SAMPLES_MOST].time);
		between = ",";
	}
}

// Returns the series with most samples among those asked for: it has the times of all.
static const struct samples_series *find_longest(const struct samples *samples, const char *vgpu)
{
	const struct samples_series *longest = NULL;

	for (size_t i = 0; i < samples->count; i++) {
		const struct samples_series *series = samples->series[i];
		if ((!vgpu || strcmp(series->vgpu, vgpu) == 0) && (!longest || series->first < longest->first))
			longest = series;
	}
	return longest;
}

bool api_write_history(FILE *out, const struct samples *samples, const char *vgpu, unsigned wanted)
{
	const struct samples_series *longest = find_longest(samples, vgpu);
	struct range range = {.first = longest ? samples_first(samples, longest) : 1, .last = samples->last, .step = 1};
	size_t written = 0;

	if (vgpu && (!*vgpu || !longest)) // GPUs have no name
		return false;
	if (!vgpu)
		range.step = (range.last - range.first + API_POINTS) / API_POINTS;
	range.step = range.step ? range.step : 1;
	fprintf(out, "{\"every\":%" PRIu64 ",\"first\":%" PRIu64 ",\"last\":%" PRIu64 ",\"times\":[",
		samples->every * range.step, range.first, range.last);
	if (longest)
		write_times(out, longest, &range);
	fputs("],\"series\":[", out);
	for (size_t i = 0; i < samples->count; i++) {
		const struct samples_series *series = samples->series[i];
		if (vgpu && strcmp(series->vgpu, vgpu) != 0)
			continue;
		fputs(written++ ? "," : "", out);
		write_series(out, series, wanted, &range);
	}
	fprintf(out, "],\"left_out\":%zu}\n", samples->left_out);
	return true;
}

// ---- events --------------------------------------------------------------------------------------------

static void write_event(FILE *out, const struct vg_journal_event *event)
{
	fprintf(out, "{\"number\":%" PRIu64, event->number);
	write_real(out, "time", true, event->time);
	write_text(out, "kind", event->kind);
	write_text(out, "vgpu", event->vgpu);
	write_text(out, "owner", event->owner);
	write_text(out, "user", event->user);
	write_number(out, "pid", event->pid > 0, (uint64_t)event->pid);
	write_text(out, "command", event->command);
	write_text(out, "text", event->text);
	write_number(out, "bytes", event->bytes > 0, event->bytes);
	write_number(out, "count", true, event->count);
	fputc('}', out);
}

void api_write_events(FILE *out, const struct vg_journal_list *events, uint64_t after, uint64_t most)
{
	const char *between = "";
	size_t first = events->count > most ? events->count - most : 0;

	while (first < events->count && events->events[first].number <= after)
		first++;
	// The list may lack events only if it begins later than `after`: because of `most`, or since the journal and an
	// answer of the daemon are bounded.
	bool is_lost = after && first < events->count && events->events[first].number > after + 1 &&
		       (first > 0 ? events->events[first - 1].number > after : events->lost || events->count >= 512);
	fprintf(out, "{\"next\":%" PRIu64 ",\"lost\":%s,\"events\":[", events->next, is_lost ? "true" : "false");
	for (size_t i = first; i < events->count; i++) {
		fputs(between, out);
		write_event(out, &events->events[i]);
		between = ",";
	}
	fputs("]}\n", out);
}

// ---- turns ---------------------------------------------------------------------------------------------

static void write_part(FILE *out, const struct turns_part *part, bool is_public)
{
	fputs("{\"vgpu\":", out);
	text_write_json(out, part->vgpu);
	fprintf(out, ",\"device\":%d", part->device);
	write_text(out, "phase", part->phase);
	write_number(out, "turn", true, part->turn);
	write_number(out, "begin_ns", true, part->begin_ns);
	write_number(out, "end_ns", true, part->end_ns);
	write_number(out, "charged_ns", true, part->charged_ns);
	write_number(out, "launches", !is_public && part->launches != VG_HISTORY_UNKNOWN, part->launches);
	fputc('}', out);
}

void api_write_turns(FILE *out, const struct turns *turns, uint64_t after, bool is_public)
{
	bool is_known = after && after <= turns->last;
	bool is_lost = is_known ? after + 1 < turns->first || after <= turns->gap : after > 0;
	uint64_t first = is_known && after >= turns->first ? after + 1 : turns->first;
	uint64_t count = turns->last + 1 - first, most = count < API_PARTS_MOST ? count : API_PARTS_MOST;

	fputs("{\"up\":true", out);
	write_flag(out, "public", is_public);
	write_number(out, "since_ns", true, turns->since_ns);
	write_number(out, "now_ns", true, turns->now_ns);
	write_number(out, "next", true, first + most - 1);
	write_flag(out, "more", most < count);
	write_flag(out, "lost", is_lost);
	fputs(",\"phases\":[", out);
	for (uint64_t i = 0; i < most; i++) {
		fputs(i ? "," : "", out);
		write_part(out, &turns->at[(first + i) % TURNS_MOST], is_public);
	}
	fputs("]}\n", out);
}
