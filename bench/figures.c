#include "figures.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { FIGURES = 256 };

struct bench_report {
	size_t count;
	struct bench_figure figures[FIGURES];
};

struct bench_report *bench_report_create(void)
{
	return calloc(1, sizeof(struct bench_report));
}

static int compare_values(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a < b ? -1 : a > b;
}

void bench_figure_set(struct bench_figure *figure, double *values, size_t count)
{
	// The number of values below the median is binomial (count, 1/2). The interval is 1.96 standard deviations wide
	// on each side.
	double reach = 0.98 * sqrt((double)count);
	double first = floor((double)(count - 1) / 2 - reach), last = ceil((double)(count - 1) / 2 + reach);

	qsort(values, count, sizeof *values, compare_values);
	figure->value = (values[(count - 1) / 2] + values[count / 2]) / 2;
	figure->low = values[first < 0 ? 0 : (size_t)first];
	figure->high = values[last > (double)(count - 1) ? count - 1 : (size_t)last];
	figure->repetitions = count;
}

static bool meets_limit(const struct bench_figure *figure)
{
	switch (figure->rule) {
	case BENCH_AT_MOST:
		return figure->value <= figure->limit;
	case BENCH_AT_LEAST:
		return figure->value >= figure->limit;
	default:
		return true;
	}
}

static const char *verdict(const struct bench_figure *figure)
{
	if (figure->rule == BENCH_NO_LIMIT)
		return "";
	return meets_limit(figure) ? "kept" : "MISSED";
}

void bench_report_add(struct bench_report *report, const struct bench_figure *figure)
{
	char limit[48] = "", baseline[32] = "";

	if (report->count == FIGURES) {
		fprintf(stderr, "bench: more than %d figures\n", FIGURES);
		exit(1);
	}
	if (report->count == 0)
		printf("%-48s %8s %-24s %8s  %18s  %-12s  %s\n", "measurement", "median", "unit", "beside",
		       "95 % interval", "limit", "verdict");
	report->figures[report->count++] = *figure;
	if (figure->rule != BENCH_NO_LIMIT)
		snprintf(limit, sizeof limit, "%s %g", figure->rule == BENCH_AT_MOST ? "at most" : "at least",
			 figure->limit);
	if (figure->baseline != 0)
		snprintf(baseline, sizeof baseline, "%.1f", figure->baseline);
	printf("%-48s %8.1f %-24s %8s  %7.1f .. %7.1f  %-12s  %s\n", figure->what, figure->value, figure->unit,
	       baseline, figure->low, figure->high, limit, verdict(figure));
	fflush(stdout);
}

// Writes the figures as JSON. The texts need no escapes: they all come from the benchmarks in this directory.
static int write_json(const struct bench_report *report, const char *path)
{
	FILE *file = fopen(path, "w");
	bool bad;

	if (!file)
		return -1;
	fprintf(file, "{\"schema\": 1, \"rows\": [");
	for (size_t i = 0; i < report->count; i++) {
		const struct bench_figure *figure = &report->figures[i];

		fprintf(file,
			"%s\n {\"what\": \"%s\", \"unit\": \"%s\", \"median\": %.3f, \"low\": %.3f, \"high\": %.3f, ",
			i ? "," : "", figure->what, figure->unit, figure->value, figure->low, figure->high);
		if (figure->baseline != 0)
			fprintf(file, "\"beside\": %.3f, ", figure->baseline);
		if (figure->rule == BENCH_NO_LIMIT)
			fprintf(file, "\"limit\": null, ");
		else
			fprintf(file, "\"limit\": %g, \"rule\": \"%s\", ", figure->limit,
				figure->rule == BENCH_AT_MOST ? "at most" : "at least");
		fprintf(file, "\"repetitions\": %zu, \"met\": %s}", figure->repetitions,
			meets_limit(figure) ? "true" : "false");
	}
	fprintf(file, "\n]}\n");
	bad = ferror(file) != 0;
	return fclose(file) != 0 || bad ? -1 : 0;
}

int bench_report_finish(struct bench_report *report, const char *json_path)
{
	size_t limits = 0, missed = 0;
	int status;

	for (size_t i = 0; i < report->count; i++) {
		limits += report->figures[i].rule != BENCH_NO_LIMIT;
		missed += !meets_limit(&report->figures[i]);
	}
	if (missed)
		printf("%zu of %zu limits MISSED\n", missed, limits);
	else
		printf(limits ? "every limit is kept: %zu of %zu\n" : "nothing with a limit was measured\n", limits,
		       limits);
	status = missed || limits == 0;
	if (json_path && write_json(report, json_path) != 0) {
		perror(json_path);
		status = 1;
	}
	free(report);
	return status;
}
