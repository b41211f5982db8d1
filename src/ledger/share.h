// Memory that several processes hold is charged once. Who allocated it (or brought it into the vGPU) is
// its owner, and has the charge among its own as long as it holds the memory. When the owner goes and
// others hold it still, the charge passes to the share itself, and the last one to go refunds it. Any
// thread; a process holds a share once, however often it has opened the memory.
#pragma once
#include "ledger/ledger.h"

// The lowest bits of a share's number are never all 0.
enum { VG_LEDGER_SHARES = 2048, VG_LEDGER_SHARE_BITS = 12 };

// What both sides can know memory by: a hash of what the one hands to the other. `kind` keeps apart what
// comes from different calls.
uint64_t vg_ledger_key(char kind, const void *bytes, size_t length);

// From here on: tenants. A share is known by a number, never 0, that no later one has.

// This process is the owner of a new share: `bytes` (a multiple of 4 KiB) of what it has charged. VG_LEDGER_FULL: there
// is no place, or the size cannot be said.
int vg_ledger_share_make(struct vg_ledger *ledger, uint64_t bytes, uint32_t *ret_share);
// The owner has so much charged for it now.
void vg_ledger_share_resize(struct vg_ledger *ledger, uint32_t share, uint64_t bytes);
// Gives it one name more. Where another share has the name, `instead` takes it away from that one;
// else VG_LEDGER_REFUSED, and nothing is changed. VG_LEDGER_FULL: there is no place.
int vg_ledger_share_name(struct vg_ledger *ledger, uint32_t share, uint64_t key, bool instead);
// What `key` names; 0: nothing here.
uint32_t vg_ledger_share_find(const struct vg_ledger *ledger, uint64_t key);
// Holds what `key` names from here on. VG_LEDGER_GONE: nothing has that name here, or it is the caller's own;
// VG_LEDGER_FULL, -errno: this process could not get a slot.
int vg_ledger_share_join(struct vg_ledger *ledger, uint64_t key, uint32_t *ret_share, uint64_t *ret_bytes);
// After the memory was given back. The owner gets to know how much of its charge (of `kind`, `most` at most) has passed
// to the share: the rest is its own to refund. Others have nothing to refund.
void vg_ledger_share_leave(struct vg_ledger *ledger, uint32_t share, enum vg_ledger_kind kind, uint64_t most,
			   uint64_t *ret_passed);
// The owner has nothing of it any more but descriptors: the device shows the memory under somebody else.
void vg_ledger_share_set_away(struct vg_ledger *ledger, uint32_t share, bool away);

// What is charged to shares whose owners have gone.
uint64_t vg_ledger_shared(const struct vg_ledger *ledger);

// From here on: the daemon only.

struct vg_ledger_share_info {
	uint32_t share;
	uint64_t bytes;
	bool owned;		// by `owner`, a slot; else the share has the charge itself
	unsigned int owner;
	bool away;		// vg_ledger_share_set_away
	uint64_t holders[VG_LEDGER_SLOTS / 64]; // slots, without the owner
};
// The shares in use, in order: call with *cursor 0 first. False at the end.
bool vg_ledger_next_share(const struct vg_ledger *ledger, unsigned int *cursor, struct vg_ledger_share_info *ret_info);
static inline bool vg_ledger_share_is_held_by(const struct vg_ledger_share_info *info, unsigned int slot)
{
	return info->holders[slot / 64] >> slot % 64 & 1;
}

// A process that is no tenant of this vGPU holds what `key` names: it is given a slot in which nothing is charged (a
// guest), that is reaped like any other. `program`: which of the process's programs it is (vg_ledger_program_of), 0:
// not known. VG_LEDGER_GONE: nothing has that name; VG_LEDGER_FULL; -EAGAIN.
int vg_ledger_guest_join(struct vg_ledger *ledger, const struct vg_ledger_owner *process, uint64_t program,
			 uint64_t key, uint32_t *ret_share, uint64_t *ret_bytes);
// The guest has given it back. VG_LEDGER_GONE: it had not got it.
int vg_ledger_guest_leave(struct vg_ledger *ledger, const struct vg_ledger_owner *process, uint32_t share);
