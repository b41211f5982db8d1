// Measures compute units under full load, window by window.
#include "compute_load.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { UNITS = 3, BACKLOG = 256, WINDOWS_MOST = 8 };
static const double shares[UNITS] = {0.4, 0.3, 0.3};
static double solo_rate[KINDS];

static void sleep_s(double seconds)
{
	nanosleep(&(struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)}, NULL);
}

struct load {
	struct vg_compute_unit *unit;
	pthread_t thread;
	atomic_bool stop;
	int kind;
	struct vg_compute_unit_info before;
	uint64_t completed;
	double sm_seconds;
};

// Keeps the unit's queue full.
static void *submit(void *argument)
{
	struct load *load = argument;
	vg_address nowhere = 0;
	struct vg_argument arguments[] = {VG_ARGUMENT(bench.rounds[load->kind]), VG_ARGUMENT(nowhere)};
	struct vg_compute_unit_info info;
	struct vg_work work = {.size = sizeof work,
			       .kernel = "bench_spin",
			       .config = {.grid = {bench.grid}, .block = {bench.block}},
			       .arguments = arguments,
			       .argument_count = 2};

	while (!atomic_load(&load->stop)) {
		check(vg_compute_unit_info(load->unit, &info));
		for (unsigned i = info.queue_length; i < BACKLOG; i++)
			check(vg_compute_unit_execute(load->unit, &work, NULL));
		sleep_s(kind_ms[load->kind] * BACKLOG / 8e3);
	}
	return NULL;
}

static void start(struct vg_compute *compute, struct load *loads, size_t count, const double *parts, const int *kinds)
{
	for (size_t i = 0; i < count; i++) {
		struct vg_compute_unit_options options = {.size = sizeof options, .share = parts[i], .streams = 1};
		loads[i] = (struct load){.kind = kinds[i]};
		check(vg_compute_unit_create(compute, &options, &loads[i].unit));
		if (pthread_create(&loads[i].thread, NULL, submit, &loads[i]))
			exit(1);
	}
	sleep_s(bench.simulated ? 0.2 : 0.4);
}

static void stop(struct load *loads, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		atomic_store(&loads[i].stop, true);
		pthread_join(loads[i].thread, NULL);
	}
	for (size_t i = 0; i < count; i++)
		vg_compute_unit_destroy(loads[i].unit);
}

// Measures what each unit does in one window. Returns the window's length in seconds.
static double measure(struct load *loads, size_t count)
{
	struct vg_compute_unit_info info;

	for (size_t i = 0; i < count; i++)
		check(vg_compute_unit_info(loads[i].unit, &loads[i].before));
	double begin = now_s();
	sleep_s(bench.window_s);
	double wall = now_s() - begin;
	for (size_t i = 0; i < count; i++) {
		check(vg_compute_unit_info(loads[i].unit, &info));
		loads[i].completed = info.completed - loads[i].before.completed;
		loads[i].sm_seconds = info.sm_seconds - loads[i].before.sm_seconds;
	}
	return wall;
}

void measure_alone(void)
{
	struct load load;
	char what[64];

	for (int kind = 0; kind < KINDS; kind++) {
		struct vg_compute *compute = open_compute(VG_PLACEMENT_TIME);
		start(compute, &load, 1, (double[]){1}, &kind);
		double wall = measure(&load, 1);
		solo_rate[kind] = (double)load.completed / wall;
		stop(&load, 1);
		vg_compute_destroy(compute);
		double direct = 1e3 / time_of(bench.rounds[kind], (unsigned)(bench.window_s * 250 / kind_ms[kind]) + 1);
		snprintf(what, sizeof what, "alone_%.1fms", kind_ms[kind]);
		add_figure(what, "kernels/s", &solo_rate[kind], 1, direct, BENCH_NO_LIMIT, 0);
	}
}

// ---- compute shares -------------------------------------------------------------------------------

static double worst_error(const double *parts, double sum)
{
	double worst = 0;

	for (int i = 0; i < UNITS; i++) {
		double error = 100 * (parts[i] / sum - shares[i]);
		worst = error > worst ? error : -error > worst ? -error : worst;
	}
	return worst;
}

static void print_window(const char *name, const double *sm_seconds, double sum, const double *work, double done)
{
	printf("  %s: SM-seconds", name);
	for (int i = 0; i < UNITS; i++)
		printf(" %.2f", 100 * sm_seconds[i] / sum);
	printf(" %%, kernels done");
	for (int i = 0; i < UNITS; i++)
		printf(" %.2f", 100 * work[i] / done);
	printf(" %%, throughput %.2f %% of one alone\n", 100 * done);
}

void measure_shares(const char *name, const int kinds[UNITS], enum vg_compute_placement placement, int windows,
		    int limited)
{
	double of_time[WINDOWS_MOST], of_work[WINDOWS_MOST], throughput[WINDOWS_MOST], worst = 0, worst_work = 0;
	struct vg_compute *compute = open_compute(placement);
	struct load loads[UNITS];
	struct vg_compute_info info;
	char what[64];

	limited = limited && !bench.simulated;
	start(compute, loads, UNITS, shares, kinds);
	for (int w = 0; w < windows; w++) {
		double sm_seconds[UNITS], work[UNITS], sum = 0, done = 0, wall = measure(loads, UNITS);
		for (int i = 0; i < UNITS; i++) {
			sum += sm_seconds[i] = loads[i].sm_seconds;
			done += work[i] = (double)loads[i].completed / wall / solo_rate[kinds[i]];
		}
		of_time[w] = worst_error(sm_seconds, sum);
		of_work[w] = worst_error(work, done);
		throughput[w] = 100 * done;
		worst = of_time[w] > worst ? of_time[w] : worst;
		worst_work = of_work[w] > worst_work ? of_work[w] : worst_work;
		print_window(name, sm_seconds, sum, work, done);
	}
	check(vg_compute_info(compute, &info));
	printf("  %s: %llu quanta of %.2f ms, the longest one %.2f ms\n", name, (unsigned long long)info.quanta,
	       (double)info.busy_ns / 1e6 / (double)(info.quanta ? info.quanta : 1), (double)info.longest_ns / 1e6);
	stop(loads, UNITS);
	vg_compute_destroy(compute);
	// The limit is on the worst window: a compute share has to be kept in each window, not only on average.
	snprintf(what, sizeof what, "share_error_%s", name);
	add_figure(what, "points, worst window", &worst, 1, 0, limited ? BENCH_AT_MOST : BENCH_NO_LIMIT, 1);
	snprintf(what, sizeof what, "share_error_by_kernels_%s", name);
	add_figure(what, "points, worst window", &worst_work, 1, 0, BENCH_NO_LIMIT, 0);
	snprintf(what, sizeof what, "throughput_%s", name);
	add_figure(what, "% of one alone", throughput, (size_t)windows, 0, limited ? BENCH_AT_LEAST : BENCH_NO_LIMIT,
		   97);
}
