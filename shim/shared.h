// Charges shared allocations (device memory that several processes have open) once: to the process that owns them
// (ledger/shared.h). Processes recognise such memory by a key. The key is a hash of the handle, pool pointer or mark by
// which one process passes the memory to another. Any thread.
#pragma once
#include "shim/physical.h"

enum { SHIM_KEY_IPC = 'i', SHIM_KEY_POINTER = 'p', SHIM_KEY_DESCRIPTOR = 'd', SHIM_KEY_POOL = 'm' };

// Makes memory of this process known by `key`. Processes that open the memory afterwards are not charged for it. If the
// ledger has no room for the key, each of these processes is charged in addition.
void shim_shared_name(struct shim_physical *physical, uint64_t key);
// Finds the shared allocation `key`, and notes in the ledger that this process has it open. Call it before a driver
// call that opens the memory. Returns the allocation with a new reference. NULL: the key is unknown, so this process is
// charged.
struct shim_physical *shim_shared_join(uint64_t key);
// Joins the shared allocation that the marks on a descriptor name (shim/mark.h). kind: SHIM_KEY_DESCRIPTOR or
// SHIM_KEY_POOL.
struct shim_physical *shim_shared_join_descriptor(char kind, int descriptor);
// Makes memory known by `key`. The memory was opened and charged here because the key was unknown. If another process
// has used the key meanwhile, joins that process's allocation and refunds the charge.
void shim_shared_name_or_join(struct shim_physical *physical, uint64_t key);
// Returns whether another process is charged for the memory, which this process has opened.
bool shim_shared_is_joined(struct shim_physical *physical);
// Sets a mark (shim/mark.h) on a descriptor of the memory. Processes that receive the descriptor then find the memory
// by that mark.
void shim_shared_mark(struct shim_physical *physical, int descriptor);
// Sets a mark on a descriptor of memory whose size is unknown. When the size is known, shim_shared_name_marked() lets
// other processes find the memory by that mark.
void shim_shared_mark_only(struct shim_physical *physical, int descriptor);
void shim_shared_name_marked(struct shim_physical *physical);
