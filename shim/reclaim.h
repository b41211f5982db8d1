// Sets charges to the driver's figures, and makes pools and graphs return unused memory. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// True if memory may have shrunk since charges were last compared with the driver's figures.
extern _Atomic bool shim_needs_reconcile;

// Functions for a kind of memory, such as pools, that is charged by what the driver reports as reserved.
struct shim_reclaimer {
	void (*reconcile)(void); // sets the charge to the driver's figure
	void (*trim)(void);	 // makes the driver return unused memory; NULL: no such function
};
// Registers the functions above for all kinds of memory whose charge can differ from the driver's figure, such as
// pools. Keeps the pointer to the array. Call it once.
void shim_reclaim_set(const struct shim_reclaimer *reclaimers, size_t count);

// Sets all charges to the driver's figures.
void shim_reconcile(void);
// Sets all charges to the driver's figures, returns unused memory, and sets them again. Returns false if nothing was
// refunded.
bool shim_reclaim(void);
