#include "vram_rate.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { REPETITIONS = 41, WARM = 3 };

void check(enum vg_status status)
{
	if (status == VG_OK)
		return;
	fprintf(stderr, "bench: %s: %s\n", vg_last_error()->function, vg_last_error()->text);
	exit(1);
}

uint64_t *make_noise(size_t size)
{
	uint64_t *noise = malloc(size), word = 0x9e3779b97f4a7c15;

	if (!noise) {
		fprintf(stderr, "bench: no memory for %zu bytes\n", size);
		exit(1);
	}
	for (size_t i = 0; i < size / sizeof *noise; i++) {
		word ^= word << 13;
		word ^= word >> 7;
		word ^= word << 17;
		noise[i] = word;
	}
	return noise;
}

double bench_rate(struct bench_report *report, const char *what, const struct rate_case *one, void (*call)(void),
		  void (*after)(void), double beside, double limit)
{
	struct bench_figure figure = {.unit = "GB/s",
				      .baseline = beside,
				      .limit = limit,
				      .rule = limit > 0 ? BENCH_AT_LEAST : BENCH_NO_LIMIT};
	struct timespec begin, end;
	double rates[REPETITIONS];

	for (int i = -WARM; i < REPETITIONS; i++) {
		clock_gettime(CLOCK_MONOTONIC, &begin);
		call();
		clock_gettime(CLOCK_MONOTONIC, &end);
		if (after)
			after();
		if (i >= 0)
			rates[i] = (double)one->bytes /
				   ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec));
	}
	bench_figure_set(&figure, rates, REPETITIONS);
	snprintf(figure.what, sizeof figure.what, "%s_%s", what, one->name);
	bench_report_add(report, &figure);
	return figure.value;
}
