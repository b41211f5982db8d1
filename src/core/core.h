// The driver's table, for all of this room: valid once a device was got, and never changed again but in a forked child,
// where every entry refuses.
#pragma once
#include "driver/driver.h"
#include "virgate/status.h"

extern const struct vg_driver *core_driver;
// What launches need of it and of the processor, in one line of the cache. Likewise valid, and changed, with the table.
struct core_launching {
	__typeof__(((struct vg_driver *)0)->cuLaunchKernelEx) launch;
	bool avx2;
};
extern struct core_launching core_launching;

// Loads the driver, calls cuInit and builds the table of devices, once per process; a failure is
// not remembered. NO_DRIVER, DRIVER. Any thread.
enum vg_status core_open(void);
// True in a child that was forked after core_open(): the driver is of no use there, and giving handles back may hang.
extern bool core_forked;

// The version that the driver reports, 13000 for 13.0. After core_open().
int core_driver_version(void);
// VG_UNSUPPORTED with "needs driver 13.1, have 13.0", for entries newer than some driver.
enum vg_status core_needs_driver(int version, const char *what);
// An entry that is younger than the table's, by name; VG_UNSUPPORTED likewise if the driver lacks it.
enum vg_status core_newer(const char *entry, int version, void **ret_entry);
