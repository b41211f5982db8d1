// Charges undeclared memory, as the daemon measured it: device memory that this process has without requesting it by
// size. Any thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct vg_ledger;

// Charges the daemon's latest figure. Call it before a charge of `bytes`. Near the limit, where the figure decides
// whether that charge fits, it first requests a new measurement.
void shim_undeclared_update(struct vg_ledger *ledger, uint64_t bytes);
// Makes the next shim_undeclared_update() request a measurement. Call it after memory of unknown size was allocated.
void shim_undeclared_expect_change(void);
// Measures now, and stores how many undeclared bytes are not charged yet. Returns false if the daemon did not answer.
bool shim_undeclared_measure(struct vg_ledger *ledger, uint64_t *ret_bytes);
// Charges the daemon's latest figure.
void shim_undeclared_charge(struct vg_ledger *ledger);
// Measures and charges. Stores the undeclared bytes for which the limit has no room. Returns true if that is more than
// a pool may grow before it is charged.
bool shim_undeclared_exceeds(struct vg_ledger *ledger, uint64_t *ret_bytes);
// Measures again if any undeclared memory is charged. Returns true if the charge was too high and a part was refunded.
bool shim_undeclared_refresh(struct vg_ledger *ledger);

// From a process that has one context and nothing else, the daemon measures the size of a context. The first function
// tells the daemon that this is such a process. The second ends that for good: call it when another context is created,
// or one is destroyed.
void shim_first_context_created(void);
void shim_first_context_ended(void);
