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

// Allocates for cuMemAlloc: evictable if it can be now. *ret_evictable: whether it is; the other functions below are for
// such addresses alone.
CUresult shim_evict_allocate(enum vg_entry entry, CUdeviceptr *address, size_t bytes, bool *ret_evictable);
// *ret_later: it is freed, and its charge refunded, when no stream is being captured any more.
CUresult shim_evict_free(enum vg_entry entry, CUdeviceptr address, bool *ret_later);
// Its context has gone.
void shim_evict_forget(CUdeviceptr address);
void shim_evict_context_gone(CUcontext context);
bool shim_is_evictable(CUdeviceptr address);

// Streams that are being captured; see capture.c.
extern _Atomic unsigned int shim_captures;
// context.c: stores the live contexts and returns how many there are; more than `most` are not stored.
size_t shim_contexts(CUcontext *contexts, size_t most);
