// Measures how much time the object model adds to a driver call. A figure is the median over rounds of four short
// turns: the library, the driver, the driver, the library. So a slow machine slows both sides, and a drift cancels out.
// Rounds continue until the confidence interval of the median is small enough, or the time for the case is over.
//   bench_core [--json FILE]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../figures.h"
#include "cases.h"

static const struct bench_family *const families[] = {&bench_context, &bench_device, &bench_event, &bench_graph,
						      &bench_launch,  &bench_memory, &bench_stream};

enum { WARM = 10, LEAST_ROUNDS = 256, MOST_ROUNDS = 16384 };

// `precision`: the wanted half width of the 95 % interval. `budgets`: the time for a case with a limit, and for one
// without. All in ns.
static const double precision = 3, budgets[2] = {1.2e9, 0.25e9};

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

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

// Returns the ns that one call takes.
static double time_turn(const struct bench_case *one, void (*side)(unsigned calls))
{
	double begin = now();

	side(one->calls);
	double end = now();
	if (one->finish_turn)
		one->finish_turn();
	return (end - begin) / one->calls;
}

// Runs each round at another address of the stack, so that no figure depends on the cost of particular addresses.
__attribute__((noinline)) static void run_round(const struct bench_case *one, unsigned number, double *ret_added,
						double *ret_raw)
{
	volatile char *shift = __builtin_alloca(16 + number * 272 % 4096);

	shift[0] = 0;
	double library = time_turn(one, one->library), raw = time_turn(one, one->raw);
	raw += time_turn(one, one->raw);
	library += time_turn(one, one->library);
	*ret_added = (library - raw) / 2;
	*ret_raw = raw / 2;
}

static void measure(struct bench_report *report, const struct bench_case *one)
{
	static double added[MOST_ROUNDS], raw_times[MOST_ROUNDS];
	struct bench_figure figure = {
		.unit = "ns added", .limit = one->limit, .rule = one->limit > 0 ? BENCH_AT_MOST : BENCH_NO_LIMIT};
	double begin = now(), budget = budgets[one->limit <= 0];
	struct bench_figure beside;
	size_t rounds = 0;

	for (unsigned i = 0; i < WARM; i++)
		run_round(one, i, &added[0], &raw_times[0]);
	for (size_t wanted = LEAST_ROUNDS; wanted <= MOST_ROUNDS; wanted *= 2) {
		for (; rounds < wanted && (now() - begin < budget || rounds < LEAST_ROUNDS); rounds++)
			run_round(one, (unsigned)rounds, &added[rounds], &raw_times[rounds]);
		bench_figure_set(&figure, added, rounds);
		if (figure.high - figure.low <= 2 * precision || rounds < wanted)
			break;
	}
	bench_figure_set(&beside, raw_times, rounds);
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
