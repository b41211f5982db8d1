// What this process has of the driver, by address or handle: one sharded table for all types, so that a free finds its
// bytes whatever call they came from. Any thread. Not used after a fork.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "ledger/ledger.h"

enum shim_record_type {
	SHIM_POINTER = 1, // device memory, by its address
	SHIM_BLOCK,	  // 2 MiB that small allocations share; key: the address / 2 MiB
	SHIM_HANDLE,	  // of physical memory (cuMemCreate); `data` is the shim_physical
	SHIM_ARRAY,
	SHIM_MIPMAP,
	SHIM_EXTERNAL,
	SHIM_GRAPH_EXEC,
	SHIM_CONTEXT,
	SHIM_MODULE,
	SHIM_LIBRARY,
	SHIM_LIMIT,   // of a context; key: the context and the limit
	SHIM_LOADED,  // a library in a context; key: both, `data`: the library
	SHIM_LOCAL,   // local memory that kernels made a context allocate
	SHIM_CAPTURE, // a stream that is being captured (capture.c)
	SHIM_KERNEL,  // that needs more local memory than a context has from the start: `bytes` a thread, no charge
};

enum { SHIM_BLOCK_SHIFT = 21 };

enum shim_origin {
	SHIM_ALLOCATED, // by cuMemAlloc, cuMemAllocPitch or cuMemAllocManaged
	SHIM_EVICTABLE, // the same, in memory that can move to the host
	SHIM_SMALL,	// the same, in a block that has the charge
	SHIM_POOLED,	// from a pool; `data` is the pool, which has the charge
	SHIM_OPENED,	// from an IPC handle or a pool pointer, opened `references` times; `data` as below
	SHIM_SHARED,	// an allocation that other processes may open: `data` is the shim_physical with the charge
	SHIM_UNKNOWN,	// a kernel that could not be asked yet
	SHIM_UNDONE,	// code that did not fit: the driver has unloaded it
};

struct shim_record {
	uint64_t key;
	uint64_t bytes;
	void *context; // with which it is destroyed; NULL: none
	void *data;
	uint32_t references;
	uint8_t type;	// enum shim_record_type
	uint8_t kind;	// enum vg_ledger_kind
	uint8_t origin; // enum shim_origin
};

// Returns true for memory whose charge is with a shim_physical.
static inline bool shim_record_has_physical(const struct shim_record *record)
{
	return record->origin >= SHIM_OPENED;
}

// Stores a record. Replaces one of the same type and key: then the driver has reused the address. Returns -ENOMEM if it
// stored nothing.
int shim_record_put(const struct shim_record *record);
bool shim_record_find(enum shim_record_type type, uint64_t key, struct shim_record *ret_record);
bool shim_record_remove(enum shim_record_type type, uint64_t key, struct shim_record *ret_record);
// Adds `change` to the references of a record and returns a copy of it; removes it if they become 0. Returns false if
// there is no such record.
bool shim_record_add_references(enum shim_record_type type, uint64_t key, int change, struct shim_record *ret_record);
// Adds a reference to the record of the same type and key, or stores this one with its first. Returns 1 if there was
// one, 0 if it was stored, or -ENOMEM.
int shim_record_reference_or_put(const struct shim_record *record);
// Turns an allocation into one that other processes may open, whose charge is with `data`. Returns false if there is no
// such record, or it is one already.
bool shim_record_set_physical(enum shim_record_type type, uint64_t key, void *data);
// Adds bytes to the record of the same type and key, or stores this one. Returns 0 or -ENOMEM.
int shim_record_add_bytes(const struct shim_record *record);
// Removes all records of a type with `data`, or all records of a context, and calls `removed` for each, with no lock
// held.
void shim_record_remove_data(enum shim_record_type type, const void *data,
			     void (*removed)(const struct shim_record *record));
void shim_record_remove_context(const void *context, void (*removed)(const struct shim_record *record));
