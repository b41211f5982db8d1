// What a benchmark measured: figures, the limits they have to keep, and the verdict, as a table and
// as JSON. One thread.
#pragma once

#include <stddef.h>

struct bench_report;

enum bench_rule { BENCH_NO_LIMIT, BENCH_AT_MOST, BENCH_AT_LEAST };

struct bench_figure {
	char what[64], unit[32];
	double value, low, high; // the median, and the 95 % confidence interval of it
	double baseline;	 // what it comes on top of, 0: nothing
	double limit;
	enum bench_rule rule;
	size_t repetitions;
};

// NULL if there is no memory for it.
struct bench_report *bench_report_create(void);

// The median of the values, which are sorted by this, and its interval from the order of the values: no
// assumption about their distribution, so that a few that were interrupted do not matter.
void bench_figure_set(struct bench_figure *figure, double *values, size_t count);

// Keeps a copy and prints its row. The program ends if there is no room: a figure is never dropped.
void bench_report_add(struct bench_report *report, const struct bench_figure *figure);

// Prints the verdict, and writes JSON if a path is given: {"schema": 1, "rows": […]}. Frees the report.
// The program's exit status: 0 only if something was measured, every limit is kept, and the JSON written.
int bench_report_finish(struct bench_report *report, const char *json_path);
