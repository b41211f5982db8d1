// Declares what the source files of bench_operation share. One thread.
#pragma once
#include "figures.h"
#include "operation/operation.h"

#include <virgate/virgate.h>

#define MIB ((size_t)1 << 20)
#define SECONDS 0.8 // the most time for a measurement, after its first LEAST_TURNS turns

enum { TURNS = 61, LEAST_TURNS = 11, WARM = 2 };

// The name and the size of an element type.
struct element {
	const char *name;
	size_t bytes;
};
extern const struct element elements[VG_F64 + 1];

// The unit in which rates are printed, and the factor that converts operations per second to it: "TFLOP/s" and 1e-12,
// or on the simulated GPU "GFLOP/s" and 1e-9.
extern const char *rate_unit;
extern double rate_scale;

// Ends the program unless the status is VG_OK.
void check(enum vg_status status);
double now(void); // seconds
// Returns `bytes` of pseudorandom numbers from -2 to 2 in the type; the caller frees them. Equal numbers would need
// less power, so that the GPU would run faster than with real data.
void *make_numbers(enum vg_element_type type, size_t bytes);
void report_figure(struct bench_report *report, const char *what, const char *of, const char *unit, double *values,
		   size_t count, double limit);

// Compares multiplications of square matrices with `side` rows, in alternating turns on the same memory: by cuBLASLt
// called directly, by a plan on a stream, and by a virtual GPU. `limit` is the least rate of the plan and of the
// virtual GPU, in percent of the direct rate; 0: no limit. Without cuBLASLt, compares the virtual GPU with the plan.
void compare_multiply(struct bench_report *report, struct vg_device *device, enum vg_element_type type, uint64_t side,
		      double limit);
