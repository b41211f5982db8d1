// Declares the table of driver functions for this directory. The table is valid after core_open(). It changes only in a
// forked child, where every function fails.
#pragma once
#include "driver/driver.h"
#include "virgate/status.h"

extern const struct vg_driver *core_driver;
// What each launch reads: the driver function, and whether the CPU supports AVX2, together in one cache line. Changes
// together with `core_driver`.
struct core_launching {
	__typeof__(((struct vg_driver *)0)->cuLaunchKernelEx) launch;
	bool avx2;
};
extern struct core_launching core_launching;

// Loads the driver, calls cuInit and builds the table of devices, once per process. After a failure the next call tries
// again. Fails with NO_DRIVER, NOT_FOUND (no device), DRIVER or NO_MEMORY. Fails with STATE if another thread was in
// this function when the process was forked. Any thread.
enum vg_status core_open(void);
// True in a child that was forked after core_open(). In such a child the driver does not work, and releasing handles
// may hang.
extern bool core_forked;

// Returns the version that the driver reports, 13000 for 13.0. Call after core_open().
int core_driver_version(void);
// Returns UNSUPPORTED with "WHAT: unsupported: needs driver 13.1, have 13.0".
enum vg_status core_needs_driver(int version, const char *what);
// Looks up a driver function that is newer than the table. UNSUPPORTED, like core_needs_driver(), if the driver lacks
// it.
enum vg_status core_find_entry(const char *entry, int version, void **ret_entry);
