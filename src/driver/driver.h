// The CUDA driver as a table of typed functions, loaded once per process. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "abi/cuda_abi.h"

struct vg_driver {
#define ENTRY(abi, api, version, stream, family, need) VG_PFN(api, version, stream) abi;
#include "abi/entries.def"
	// What the driver lacks and the table fills with a function that answers
	// CUDA_ERROR_NOT_SUPPORTED.
	bool missing[VG_ENTRY_COUNT];
	const char *path; // as it was asked of the dynamic linker
	bool simulated;
};

enum {
	VG_DRIVER_ABSENT = 1,	 // no such library
	VG_DRIVER_UNSUITED = 2, // it lacks a required entry
};

// Loads on the first call: VIRGATE_DRIVER, or the simulated driver where VIRGATE_SIM is set, or
// libcuda.so.1. Calls no driver function. 0, or a sentence for people in `problem`.
int vg_driver_load(const struct vg_driver **ret_driver, char *problem, size_t capacity);
// A table for a forked child of a process that used `driver`: every entry answers CUDA_ERROR_NOT_INITIALIZED, as the
// driver's own do there, and without going near the driver, whose locks the child may find taken for ever.
void vg_driver_refuse(const struct vg_driver *driver, struct vg_driver *ret_refusing);
