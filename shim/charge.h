// Counting against the vGPU's quota: reserve first, then the driver's call, then keep or
// give back. Any thread; no lock is held over a driver call.
#pragma once
#include "shim/entries.h"
#include "shim/records.h"
#include "shim/session.h"

// Reserves `bytes` for a call of `entry`. CUDA_SUCCESS: charged, and to be given back if the
// call fails. CUDA_ERROR_OUT_OF_MEMORY: over the quota, even after what pools hold for
// nothing has been given back; the user has been told. Other codes: no CUDA in this process.
CUresult shim_charge(enum vg_entry entry, enum vg_ledger_kind kind, uint64_t bytes);
// The same for memory that is there already and was measured: what the daemon found is not
// charged a second time.
CUresult shim_charge_measured(enum vg_entry entry, enum vg_ledger_kind kind, uint64_t bytes);
// The same for memory that can move to the host, which does not count as fixed.
CUresult shim_charge_evictable(enum vg_entry entry, enum vg_ledger_kind kind, uint64_t bytes);
void shim_refund_evictable(enum vg_ledger_kind kind, uint64_t bytes);
// Charges as fixed what was charged by shim_charge_evictable(), and the other way round. Returns false, and changes
// nothing, if the fixed part has no room.
bool shim_charge_as_fixed(uint64_t bytes);
void shim_charge_as_evictable(uint64_t bytes);
// The same, without a word, a trim or an entry in the vGPU's log: for a try.
CUresult shim_charge_quietly(enum vg_ledger_kind kind, uint64_t bytes);
void shim_refund(enum vg_ledger_kind kind, uint64_t bytes);
// Takes the charge of a record back.
void shim_refund_record(const struct shim_record *record);
// Tells the user and the vGPU's log; returns CUDA_ERROR_OUT_OF_MEMORY.
CUresult shim_refuse(enum vg_entry entry, uint64_t bytes);

// Up to a multiple of 2 MiB; sizes without sense stay as they are.
uint64_t shim_round_granularity(uint64_t bytes);

// True for what no device of this size can give: such a call may go to the driver uncharged,
// since only it knows which error is due.
bool shim_exceeds_device(uint64_t bytes);

// The context that what the calling thread makes belongs to: the process's only one, or else the
// thread's current one; NULL if none.
CUcontext shim_current_context(void);

// Our own driver calls are made between these two, since a capture in any thread may forbid
// calls that allocate. Usage: SHIM_RELAXED;
CUstreamCaptureMode shim_capture_relax(void);
void shim_capture_restore(CUstreamCaptureMode *mode);
#define SHIM_RELAXED                                                                                                   \
	__attribute__((cleanup(shim_capture_restore), unused)) CUstreamCaptureMode shim_mode_before =                  \
		shim_capture_relax()
