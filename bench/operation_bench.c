#include "operation_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const struct element elements[VG_F64 + 1] = {{"f32", 4}, {"tf32", 4}, {"f16", 2}, {"bf16", 2}, {"f64", 8}};

void check(enum vg_status status)
{
	if (status == VG_OK)
		return;
	fprintf(stderr, "bench_operation: %s: %s\n", vg_last_error()->function, vg_last_error()->text);
	exit(1);
}

double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

void *make_numbers(enum vg_element_type type, size_t bytes)
{
	unsigned char *numbers = malloc(bytes);
	uint64_t word = 0x9e3779b97f4a7c15;
	uint32_t bits;
	uint16_t half;

	if (!numbers) {
		fprintf(stderr, "bench_operation: no memory for %zu bytes\n", bytes);
		exit(1);
	}
	for (size_t i = 0; i < bytes / elements[type].bytes; i++) {
		word ^= word << 13;
		word ^= word >> 7;
		word ^= word << 17;
		double value = (double)(int64_t)word * 0x1p-63;
		float f = (float)value;
		memcpy(&bits, &f, 4);
		half = (uint16_t)(bits >> 16);
		if (type == VG_F16) // clears and sets exponent bits, so that the magnitude is from 1 to 2
			half = (uint16_t)(0x3c00 | (bits >> 13 & 1023) | bits >> 31 << 15);
		memcpy(numbers + elements[type].bytes * i,
		       type == VG_F64		   ? (void *)&value
		       : elements[type].bytes == 2 ? (void *)&half
						   : (void *)&f,
		       elements[type].bytes);
	}
	return numbers;
}

void report_figure(struct bench_report *report, const char *what, const char *of, const char *unit, double *values,
		   size_t count, double limit)
{
	struct bench_figure figure = {.limit = limit, .rule = limit > 0 ? BENCH_AT_LEAST : BENCH_NO_LIMIT};

	bench_figure_set(&figure, values, count);
	snprintf(figure.unit, sizeof figure.unit, "%s", unit);
	snprintf(figure.what, sizeof figure.what, "%s_%s", what, of);
	bench_report_add(report, &figure);
}
