// Device memory that this process has without having asked for it by size. The daemon measures it; this module charges
// it. Any thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct vg_ledger;

// Before a charge of `bytes`: charges the daemon's latest figure. Near the limit, where it decides whether the charge
// fits, it first asks for a new figure.
void shim_undeclared_update(struct vg_ledger *ledger, uint64_t bytes);
// Makes the next update measure, because something of unknown size was allocated.
void shim_undeclared_expect_change(void);
// Measures now and stores the undeclared bytes that are not charged yet. Returns false if the daemon did not answer.
bool shim_undeclared_measure(struct vg_ledger *ledger, uint64_t *ret_bytes);
// Charges the daemon's latest figure.
void shim_undeclared_charge(struct vg_ledger *ledger);
// Measures and charges. Stores the undeclared bytes for which the limit has no room and returns true if they are more
// than a pool may grow before it is charged.
bool shim_undeclared_exceeds(struct vg_ledger *ledger, uint64_t *ret_bytes);
// Measures again if any undeclared memory is charged. Returns true if it was too much, and some was refunded.
bool shim_undeclared_refresh(struct vg_ledger *ledger);

// Tells the daemon that this process has its first context and has allocated nothing else, so that it can learn how
// much memory a context takes. The second function ends that for good: when another context is created or one is
// destroyed.
void shim_first_context_created(void);
void shim_first_context_ended(void);
