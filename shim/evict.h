// Allocates memory that can move to the host and back (src/pager), in evictable vGPUs. In other vGPUs, shim_evictable
// is false and none of these functions has an effect. Any thread.
#pragma once
#include "shim/charge.h"
#include "shim/fixed.h"

// Fills the pager's table of driver functions. Call it before shim_turn_start(), so that the pager's own calls take no
// turns.
void shim_evict_fill_driver(void);
// Puts the pager's gates before the driver's functions: each waits until the memory is on the device. Also starts the
// pager. Call it once, after shim_turn_start().
void shim_evict_start(const struct vg_ledger *ledger);
// Resets the pager in a forked child, which may not use CUDA.
void shim_evict_stop(void);

// Returns whether cuMemAlloc can allocate evictable memory now. During a stream capture it cannot, because the capture
// forbids the necessary driver calls.
bool shim_evict_is_possible(void);
// Allocates evictable memory for cuMemAlloc, after the caller has charged by shim_charge_evictable(). The functions
// below take addresses of such memory.
CUresult shim_evict_allocate(enum vg_entry entry, CUdeviceptr *address, size_t bytes);
// Frees evictable memory. *ret_later: a stream is being captured, so the memory is freed, and its charge refunded, only
// after the capture.
CUresult shim_evict_free(enum vg_entry entry, CUdeviceptr address, bool *ret_later);
// Frees evictable memory whose context was destroyed.
void shim_evict_forget(CUdeviceptr address);
// Removes a destroyed context from the pager's state.
void shim_evict_forget_context(CUcontext context);
bool shim_is_evictable(CUdeviceptr address);

// A call that allocates evictable memory inside the pager's gate, and repeats the attempt while others make room.
struct shim_evict_attempt {
	enum vg_entry entry;
	uint64_t began_ns;
	uint32_t room_comes; // as in struct pager_page, before the attempt; 0: do not wait
};
// Call it before the first attempt.
struct shim_evict_attempt shim_evict_begin(enum vg_entry entry);
// Returns whether the caller must try again: the device was full, but memory of other vGPUs was leaving it. Waits a
// moment outside the gate, so that the memory of this process can leave meanwhile, too.
bool shim_evict_try_again(struct shim_evict_attempt *attempt, CUresult result);

// Returns whether a cuMemCreate() call with these properties makes evictable memory (evict_handles.c), which is charged
// by shim_charge_evictable().
bool shim_evict_can_create(size_t size, const CUmemAllocationProp *properties, unsigned long long flags);
// Returns whether evictable memory of cuMemCreate() is mapped in a range.
bool shim_evict_is_mapped(CUdeviceptr address, size_t size);
// Makes the pager's gates call the functions of evict_handles.c, which call the driver. Call it before the gates are
// set.
void shim_evict_handles_start(void);
// Undoes shim_evict_handles_start() in a forked child: the gates call the driver directly again.
void shim_evict_handles_stop(void);
extern void *shim_evict_below[VG_ENTRY_COUNT] SHIM_HIDDEN; // the functions that the gates call

// The number of streams that are being captured (capture.c).
extern _Atomic unsigned int shim_captures;
