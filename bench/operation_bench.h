// What the parts of bench_operation share.
#pragma once
#include "figures.h"
#include "operation/operation.h"

#include <virgate/virgate.h>

#define MIB ((size_t)1 << 20)
#define SECONDS 0.8 // a measurement at most, but for its least turns

enum { TURNS = 61, LEAST_TURNS = 11, WARM = 2 };

// How a type is called, and its bytes.
struct element {
	const char *name;
	size_t bytes;
};
extern const struct element elements[VG_F64 + 1];

// Of floating-point operations a second: "TFLOP/s", or on the simulated GPU "GFLOP/s", and what one is in them.
extern const char *rate_unit;
extern double rate_scale;

// Ends the program unless the status is VG_OK.
void check(enum vg_status status);
double now(void); // seconds
// `bytes` of numbers from -2 to 2 in the type, for the caller to free: equal ones would need less power, and let the
// GPU run faster than it does.
void *make_numbers(enum vg_element_type type, size_t bytes);
void report_figure(struct bench_report *report, const char *what, const char *of, const char *unit, double *values,
		   size_t count, double limit);

// Multiplications of `side` cubed: by cuBLASLt called directly, by a plan on a stream, and by a virtual GPU, in turns,
// all on the same memory. `limit`: how many per cent of the direct rate the others have to reach; 0: none. Where there
// is no cuBLASLt, the virtual GPU beside the plan.
void compare_multiply(struct bench_report *report, struct vg_device *device, enum vg_element_type type, uint64_t side,
		      double limit);
