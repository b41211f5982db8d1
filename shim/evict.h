// Evictable vGPUs: allocations whose memory can move to the host and back (src/pager). In other vGPUs, shim_evictable
// is false and none of these functions has an effect. Any thread.
#pragma once
#include "shim/charge.h"

struct vg_ledger;

extern bool shim_evictable;

// Puts gates before the driver's functions and starts the pager. Call it once, after shim_turn_start().
void shim_evict_start(const struct vg_ledger *ledger);
// Fills the pager's table of driver functions. Call it before shim_turn_start(): the pager's own calls take no turns.
void shim_evict_load(void);
// Resets the pager in a forked child, which may not use CUDA.
void shim_evict_stop(void);

// Returns whether cuMemAlloc can allocate evictable memory now. A stream capture forbids the driver calls for it.
bool shim_evict_is_possible(void);
// Allocates for cuMemAlloc what was charged by shim_evict_charge(). The other functions below are for such addresses.
CUresult shim_evict_allocate(enum vg_entry entry, CUdeviceptr *address, size_t bytes);
// *ret_later: the memory is freed, and its charge refunded, when no stream is being captured any more.
CUresult shim_evict_free(enum vg_entry entry, CUdeviceptr address, bool *ret_later);
// Frees the allocation after its context was destroyed.
void shim_evict_forget(CUdeviceptr address);
void shim_evict_context_gone(CUcontext context);
bool shim_is_evictable(CUdeviceptr address);
// Whether cuMemCreate of this is evictable, too (evict_handles.c): then it is charged by shim_charge_evictable().
bool shim_evict_takes(size_t size, const CUmemAllocationProp *properties, unsigned long long flags);
// Whether such memory is mapped in a range.
bool shim_evict_is_mapped(CUdeviceptr address, size_t size);
// Before the gates are set; and in a forked child.
void shim_evict_handles_start(void);
void shim_evict_handles_stop(void);
extern void *shim_evict_below[VG_ENTRY_COUNT] SHIM_HIDDEN; // what the gates call
// Notes a change of the charge for evictable memory. Call it before a charge, and after a refund.
void shim_evict_note_charge(int64_t bytes);
// Returns whether `bytes` more of memory that cannot move would exceed the vGPU's fixed part.
bool shim_evict_exceeds_fixed(uint64_t bytes);
// Reports the refusal of such memory to the user and in the vGPU's log.
void shim_evict_refuse(enum vg_entry entry, uint64_t bytes);

// Number of streams that are being captured; see capture.c.
extern _Atomic unsigned int shim_captures;
// context.c: stores the live contexts and returns how many there are; more than `most` are not stored.
size_t shim_contexts(CUcontext *contexts, size_t most);
