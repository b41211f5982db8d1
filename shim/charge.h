// Charges and refunds memory of this process in its vGPU. An allocation function charges first and then calls the
// driver. If the call succeeds, the function keeps the charge in a record; otherwise it refunds the charge. Any thread;
// no lock is held during a driver call.
#pragma once
#include "shim/entries.h"
#include "shim/records.h"
#include "shim/relaxed.h"
#include "shim/session.h"

// Charges `bytes` for a call of the driver function `entry`. CUDA_SUCCESS: charged; the caller refunds the charge if
// the call fails. CUDA_ERROR_OUT_OF_MEMORY: the limit has no room, even after pools and graphs returned unused memory;
// the refusal was reported. Other errors: CUDA cannot be used in this process.
CUresult shim_charge(enum vg_entry entry, enum vg_ledger_kind kind, uint64_t bytes);
// Charges memory that is already allocated and was measured. Unlike shim_charge(), it does not first charge undeclared
// memory (shim/undeclared.h), because the daemon's figure for that may include this memory already.
CUresult shim_charge_measured(enum vg_entry entry, enum vg_ledger_kind kind, uint64_t bytes);
// Charges, like shim_charge(), memory that can move to the host. The limit for memory that cannot move (shim/fixed.h)
// does not apply to it.
CUresult shim_charge_evictable(enum vg_entry entry, enum vg_ledger_kind kind, uint64_t bytes);
// Tries once to charge. If the limit has no room, reports no refusal, and makes no pool or graph return memory.
CUresult shim_charge_quietly(enum vg_ledger_kind kind, uint64_t bytes);

void shim_refund(enum vg_ledger_kind kind, uint64_t bytes);
void shim_refund_evictable(enum vg_ledger_kind kind, uint64_t bytes);
void shim_refund_record(const struct shim_record *record);

// Note that charged memory can no longer move to the host, or that it can move again. shim_charge_as_fixed() returns
// false, and changes nothing, if the limit for memory that cannot move (shim/fixed.h) has no room.
bool shim_charge_as_fixed(uint64_t bytes);
void shim_charge_as_evictable(uint64_t bytes);

// Reports a refusal to the user and in the vGPU's log; returns CUDA_ERROR_OUT_OF_MEMORY.
CUresult shim_refuse(enum vg_entry entry, uint64_t bytes);

// Rounds up to a multiple of 2 MiB, unless that would overflow.
uint64_t shim_round_granularity(uint64_t bytes);

// Returns true if the device has less memory than `bytes`. A request of that size may go to the driver without a
// charge, because the driver fails it with the right error.
bool shim_exceeds_device(uint64_t bytes);
