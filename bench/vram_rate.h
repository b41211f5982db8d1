// What the parts of bench_vram share.
#pragma once
#include "figures.h"

#include <virgate/virgate.h>

#define MIB ((size_t)1 << 20)

struct rate_case {
	const char *name;
	size_t bytes;
	double limit; // GB/s at least; 0: only reported
};

// Ends the program unless the status is VG_OK.
void check(enum vg_status status);
// Likewise: words that differ, for the caller to free. Equal ones need less power, and may let a GPU run faster than it
// does with real contents.
uint64_t *make_noise(size_t size);
// Reports how many bytes a second `call` deals with, and returns it in GB/s: the median. `after`, unless NULL, undoes
// it and is not measured.
double bench_rate(struct bench_report *report, const char *what, const struct rate_case *one, void (*call)(void),
		  void (*after)(void), double beside, double limit);
