// Regions and their handles, as this room and src/share see them. Any thread.
//
// A call pins the region that its handle names, works with it, and unpins it: one atomic operation each, no lock. Who
// frees waits for the pins. What describes a region's memory does not change while a handle
// names it.
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "core/context.h"
#include "core/resource.h"
#include "core/virtual_memory.h"
#include "virgate/vram.h"
#include "vram/scratch.h"

struct vram_audit;
struct vram_hasher;
struct vram_keys;

struct vg_vram {
	struct core_object object;	  // held by each of its regions
	struct vg_context *context;	  // held: the device's primary one
	struct vg_memory_resource *plain; // held
	struct core_memory_plan *guarded, *shareable;
	struct vram_scratch_list staging; // page-locked memory for long reads
	pthread_mutex_t lock;		  // publishing and closing: nothing is published once it is closed
	_Atomic uint64_t used;
	atomic_size_t regions;

	// trust.c's, and the same from the beginning to the end
	char device_name[41];	// "GPU-…"
	struct vram_keys *keys; // NULL: opened without a secret; then the next two are too
	struct vram_hasher *hasher;
	struct vg_stream *thread_stream; // the default one of whichever thread uses it
	struct vram_audit *audit;	 // NULL: no log
};

// What becomes of the memory of an imported region: it is unmapped, and never zeroed, since it is somebody else's.
struct vram_import {
	enum vg_status (*unmap)(void *user); // once; NULL: the memory is our own
	void *user;
	bool read_only; // writing is POLICY
};

struct vram_region {
	_Atomic uint64_t state; // this and `index` are table.c's
	uint32_t index;

	struct vg_vram *vram; // held
	CUdeviceptr address;
	size_t size;			   // as asked for
	CUdeviceptr base;		   // `address`, but where a guard stands behind the region
	size_t mapped;			   // from `base` on: what is zeroed, and counted as used
	struct vg_allocation plain;	   // where it comes from the context's resource
	struct vg_physical_memory *memory; // held; NULL: it is not of this process's virtual memory
	struct vg_mapping *mapping;	   // held
	struct vram_import import;

	atomic_bool unsettled;	      // something written may still be on its way, in the legacy default stream
	atomic_bool lent;	      // kernels may have worked with it
	atomic_bool shared;	      // other processes may look at it: set before vram_settle(), never taken back
	atomic_uint writing_loans;    // those that may write
	struct vram_loan_note *loans; // those that are out, under the context's lock

	_Atomic uint64_t sealed; // the generation of the seal that holds; 0: none
};

// ---- use (pin.c) ------------------------------------------------------------------------------------

enum vram_use { VRAM_READ, VRAM_WRITE };

// STATE in a forked child.
enum vg_status vram_usable(void);
// The handle's region, which stays until vram_unpin(). STALE, INTEGRITY (quarantined), POLICY (writing what is frozen
// or read-only), BUSY (too many at once), INVALID (0), STATE (a forked child).
enum vg_status vram_pin(struct vg_vram_handle handle, enum vram_use use, struct vram_region **ret_region);
// Likewise to read what describes it, whatever its state; unpinned as VRAM_READ.
enum vg_status vram_look(struct vg_vram_handle handle, struct vram_region **ret_region);
void vram_unpin(struct vram_region *region, enum vram_use use);
// BOUNDS unless `bytes` from `offset` on lie in the region.
enum vg_status vram_check_range(const struct vram_region *region, size_t offset, size_t bytes);
// Waits until what was written by calls that have returned lies in the region: before work on a stream that does not
// wait for the legacy default stream. In the region's context; the caller has it pinned. DRIVER.
enum vg_status vram_settle(struct vram_region *region);

// Ends the handle's use, and waits for the calls that have it pinned. STALE, BUSY (lent), INVALID, STATE.
enum vg_status vram_close_handle(struct vg_vram_handle handle, bool with_loans, struct vram_region **ret_region);

// ---- seals (pin.c, table.c) ------------------------------------------------------------------------------------

// From here on nobody writes, and nobody is writing any more. The caller has the region pinned or looked at, to read.
// POLICY (it is frozen already), BUSY (a loan that may write is out).
enum vg_status vram_freeze(struct vram_region *region);
void vram_unfreeze(struct vram_region *region);
// From here on it can only be freed.
void vram_quarantine(struct vram_region *region);

// Of a region whose handle was closed: loans that never came back (loan.c).
void vram_forget_loans(struct vram_region *region);

// ---- beginning and end of regions (region.c) ----------------------------------------------------------

// A handle for a region that describes memory, in the caller's words: address, size, mapped, base, and what it takes to
// give the memory back, which is the region's if this succeeds. CLOSED, NO_MEMORY, LIMIT.
enum vg_status vram_publish(struct vg_vram *vram, const struct vram_region *description,
			    struct vg_vram_handle *ret_handle);
// Zeroes a region whose handle was closed, and gives its memory back. Where zeroing fails the handle is good again,
// unless the memory goes back `at_any_rate`. DRIVER.
enum vg_status vram_dispose(struct vram_region *region, bool at_any_rate);

// ---- the table (table.c): nothing of the driver -------------------------------------------------------

enum vram_outcome { VRAM_OK, VRAM_STALE, VRAM_FROZEN, VRAM_QUARANTINED, VRAM_CROWDED, VRAM_LENT };

// An unused region, which no handle names yet; -ENOMEM, -ENOSPC.
int vram_table_take(struct vram_region **ret_region);
// What `description` says of its memory.
void vram_table_describe(struct vram_region *region, const struct vram_region *description);
// From here on its handle names it.
struct vg_vram_handle vram_table_publish(struct vram_region *region);
// VRAM_OK, STALE, FROZEN, QUARANTINED, CROWDED.
int vram_table_pin(struct vg_vram_handle handle, enum vram_use use, struct vram_region **ret_region);
// Whatever its state: to look at what stands in it.
int vram_table_look(struct vg_vram_handle handle, struct vram_region **ret_region);
// Ends the handle's use: waits for the pins, with or without loans. Of several exactly one gets VRAM_OK; STALE, LENT.
int vram_table_close(struct vg_vram_handle handle, bool with_loans, struct vram_region **ret_region);
// One more loan, or one less; the caller has the region pinned. VRAM_OK, STALE (it is being freed), CROWDED.
unsigned vram_table_loans(const struct vram_region *region);
int vram_table_lend(struct vram_region *region);
void vram_table_take_back(struct vram_region *region);
// Nobody writes any more; false if that was so already.
bool vram_table_freeze(struct vram_region *region);
// After it: the handle is good again, or dead for ever.
void vram_table_reopen(struct vram_region *region);
void vram_table_retire(struct vram_region *region);
// Every handle that is good, in turn: *cursor from 0 on. False after the last.
bool vram_table_next(uint32_t *cursor, struct vg_vram_handle *ret_handle);
