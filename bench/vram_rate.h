// Declares what the source files of bench_vram, bench_space and bench_compute share. One thread.
#pragma once
#include "figures.h"

#include <virgate/virgate.h>

#define MIB ((size_t)1 << 20)

struct rate_case {
	const char *name;
	size_t bytes;
	double limit; // the least GB/s; 0: no limit
};

// Ends the program unless the status is VG_OK.
void check(enum vg_status status);
// Returns `size` bytes of pseudorandom words; the caller frees them. Ends the program if memory runs out. Equal words
// would need less power, so that a GPU might run faster than with real contents.
uint64_t *make_noise(size_t size);
// Reports how many bytes a second `call` processes, and returns the median in GB/s. `after`, if not NULL, undoes the
// call and is not measured.
double bench_rate(struct bench_report *report, const char *what, const struct rate_case *one, void (*call)(void),
		  void (*after)(void), double beside, double limit);
