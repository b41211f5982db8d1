// Charges undeclared memory: device memory that the driver allocates for this process without a call that gives its
// size, such as code and local memory. The daemon measures it. Any thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct vg_ledger;

// Charges the daemon's latest figure for undeclared memory. Call it before `bytes` are charged. Near the vGPU's limit,
// undeclared memory decides whether `bytes` fit. So the daemon then measures it again first, at most once in 20 ms.
void shim_undeclared_update(struct vg_ledger *ledger, uint64_t bytes);
// Makes the next shim_undeclared_update() request a measurement. Call it after memory of unknown size was allocated.
void shim_undeclared_expect_change(void);
// Has the daemon measure undeclared memory now, and stores how many bytes of it are not charged yet. Returns false if
// the daemon did not answer.
bool shim_undeclared_measure(struct vg_ledger *ledger, uint64_t *ret_bytes);
// Charges the daemon's latest figure.
void shim_undeclared_charge(struct vg_ledger *ledger);
// Has the daemon measure undeclared memory, and charges it. Stores the bytes for which the limit has no room. Returns
// true if they are more than is tolerated: a pool may grow a little before its growth is charged.
bool shim_undeclared_exceeds(struct vg_ledger *ledger, uint64_t *ret_bytes);
// If undeclared memory is charged, has the daemon measure it again. Returns true if the charge was too high and a part
// of it was refunded.
bool shim_undeclared_refresh(struct vg_ledger *ledger);

// The daemon measures the size of a context in a process that has one context and no other device memory.
// shim_first_context_created() tells the daemon that this process is of that kind. shim_first_context_ended() says that
// it never will be again: call it when another context is created, or when one is destroyed.
void shim_first_context_created(void);
void shim_first_context_ended(void);
