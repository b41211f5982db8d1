// Shared allocations ("share" in names): memory that several processes have open is charged once. The process that
// allocated it, or brought it into the vGPU, is its owner: the charge is in its slot as long as it has the memory. When
// the owner leaves and others still hold the memory, the charge passes to the shared allocation itself, and the last
// holder refunds it. A process holds a shared allocation once, however often it has opened it. Any thread.
#pragma once
#include "ledger/ledger.h"

// The VG_LEDGER_SHARE_BITS lowest bits of a number are never all 0.
enum { VG_LEDGER_SHARES = 2048, VG_LEDGER_SHARE_BITS = 12 };

// Returns a key by which both processes find a shared allocation: a hash of the bytes that one sends to the other.
// `kind` distinguishes the driver calls.
uint64_t vg_ledger_key(char kind, const void *bytes, size_t length);

// The following functions are for tenants. A shared allocation has a number, never 0, which is not reused.

// Makes this process the owner of a new shared allocation of `bytes` that it has charged (a multiple of 4 KiB). Returns
// 0; VG_LEDGER_FULL: the table is full, or the size cannot be stored.
int vg_ledger_share_make(struct vg_ledger *ledger, uint64_t bytes, uint32_t *ret_share);
// Changes how many bytes the owner has charged for it.
void vg_ledger_share_resize(struct vg_ledger *ledger, uint32_t share, uint64_t bytes);
// Adds a name. If another shared allocation has the name, replaces it if `instead`; otherwise returns VG_LEDGER_REFUSED
// and changes nothing. VG_LEDGER_FULL: the table has no free entry for the name.
int vg_ledger_share_name(struct vg_ledger *ledger, uint32_t share, uint64_t key, bool instead);
// Returns the number for a name; 0: not found.
uint32_t vg_ledger_share_find(const struct vg_ledger *ledger, uint64_t key);
// Makes this process a holder. Returns 0; VG_LEDGER_GONE: not found, or this process is the owner; VG_LEDGER_FULL,
// -errno: this process has no slot.
int vg_ledger_share_join(struct vg_ledger *ledger, uint64_t key, uint32_t *ret_share, uint64_t *ret_bytes);
// Ends the hold of this process. Call it after the memory was closed. If this process is the owner, *ret_passed is how
// much of its charge (of `kind`, at most `most`) has passed to the shared allocation; the owner refunds the rest. Other
// holders refund nothing.
void vg_ledger_share_leave(struct vg_ledger *ledger, uint32_t share, enum vg_ledger_kind kind, uint64_t most,
			   uint64_t *ret_passed);
// Notes whether the owner has only descriptors of it left, so that NVML counts the memory for another process.
void vg_ledger_share_set_away(struct vg_ledger *ledger, uint32_t share, bool away);

// Returns the charges of shared allocations whose owners have left.
uint64_t vg_ledger_shared(const struct vg_ledger *ledger);

// The following functions are for the daemon only.

struct vg_ledger_share_info {
	uint32_t share;
	uint64_t bytes;
	bool owned;		// the slot `owner` has the charge; otherwise the shared allocation itself
	unsigned int owner;
	bool away;		// vg_ledger_share_set_away
	uint64_t holders[VG_LEDGER_SLOTS / 64]; // a bit for each slot, without the owner
};
// Iterates over the shared allocations, in order. Set *cursor to 0 first. Returns false at the end.
bool vg_ledger_next_share(const struct vg_ledger *ledger, unsigned int *cursor, struct vg_ledger_share_info *ret_info);
static inline bool vg_ledger_share_is_held_by(const struct vg_ledger_share_info *info, unsigned int slot)
{
	return info->holders[slot / 64] >> slot % 64 & 1;
}

// Makes a process that is not a tenant of this vGPU a holder (a guest). It gets a slot without charges, which is reaped
// as others are. `program`: vg_ledger_program_of(); 0: unknown. Returns 0; VG_LEDGER_GONE: not found; VG_LEDGER_FULL;
// -EAGAIN.
int vg_ledger_guest_join(struct vg_ledger *ledger, const struct vg_ledger_owner *process, uint64_t program,
			 uint64_t key, uint32_t *ret_share, uint64_t *ret_bytes);
// Ends the hold of a guest. Returns 0; VG_LEDGER_GONE: it is not a holder; -EAGAIN.
int vg_ledger_guest_leave(struct vg_ledger *ledger, const struct vg_ledger_owner *process, uint32_t share);
