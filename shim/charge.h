// Charges of this process in its vGPU. An allocation charges first, calls the driver, and then keeps the charge in a
// record or refunds it. Any thread; no lock is held during a driver call.
#pragma once
#include "shim/entries.h"
#include "shim/records.h"
#include "shim/relaxed.h"
#include "shim/session.h"

// Charges `bytes` for a call of `entry`. CUDA_SUCCESS: charged; refund it if the call fails. CUDA_ERROR_OUT_OF_MEMORY:
// the limit has no room, even after pools and graphs returned unused memory, and the refusal was reported. Other
// errors: CUDA cannot be used in this process.
CUresult shim_charge(enum vg_entry entry, enum vg_ledger_kind kind, uint64_t bytes);
// Does the same for memory that is allocated already and was measured: it does not charge the daemon's figure for
// undeclared memory first, since that may contain it.
CUresult shim_charge_measured(enum vg_entry entry, enum vg_ledger_kind kind, uint64_t bytes);
// Does the same for memory that can move to the host, which does not count as fixed.
CUresult shim_charge_evictable(enum vg_entry entry, enum vg_ledger_kind kind, uint64_t bytes);
// Tries to charge once, without a report and without making anything return memory.
CUresult shim_charge_quietly(enum vg_ledger_kind kind, uint64_t bytes);

void shim_refund(enum vg_ledger_kind kind, uint64_t bytes);
void shim_refund_evictable(enum vg_ledger_kind kind, uint64_t bytes);
void shim_refund_record(const struct shim_record *record);

// Counts as fixed what shim_charge_evictable() charged, or the reverse. shim_charge_as_fixed() returns false and
// changes nothing if the fixed part has no room.
bool shim_charge_as_fixed(uint64_t bytes);
void shim_charge_as_evictable(uint64_t bytes);

// Reports a refusal to the user and in the vGPU's log; returns CUDA_ERROR_OUT_OF_MEMORY.
CUresult shim_refuse(enum vg_entry entry, uint64_t bytes);

// Rounds up to a multiple of 2 MiB, unless that would overflow.
uint64_t shim_round_granularity(uint64_t bytes);

// Returns true if the device is smaller than `bytes`. Such a call may go to the driver uncharged, because only the
// driver knows the right error.
bool shim_exceeds_device(uint64_t bytes);
