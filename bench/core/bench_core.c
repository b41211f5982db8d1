// What the object model adds to a driver call. A figure is the median, over many pairs of short turns, of the
// difference between the two turns of a pair, so that what slows the machine down slows both.
//   bench_core [--json FILE]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../figures.h"
#include "cases.h"

static const struct bench_family *const families[] = {&bench_context, &bench_device, &bench_event, &bench_graph,
						      &bench_launch,  &bench_memory, &bench_stream};

enum { PAIRS = 400, WARM = 20 };

void bench_give_up(const char *call, const char *why)
{
	fprintf(stderr, "bench_core: %s: %s\n", call, why);
	exit(1);
}

void bench_begin(struct vg_context **ret_context, struct vg_stream **ret_stream)
{
	struct vg_device *device;

	LIBRARY(vg_device_get(0, &device));
	LIBRARY(vg_context_primary(device, ret_context));
	LIBRARY(vg_context_set_current(*ret_context, NULL));
	LIBRARY(vg_stream_create(*ret_context, NULL, ret_stream));
}

void bench_end(struct vg_context *context, struct vg_stream *stream)
{
	LIBRARY(vg_context_restore(NULL));
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}

// ns a call.
static double turn(const struct bench_case *one, void (*side)(unsigned calls))
{
	struct timespec begin, end;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	side(one->calls);
	clock_gettime(CLOCK_MONOTONIC, &end);
	if (one->settle)
		one->settle();
	return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / one->calls;
}

static void measure(struct bench_report *report, const struct bench_case *one)
{
	static double added[PAIRS], raw_times[PAIRS];
	struct bench_figure figure = {
		.unit = "ns added", .limit = one->limit, .rule = one->limit > 0 ? BENCH_AT_MOST : BENCH_NO_LIMIT};
	struct bench_figure beside;

	for (int pair = -WARM; pair < PAIRS; pair++) {
		double library = 0, direct = 0;

		for (int i = 0; i < 2; i++) // each side goes first as often
			if ((pair + i) & 1)
				library = turn(one, one->library);
			else
				direct = turn(one, one->raw);
		if (pair < 0)
			continue;
		added[pair] = library - direct;
		raw_times[pair] = direct;
	}
	bench_figure_set(&figure, added, PAIRS);
	bench_figure_set(&beside, raw_times, PAIRS);
	figure.baseline = beside.value;
	snprintf(figure.what, sizeof figure.what, "%s", one->id);
	bench_report_add(report, &figure);
}

int main(int argc, char **argv)
{
	struct bench_report *report = bench_report_create();
	struct vg_device *device;

	if (argc != 1 && !(argc == 3 && strcmp(argv[1], "--json") == 0)) {
		fprintf(stderr, "usage: bench_core [--json FILE]\n");
		return 2;
	}
	if (!report)
		bench_give_up("mmap", "no memory");
	LIBRARY(vg_device_get(0, &device));
	raw_open();
	printf("on %s; \"beside\" is the driver's own time, in ns a call\n", vg_device_name(device));
	for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
		families[i]->open();
		for (size_t k = 0; k < families[i]->count; k++)
			measure(report, &families[i]->cases[k]);
		families[i]->close();
	}
	return bench_report_finish(report, argc == 3 ? argv[2] : NULL);
}
