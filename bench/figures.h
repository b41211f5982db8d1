// Makes the report of a benchmark: its figures, their limits and the verdict. Prints it as a table and writes it as
// JSON. One thread.
#pragma once

#include <stddef.h>

struct bench_report;

enum bench_rule { BENCH_NO_LIMIT, BENCH_AT_MOST, BENCH_AT_LEAST };

struct bench_figure {
	char what[64], unit[32];
	double value, low, high; // the median and its 95 % confidence interval
	double baseline;	 // the value to compare with; 0: no baseline
	double limit;
	enum bench_rule rule;
	size_t repetitions;
};

// Returns NULL if memory runs out.
struct bench_report *bench_report_create(void);

// Sorts the values, and sets the median and its interval from their order. This assumes nothing about the distribution
// of the values: a few interrupted measurements do not matter.
void bench_figure_set(struct bench_figure *figure, double *values, size_t count);

// Adds a copy of the figure and prints its row. Ends the program if the report is full.
void bench_report_add(struct bench_report *report, const struct bench_figure *figure);

// Prints the verdict, and writes JSON if a path is given: {"schema": 1, "rows": […]}. Frees the report. Returns the
// program's exit status: 0 only if at least one figure has a limit, every limit is kept, and the JSON is written.
int bench_report_finish(struct bench_report *report, const char *json_path);
