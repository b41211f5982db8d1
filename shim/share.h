// Memory that this process shares with others, by what both sides know it by (ledger/share.h): charged once. Any
// thread.
#pragma once
#include "shim/vmm.h"

enum { SHIM_KEY_IPC = 'i', SHIM_KEY_POINTER = 'p', SHIM_KEY_DESCRIPTOR = 'd', SHIM_KEY_POOL = 'm' };

// What this process holds, others may open by `key` from now on. What cannot be published they are charged for as well.
void shim_share_publish(struct shim_physical *physical, uint64_t key);
// The memory that `key` names, with one holder more, for a call that is about to open it. NULL: nobody knows it, and
// who opens it is charged.
struct shim_physical *shim_share_hold(uint64_t key);
// The same of what descriptors carry: SHIM_KEY_DESCRIPTOR, SHIM_KEY_POOL.
struct shim_physical *shim_share_hold_descriptor(char kind, int descriptor);
// What was opened here, and charged, since nobody knew it: known from now on, unless somebody was quicker, whose it is
// then.
void shim_share_offer(struct shim_physical *physical, uint64_t key);
// Before a descriptor is made of it: what is another's becomes our own, since the descriptor may outlive us.
CUresult shim_share_own(enum vg_entry entry, struct shim_physical *physical);
// Puts the memory's name on a descriptor of it, where every copy has it.
void shim_share_mark(struct shim_physical *physical, int descriptor);
// The same for memory that nobody knows, which is offered once its size is known.
void shim_share_mark_later(struct shim_physical *physical, int descriptor);
void shim_share_offer_marked(struct shim_physical *physical);

// mark.c: a mark is a read lock of the open file itself, on a byte that no file has: it goes wherever the descriptor
// goes. 0: it cannot be marked.
uint64_t shim_mark_put(int descriptor, uint64_t mark);
// Returns how many there are, `most` at most.
unsigned int shim_mark_read(int descriptor, uint64_t *ret_marks, unsigned int most);
