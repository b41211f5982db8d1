// Shared allocations: device memory that several processes have open. It is charged once, to its owner
// (ledger/share.h). Processes recognise it by a key: a hash of what one hands to the other. Any thread.
#pragma once
#include "shim/physical.h"

enum { SHIM_KEY_IPC = 'i', SHIM_KEY_POINTER = 'p', SHIM_KEY_DESCRIPTOR = 'd', SHIM_KEY_POOL = 'm' };

// Makes memory of this process known by `key`, so that processes that open it are not charged. If the ledger has no
// room for it, they are charged in addition.
void shim_shared_name(struct shim_physical *physical, uint64_t key);
// Joins the shared allocation that `key` names, for a call that is about to open it. Returns it with a new reference.
// NULL: the key is unknown, and the process that opens the memory is charged.
struct shim_physical *shim_shared_join(uint64_t key);
// Does the same for the marks on a descriptor (shim/mark.h). kind: SHIM_KEY_DESCRIPTOR or SHIM_KEY_POOL.
struct shim_physical *shim_shared_join_descriptor(char kind, int descriptor);
// Makes memory known by `key` that was opened and charged here because the key was unknown. If another process named it
// meanwhile, joins that process's allocation and refunds the charge.
void shim_shared_name_or_join(struct shim_physical *physical, uint64_t key);
// Charges joined memory to this process, before a descriptor of it is exported: the descriptor may outlive this
// process.
CUresult shim_shared_own(enum vg_entry entry, struct shim_physical *physical);
// Marks a descriptor of the memory and makes the memory known by the mark.
void shim_shared_mark(struct shim_physical *physical, int descriptor);
// Marks a descriptor of memory whose size is not known yet; shim_shared_name_marked() then makes the memory known.
void shim_shared_mark_only(struct shim_physical *physical, int descriptor);
void shim_shared_name_marked(struct shim_physical *physical);
