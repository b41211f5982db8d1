// Shared allocations ("shared" in names): memory that several processes have open is charged once. The process that
// allocated the memory, or brought it into the vGPU, is its owner: the owner's slot has the charge while the owner has
// the memory. If the owner leaves while others hold the memory, the charge passes to the shared allocation itself. The
// last holder then refunds it. A process holds a shared allocation once, however often it has opened the memory. Any
// thread.
#pragma once
#include "ledger/ledger.h"

// A ledger has at most VG_LEDGER_SHARED_COUNT shared allocations at a time. Each has a number by which processes name
// it. The lowest VG_LEDGER_SHARED_BITS bits of the number are its index in the table plus 1, so they are never all 0.
enum { VG_LEDGER_SHARED_COUNT = 2048, VG_LEDGER_SHARED_BITS = 12 };

// Returns the key by which two processes find a shared allocation: a hash of bytes that both have, such as an IPC
// handle. `kind` says what the bytes are (SHIM_KEY_… in the interposer), so that different kinds get different keys.
uint64_t vg_ledger_key(char kind, const void *bytes, size_t length);

// The following functions are for tenants. The number of a shared allocation is never 0, and is not reused.

// Makes this process the owner of a new shared allocation of `bytes` that the process has charged (a multiple of 4
// KiB). Returns 0; VG_LEDGER_FULL: the table is full, or the size cannot be stored.
int vg_ledger_shared_create(struct vg_ledger *ledger, uint64_t bytes, uint32_t *ret_number);
// Changes how many bytes the owner has charged for the shared allocation.
void vg_ledger_shared_resize(struct vg_ledger *ledger, uint32_t number, uint64_t bytes);
// Adds a name to a shared allocation. If another shared allocation has this name, `instead` decides: true replaces that
// entry; false returns VG_LEDGER_REFUSED and changes nothing. VG_LEDGER_FULL: the table has no free entry for the name.
int vg_ledger_shared_add_name(struct vg_ledger *ledger, uint32_t number, uint64_t key, bool instead);
// Returns the number of the shared allocation with a name; 0: not found.
uint32_t vg_ledger_shared_find(const struct vg_ledger *ledger, uint64_t key);
// Makes this process a holder. Returns 0; VG_LEDGER_GONE: not found, or this process is the owner; VG_LEDGER_FULL or
// -errno: this process has no slot.
int vg_ledger_shared_join(struct vg_ledger *ledger, uint64_t key, uint32_t *ret_number, uint64_t *ret_bytes);
// Makes this process, the owner or a holder, give up the shared allocation. Call it after the memory was closed. If
// this process is the owner, *ret_passed is how much of its charge (of `kind`, at most `most`) has passed to the shared
// allocation; the owner must refund the rest. A holder need not refund anything: for the last holder, this function
// refunds the charge of the shared allocation.
void vg_ledger_shared_leave(struct vg_ledger *ledger, uint32_t number, enum vg_ledger_kind kind, uint64_t most,
			    uint64_t *ret_passed);
// Sets whether the owner has released the memory and has only descriptors of it left. NVML then counts the memory for
// another process that has it open, or for no process.
void vg_ledger_shared_set_away(struct vg_ledger *ledger, uint32_t number, bool away);

// Returns the sum of the charges of shared allocations whose owners have left.
uint64_t vg_ledger_shared_charge(const struct vg_ledger *ledger);

// The following functions are for the daemon only.

struct vg_ledger_shared_info {
	uint32_t number;
	uint64_t bytes;
	bool owned; // true: the slot `owner` has the charge; false: the shared allocation itself has it
	unsigned int owner;
	bool away;				// as in vg_ledger_shared_set_away()
	uint64_t holders[VG_LEDGER_SLOTS / 64]; // one bit for each slot that holds the allocation; the owner's bit is 0
};
// Iterates over the shared allocations, in order. Set *cursor to 0 first. Returns false at the end.
bool vg_ledger_next_shared(const struct vg_ledger *ledger, unsigned int *cursor,
			   struct vg_ledger_shared_info *ret_info);
static inline bool vg_ledger_shared_is_held_by(const struct vg_ledger_shared_info *info, unsigned int slot)
{
	return info->holders[slot / 64] >> slot % 64 & 1;
}

// Makes a process that is not a tenant of this vGPU a holder (a guest). The guest gets a slot without charges, which is
// reaped like a tenant's. `program`: as of vg_ledger_program_of(); 0: unknown. Returns 0, VG_LEDGER_GONE (not found),
// VG_LEDGER_FULL or -EAGAIN.
int vg_ledger_guest_join(struct vg_ledger *ledger, const struct vg_ledger_owner *process, uint64_t program,
			 uint64_t key, uint32_t *ret_number, uint64_t *ret_bytes);
// Makes a guest give up a shared allocation that it holds. Returns 0, VG_LEDGER_GONE (the process is not a holder) or
// -EAGAIN.
int vg_ledger_guest_leave(struct vg_ledger *ledger, const struct vg_ledger_owner *process, uint32_t number);
