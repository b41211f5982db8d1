// What the parts of bench_compute share.
#pragma once
#include "figures.h"
#include "vram_rate.h"

enum { KINDS = 3 };
extern const double kind_ms[KINDS]; // kernels of these lengths

struct compute_bench {
	struct bench_report *report;
	struct vg_device *device;
	struct vg_context *context;
	struct vg_kernel *spin_kernel, *empty_kernel;
	int simulated;
	unsigned grid, block, rounds[KINDS]; // of each kind
	double window_s;
};
extern struct compute_bench bench;

double now_s(void);
void add_figure(const char *what, const char *unit, double *values, size_t count, double beside, enum bench_rule rule,
		double limit);
// Milliseconds that a launch of so many rounds takes, straight from the driver.
double time_of(unsigned count, unsigned launches);
struct vg_compute *open_compute(enum vg_compute_placement placement);

// One unit alone, with each kind of kernel: what the others are compared with.
void measure_alone(void);
// Three units with 40, 30 and 30 % under full load. On the simulated device the host's processors are shared, by
// whoever else uses them: nothing is limited there.
void measure_shares(const char *name, const int kinds[3], enum vg_compute_placement placement, int windows,
		    int limited);
