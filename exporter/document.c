#include "exporter/document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <virgate/status.h>

#include "exporter/family.h"
#include "exporter/metrics.h"
#include "exporter/views.h"
#include "charts_js.h"
#include "icon_svg.h"
#include "page_css.h"
#include "page_js.h"
#include "plot_js.h"
#include "timeline_js.h"
#include "turns_js.h"

static const double FRESH_SECONDS = 0.5;

// The last text that was made for one kind of reader, and when. One kind may see everything; the other sees only what
// `virgate ps` shows to other users.
struct kept {
	char *text;
	double made;
	unsigned status;
};

static const unsigned statuses[] = {200, 400, 401, 403, 404, 405, 406, 503};
static double counts[sizeof statuses / sizeof *statuses];

void document_count(unsigned status)
{
	for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
		counts[i] += statuses[i] == status;
}

static double read_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void print_own(FILE *out, double seconds)
{
	char code[16];

	family_begin(out, "virgate_exporter_responses_total", FAMILY_COUNTER, "Answers of the exporter, by status.");
	for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
		snprintf(code, sizeof code, "%u", statuses[i]);
		family_sample(out, "virgate_exporter_responses_total", (const struct label[]){{"code", code}, {0}},
			      counts[i]);
	}
	family_begin(out, "virgate_exporter_collect_seconds", FAMILY_GAUGE,
		     "How long the daemon took to answer the requests for this text.");
	family_sample(out, "virgate_exporter_collect_seconds", NULL, seconds);
	family_begin(out, "virgate_exporter_cpu_seconds_total", FAMILY_COUNTER, "Processor time of the exporter.");
	family_sample(out, "virgate_exporter_cpu_seconds_total", NULL, read_clock(CLOCK_PROCESS_CPUTIME_ID));
}

// Returns `text` followed by the metrics of the exporter itself. Consumes `text`.
static char *add_own(char *text, double seconds)
{
	char *whole = NULL;
	size_t size;
	FILE *out = open_memstream(&whole, &size);

	if (out) {
		fputs(text, out);
		print_own(out, seconds);
		if (fclose(out) != 0) {
			free(whole);
			whole = NULL;
		}
	}
	free(text);
	return whole;
}

// Writes a message when the daemon stops answering, and when it answers again, but not for each request.
static void report_daemon(bool is_up)
{
	static bool was_down;

	if (is_up == !was_down)
		return;
	was_down = !is_up;
	fprintf(stderr, "virgate-exporter: %s\n", is_up ? "the daemon answers again" : vg_last_error()->text);
}

static void make_metrics(const struct document_source *source, bool is_public, struct kept *kept)
{
	const struct metrics_options options = {.is_public = is_public, .lists_ephemeral = source->lists_ephemeral};
	double begun = read_clock(CLOCK_MONOTONIC);
	char *text;

	bool is_up = metrics_collect(source->node, &options, &text) == VG_OK;
	report_daemon(is_up);
	if (!is_up)
		text = metrics_without_daemon();
	double seconds = read_clock(CLOCK_MONOTONIC) - begun;
	free(kept->text);
	kept->text = text ? add_own(text, seconds) : NULL;
	kept->made = read_clock(CLOCK_MONOTONIC);
}

static unsigned find_metrics(const struct document_source *source, const struct document_request *request,
			     struct document *ret_document)
{
	static struct kept all[2];
	struct kept *kept = &all[request->is_public];

	if (!kept->text || read_clock(CLOCK_MONOTONIC) - kept->made > FRESH_SECONDS)
		make_metrics(source, request->is_public, kept);
	*ret_document = (struct document){.type = "text/plain; version=0.0.4; charset=utf-8",
					  .text = kept->text ? kept->text : "no memory for the metrics\n"};
	return kept->text ? 200 : 503;
}

// The files that a browser loads besides the page, compressed when the exporter was built. Without dygraphs, plot_js is
// empty, and the page shows tables only.
static const struct {
	const char *path, *type;
	const unsigned char *text;
	size_t length;
} assets[] = {
#define ASSET(path, type, name)                   \
	{                                         \
		path, type, name, sizeof name - 1 \
	}
	ASSET("/page.css", "text/css; charset=utf-8", page_css),
	ASSET("/page.js", "text/javascript; charset=utf-8", page_js),
	ASSET("/charts.js", "text/javascript; charset=utf-8", charts_js),
	ASSET("/timeline.js", "text/javascript; charset=utf-8", timeline_js),
	ASSET("/turns.js", "text/javascript; charset=utf-8", turns_js),
	ASSET("/plot.js", "text/javascript; charset=utf-8", plot_js),
	ASSET("/icon.svg", "image/svg+xml", icon_svg),
#undef ASSET
};

static const struct {
	const char *path;
	unsigned (*find)(const struct document_source *source, const struct document_request *request,
			 struct document *ret_document);
} documents[] = {
	{"/", views_page},
	{"/full", views_full},
	{"/metrics", find_metrics},
	{"/api/overview", views_overview},
	{"/api/history", views_history},
	{"/api/events", views_events},
	{"/api/turns", views_turns},
};

static unsigned find_asset(const struct document_request *request, struct document *ret_document)
{
	size_t i = 0;

	while (i < sizeof assets / sizeof *assets && strcmp(request->path, assets[i].path) != 0)
		i++;
	*ret_document = (struct document){.type = "text/plain; charset=utf-8"};
	if (i == sizeof assets / sizeof *assets) {
		ret_document->text = "not found: see / and /metrics\n";
		return 404;
	}
	if (!request->accepts_gzip) {
		ret_document->text = "this file is only there compressed: the request must accept gzip\n";
		return 406;
	}
	*ret_document = (struct document){.type = assets[i].type,
					  .text = (const char *)assets[i].text,
					  .length = assets[i].length,
					  .is_static = true,
					  .is_gzip = true};
	return 200;
}

unsigned document_find(const struct document_source *source, const struct document_request *request,
		       struct document *ret_document)
{
	size_t i = 0;

	while (i < sizeof documents / sizeof *documents && strcmp(request->path, documents[i].path) != 0)
		i++;
	unsigned status = i < sizeof documents / sizeof *documents ? documents[i].find(source, request, ret_document)
								   : find_asset(request, ret_document);
	if (!ret_document->is_gzip)
		ret_document->length = strlen(ret_document->text);
	return status;
}
