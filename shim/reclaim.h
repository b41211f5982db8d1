// What must be looked at again when time has passed: pools and graphs that shrank, frees in
// stream order that have completed. Any thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "shim/charge.h"

// Something may have shrunk since the last look: one load decides.
extern _Atomic bool shim_dirty;

// Settles everything with the driver's own figures.
void shim_settle(void);
// Settles, then has pools and graphs give back what they hold for nothing, and settles again.
// False if nothing was refunded.
bool shim_reclaim(void);
// Refunds a record once `stream` has come this far. `per_thread`: what a NULL stream means.
void shim_refund_in_order(const struct shim_record *record, bool per_thread, CUstream stream);
