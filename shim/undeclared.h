// What this process holds on the device without having asked for it: the daemon measures it,
// here it becomes a charge. Any thread.
#pragma once
#include <stdbool.h>

#include "shim/charge.h"

// Before a charge of `bytes`: takes over the daemon's last figure; near the limit, where it
// decides something, a fresh one.
void shim_undeclared_follow(struct vg_ledger *ledger, uint64_t bytes);
// Something was taken whose size is not known yet: the next charge measures anew.
void shim_undeclared_doubt(void);
// Undeclared bytes that are not charged yet, measured now. False: the daemon did not answer.
bool shim_undeclared_measure(struct vg_ledger *ledger, uint64_t *ret_bytes);

// Measures anew if anything is charged so. True: it was too much, and some was refunded.
bool shim_undeclared_refresh(struct vg_ledger *ledger);
// Takes over the daemon's last figure.
void shim_undeclared_settle(struct vg_ledger *ledger);
// CUDA_ERROR_OUT_OF_MEMORY, and the user told, if more is there than the quota had room for.
CUresult shim_undeclared_gate(enum vg_entry entry);

// The process's first context stands, and nothing else was made: the daemon may learn from it
// what a context takes. Over for good once another is made or one is taken down.
void shim_first_context_stands(void);
void shim_first_context_over(void);
