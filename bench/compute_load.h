// Declares what the source files of bench_compute share. One thread.
#pragma once
#include "figures.h"
#include "vram_rate.h"

enum { KINDS = 3 };
extern const double kind_ms[KINDS]; // the duration of each kind of kernel

struct compute_bench {
	struct bench_report *report;
	struct vg_device *device;
	struct vg_context *context;
	struct vg_kernel *spin_kernel, *empty_kernel;
	int simulated;
	unsigned grid, block, rounds[KINDS]; // `rounds` has the number of rounds for each kind of kernel
	double window_s;
};
extern struct compute_bench bench;

double now_s(void);
void add_figure(const char *what, const char *unit, double *values, size_t count, double beside, enum bench_rule rule,
		double limit);
// Returns the milliseconds that a launch of `count` rounds takes without a compute unit, as the mean of `launches`.
double time_of(unsigned count, unsigned launches);
struct vg_compute *open_compute(enum vg_compute_placement placement);

// Measures one unit alone with each kind of kernel, as the baseline of measure_shares.
void measure_alone(void);
// Measures three units with 40, 30 and 30 % under full load. No figure of the simulated device has a limit, since other
// processes use the host's processors too.
void measure_shares(const char *name, const int kinds[3], enum vg_compute_placement placement, int windows,
		    int limited);
