// Declares regions and their handles, for this directory and src/share. Any thread.
//
// A call pins the region that its handle names, uses the region, and unpins it. Pinning and unpinning are one atomic
// operation each, without a lock. Freeing a region waits until no call has it pinned. The fields that describe a
// region's memory do not change while a handle names the region.
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
	struct core_object object;  // each region of the context has a reference to it
	struct vg_context *context; // owns a reference to the device's primary context
	// Owns a reference. Allocates regions that are not shareable and have no guard (unmapped addresses after them).
	struct vg_memory_resource *plain;
	struct core_memory_plan *guarded, *shareable;
	struct vram_scratch_list staging; // page-locked memory for long reads into pageable memory
	pthread_mutex_t lock;		  // orders publishing and closing, so that a closed context gets no new region
	_Atomic uint64_t used;
	atomic_size_t regions;

	// Set by trust.c when the context is opened, and constant afterwards.
	char device_name[41];	// "GPU-…"
	struct vram_keys *keys; // NULL: opened without a secret; `hasher` and `thread_stream` are then NULL too
	struct vram_hasher *hasher;
	struct vg_stream *thread_stream; // the per-thread default stream
	struct vram_audit *audit;	 // NULL: no audit log
};

// How to release an imported region. It is unmapped but not zeroed, because its memory belongs to the exporter.
struct vram_import {
	enum vg_status (*unmap)(void *user); // unmaps an imported region; called once; NULL: the region is not imported
	void *user;
	bool read_only; // writing to the region fails with POLICY
};

struct vram_region {
	_Atomic uint64_t state; // only table.c changes `state` and `index`
	uint32_t index;

	struct vg_vram *vram; // owns a reference
	CUdeviceptr address;
	size_t size; // bytes that the program asked for
	// Start of the mapped memory. Lower than `address` only if the region has a guard: the region then ends where
	// the mapped memory ends.
	CUdeviceptr base;
	size_t mapped;			   // number of bytes from `base` on that are zeroed and counted as used
	struct vg_allocation plain;	   // address 0: the memory is not from the context's resource
	struct vg_physical_memory *memory; // owns a reference; NULL: not allocated by cuMemCreate in this process
	struct vg_mapping *mapping;	   // owns a reference; NULL if `memory` is NULL
	struct vram_import import;

	atomic_bool write_pending; // a write on the legacy default stream may not have finished
	// True: the region was on loan at some time, so kernels of the program may have used it.
	atomic_bool lent;
	atomic_bool shared;		// true: other processes may have the region; set before vram_wait_for_writes()
	atomic_uint writing_loans;	// number of active loans that allow writing
	struct vram_loan_record *loans; // list of active loans; the context's lock protects it

	_Atomic uint64_t sealed; // generation of the valid seal; 0: the region is not sealed
};

// ---- pins (pin.c) -----------------------------------------------------------------------------------

enum vram_use { VRAM_READ, VRAM_WRITE };

// Returns STATE in a forked child, which cannot use the driver.
enum vg_status vram_check_process(void);
// Pins the handle's region, which is then not freed before vram_unpin(). Fails with STALE, INTEGRITY (quarantined),
// POLICY (writing to a frozen or read-only region), BUSY (too many pins), INVALID (handle 0) or STATE (a forked child).
enum vg_status vram_pin(struct vg_vram_handle handle, enum vram_use use, struct vram_region **ret_region);
// Pins the region even if it is frozen or quarantined, to read its description. Unpin it with VRAM_READ.
enum vg_status vram_look(struct vg_vram_handle handle, struct vram_region **ret_region);
void vram_unpin(struct vram_region *region, enum vram_use use);
// Fails with BOUNDS unless the `bytes` bytes from `offset` on lie in the region.
enum vg_status vram_check_range(const struct vram_region *region, size_t offset, size_t bytes);
// Waits until the writes of finished calls are in the region's memory. Call before work on a stream that does not wait
// for the legacy default stream. Call with the region pinned. Fails with DRIVER.
enum vg_status vram_wait_for_writes(struct vram_region *region);

enum vram_closing {
	VRAM_CLOSE_UNLENT, // fail if the region is on loan
	VRAM_CLOSE_ALWAYS, // close even with active loans
};
// Makes the handle stale, and waits until no call has its region pinned. Fails with STALE, BUSY (on loan), INVALID or
// STATE.
enum vg_status vram_close_handle(struct vg_vram_handle handle, enum vram_closing how, struct vram_region **ret_region);

// ---- seals (pin.c, table.c) ------------------------------------------------------------------------------------

// Makes new writes fail, and waits until no write is in progress. Call with the region pinned for reading. Fails with
// POLICY (the region is frozen already) or BUSY (a loan allows writing).
enum vg_status vram_freeze(struct vram_region *region);
void vram_unfreeze(struct vram_region *region);
// Quarantines the region. From then on the region can only be freed.
void vram_quarantine(struct vram_region *region);

// Frees the records of the active loans of a region whose handle was closed (loan.c).
void vram_forget_loans(struct vram_region *region);

// ---- creating and freeing regions (region.c) ----------------------------------------------------------

// Makes a handle for memory. The caller fills in address, size, mapped, base, and the objects that must be freed with
// the memory. On success these objects belong to the region. Fails with CLOSED, NO_MEMORY or LIMIT.
enum vg_status vram_publish(struct vg_vram *vram, const struct vram_region *description,
			    struct vg_vram_handle *ret_handle);
enum vram_disposal {
	VRAM_DISPOSE_ZEROED, // if the region cannot be zeroed, keep it and make its handle valid again
	VRAM_DISPOSE_ALWAYS,
};
// Zeroes a region whose handle was closed, and frees its memory. Fails with DRIVER.
enum vg_status vram_dispose(struct vram_region *region, enum vram_disposal how);

// ---- the table of regions (table.c): makes no driver call ---------------------------------------------

enum vram_outcome { VRAM_OK, VRAM_STALE, VRAM_FROZEN, VRAM_QUARANTINED, VRAM_CROWDED, VRAM_LENT };

// Takes an unused entry of the table of regions, which no handle names yet. Returns 0, -ENOMEM or -ENOSPC.
int vram_table_allocate(struct vram_region **ret_region);
// Copies the member `vram` of `description`, and all members after it, into the region.
void vram_table_describe(struct vram_region *region, const struct vram_region *description);
// Makes the region's handle valid, and returns it.
struct vg_vram_handle vram_table_publish(struct vram_region *region);
// Pins the region for a use. Returns VRAM_OK, VRAM_STALE, VRAM_FROZEN, VRAM_QUARANTINED or VRAM_CROWDED
// (too many pins).
int vram_table_pin(struct vg_vram_handle handle, enum vram_use use, struct vram_region **ret_region);
// Pins the region as a reader, even if it is frozen or quarantined. Returns VRAM_OK, VRAM_STALE or VRAM_CROWDED.
int vram_table_pin_any_state(struct vg_vram_handle handle, struct vram_region **ret_region);
// Makes the handle stale, and waits until there are no pins. Exactly one of several callers gets VRAM_OK; the others
// get VRAM_STALE. VRAM_LENT: the region is on loan.
int vram_table_close(struct vg_vram_handle handle, enum vram_closing how, struct vram_region **ret_region);
unsigned vram_table_count_loans(const struct vram_region *region);
// Add a loan to the count, or subtract one. Call with the region pinned. Adding returns VRAM_OK, VRAM_STALE (the region
// is being freed) or VRAM_CROWDED.
int vram_table_add_loan(struct vram_region *region);
void vram_table_end_loan(struct vram_region *region);
// Makes new writers fail, and waits until there are no writers. Returns false if the region was frozen already.
bool vram_table_freeze(struct vram_region *region);
// After vram_table_close(), vram_table_reopen() makes the handle valid again; vram_table_retire() leaves it stale.
void vram_table_reopen(struct vram_region *region);
void vram_table_retire(struct vram_region *region);
// Returns the valid handles one by one. Set *cursor to 0 at first. Returns false after the last handle.
bool vram_table_next(uint32_t *cursor, struct vg_vram_handle *ret_handle);
