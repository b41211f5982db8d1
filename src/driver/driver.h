// Loads the CUDA driver as a table of typed functions, once per process. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "abi/cuda_abi.h"

struct vg_driver {
#define ENTRY(abi, api, version, stream, family, need) VG_PFN(api, version, stream) abi;
#include "abi/entries.def"
	// For each driver function, by enum vg_entry: true if the driver lacks the function. The table then has a
	// function that returns CUDA_ERROR_NOT_SUPPORTED.
	bool missing[VG_ENTRY_COUNT];
	const char *path; // path or name of the library that was passed to dlopen()
	bool simulated;
};

enum {
	VG_DRIVER_ABSENT = 1,	// the library was not found
	VG_DRIVER_UNSUITED = 2, // the library lacks a required function
};

// Loads the driver on the first call. Loads VIRGATE_DRIVER, or the simulated driver if VIRGATE_SIM is set, or
// libcuda.so.1. Calls no driver function. Returns 0, or a positive value with a sentence in `problem`.
int vg_driver_load(const struct vg_driver **ret_driver, char *problem, size_t capacity);
// Makes a table for a forked child of a process that used the driver. Every function of the table returns
// CUDA_ERROR_NOT_INITIALIZED, as the driver does in the child. These functions do not call the driver, whose locks may
// stay locked for ever in the child.
void vg_driver_refuse(const struct vg_driver *driver, struct vg_driver *ret_refusing);
