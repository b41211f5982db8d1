// What this process holds, by address or handle: one sharded table for all kinds, so that a
// free finds its bytes whatever call they came from. Any thread. Not used after a fork.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "ledger/ledger.h"

enum shim_what {
	SHIM_POINTER = 1, // device memory by its address
	SHIM_BLOCK,	  // 2 MiB that small allocations share: `key` is its address / 2 MiB
	SHIM_HANDLE,	  // of physical memory (VMM); `data` is the shim_physical
	SHIM_ARRAY,
	SHIM_MIPMAP,
	SHIM_EXTERNAL,
	SHIM_GRAPH_EXEC,
	SHIM_CONTEXT,
	SHIM_MODULE,
	SHIM_LIBRARY,
	SHIM_LIMIT, // of a context: `key` is both
	SHIM_LOADED, // a library in a context: `key` is both, `data` the library
	SHIM_LOCAL,  // of a context: local memory that kernels made it hold
	SHIM_CAPTURE, // of a stream: see capture.c
	SHIM_KERNEL, // that needs more local memory than a context begins with: `bytes` a thread, no charge
};

enum { SHIM_BLOCK_SHIFT = 21 };

enum shim_origin {
	SHIM_ALLOCATED, // alloc, pitch, managed
	SHIM_EVICTABLE, // the same, in memory that can move to the host
	SHIM_SMALL,	// the same, in a block that holds the charge
	SHIM_POOLED,	// out of a pool; `data` is the pool, which holds the charge
	SHIM_OPENED,	// an IPC handle or a pool's pointer opened here, `references` times; `data` as below
	SHIM_LENT,	// an allocation that others may hold as well: `data` is the shim_physical, with the charge
	SHIM_UNKNOWN,	// a kernel that could not be asked yet
	SHIM_UNDONE,	// a library that did not fit: the driver has it no more
};

struct shim_record {
	uint64_t key;
	uint64_t bytes;
	void *context; // with which it goes away; NULL: it stays
	void *data;
	uint32_t references;
	uint8_t what; // enum shim_what
	uint8_t kind; // enum vg_ledger_kind
	uint8_t origin; // enum shim_origin
};

// Of the origins of memory, the last two: its charge is with a shim_physical.
static inline bool shim_record_is_held(const struct shim_record *record)
{
	return record->origin >= SHIM_OPENED;
}

// Replaces a record of the same key and kind of thing: the driver has reused the address.
// -ENOMEM: nothing was stored.
int shim_record_put(const struct shim_record *record);
bool shim_record_find(enum shim_what what, uint64_t key, struct shim_record *ret_record);
// Removes it.
bool shim_record_take(enum shim_what what, uint64_t key, struct shim_record *ret_record);
// Adds to `references` of an existing record and says what they are now; at 0 the record is
// taken. False: no such record.
bool shim_record_count(enum shim_what what, uint64_t key, int change, struct shim_record *ret_record);
// One reference more to the record of the same key, or, if there is none, this one with its
// first. 1: there was one; 0: stored; -ENOMEM.
int shim_record_join(const struct shim_record *record);
// An allocation that others may hold as well from now on: the charge is with `data`. False: no such record, or it was
// lent already.
bool shim_record_lend(enum shim_what what, uint64_t key, void *data);
// Adds to `bytes` of the record of the same key, or stores this one. -ENOMEM.
int shim_record_grow(const struct shim_record *record);
// Takes every record of that kind of thing with `data`, and hands each to `take`, with no lock held.
void shim_record_sweep_data(enum shim_what what, const void *data, void (*take)(const struct shim_record *record));
// Takes every record of `context` and hands each to `take`, with no lock held.
void shim_record_sweep(const void *context, void (*take)(const struct shim_record *record));
