// Compares charges with the driver's figures, and makes caches return memory. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// Something may have shrunk since the last comparison.
extern _Atomic bool shim_needs_reconcile;

// The functions of one kind of memory whose charge follows the driver.
struct shim_reclaimer {
	void (*reconcile)(void); // sets the charge to what the driver says
	void (*trim)(void);	 // makes the driver return what is not used; NULL: nothing to trim
};
// Registers the kinds of memory; keeps the pointer. Call it once.
void shim_reclaim_set(const struct shim_reclaimer *reclaimers, size_t count);

// Reconciles all charges.
void shim_reconcile(void);
// Reconciles, trims, and reconciles again. Returns false if nothing was refunded.
bool shim_reclaim(void);
