// Evictable vGPUs: allocations whose memory can move to the host and back (src/pager). In other vGPUs, shim_evictable is
// false and nothing of this has an effect. Any thread.
#pragma once
#include "shim/charge.h"

struct vg_ledger;

extern bool shim_evictable;

// Puts gates before the driver's functions and starts the pager. Once, after shim_turn_start().
void shim_evict_start(const struct vg_ledger *ledger);
// Before shim_turn_start(): the pager's own calls take no turns.
void shim_evict_load(void);
// In a forked child, which may not use CUDA.
void shim_evict_stop(void);

// Whether cuMemAlloc can give evictable memory now. A capture forbids the calls that it takes.
bool shim_evict_is_possible(void);
// Allocates for cuMemAlloc what was charged by shim_evict_charge(). The other functions below are for such addresses.
CUresult shim_evict_allocate(enum vg_entry entry, CUdeviceptr *address, size_t bytes);
// *ret_later: it is freed, and its charge refunded, when no stream is being captured any more.
CUresult shim_evict_free(enum vg_entry entry, CUdeviceptr address, bool *ret_later);
// Its context has gone.
void shim_evict_forget(CUdeviceptr address);
void shim_evict_context_gone(CUcontext context);
bool shim_is_evictable(CUdeviceptr address);
// Whether cuMemCreate of this is evictable, too (evict_handles.c): then it is charged by shim_charge_evictable().
bool shim_evict_takes(const CUmemAllocationProp *properties, unsigned long long flags);
// Whether such memory is mapped in a range.
bool shim_evict_is_mapped(CUdeviceptr address, size_t size);
// Before the gates are set; and in a forked child.
void shim_evict_handles_start(void);
void shim_evict_handles_stop(void);
extern void *shim_evict_below[VG_ENTRY_COUNT] SHIM_HIDDEN; // what the gates call
// Notes that so much more or less is charged for evictable memory: before a charge, and after a refund.
void shim_evict_note_charge(int64_t bytes);
// Whether so much more memory that cannot move is beyond the vGPU's fixed part.
bool shim_evict_exceeds_fixed(uint64_t bytes);
// Tells the user and the vGPU's log.
void shim_evict_refuse(enum vg_entry entry, uint64_t bytes);

// Streams that are being captured; see capture.c.
extern _Atomic unsigned int shim_captures;
// context.c: stores the live contexts and returns how many there are; more than `most` are not stored.
size_t shim_contexts(CUcontext *contexts, size_t most);
