// Keeps a record of each driver object that this process has, by the object's address or handle. A record says how many
// bytes are charged for the object, so that they can be refunded. Any thread. Not used after a fork.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "ledger/ledger.h"

enum shim_record_type {
	SHIM_POINTER = 1, // device memory; key: its address
	SHIM_BLOCK,	  // a block of 2 MiB that small allocations share; key: the address / 2 MiB
	SHIM_HANDLE,	  // a handle of physical memory (cuMemCreate); `data` is the memory's struct shim_physical
	SHIM_ARRAY,
	SHIM_MIPMAP,
	SHIM_EXTERNAL,
	SHIM_GRAPH_EXEC,
	SHIM_CONTEXT,
	SHIM_MODULE,
	SHIM_LIBRARY,
	SHIM_LIMIT, // a limit of a context; its key is made of the context and the limit
	// a library that is loaded in a context; its key is made of the library and the context; `data` is the library
	SHIM_LOADED,
	SHIM_LOCAL,   // local memory that kernels made a context allocate
	SHIM_CAPTURE, // a stream that is being captured (capture.c)
	// a kernel that needs more local memory than a new context has; `bytes`: its need per thread, which is not
	// charged
	SHIM_KERNEL,
};

enum { SHIM_BLOCK_SHIFT = 21 };

enum shim_origin {
	SHIM_ALLOCATED, // allocated by cuMemAlloc, cuMemAllocPitch or cuMemAllocManaged
	SHIM_EVICTABLE, // allocated by cuMemAlloc or cuMemAllocPitch, in memory that can move to the host
	SHIM_SMALL,	// a small allocation in a block; the block has the charge
	SHIM_POOLED,	// allocated from a pool; `data` is the pool, which has the charge
	// opened `references` times, from an IPC handle or a pool pointer; `data` is its struct shim_physical
	SHIM_OPENED,
	// an allocation that other processes may open; `data` is its struct shim_physical, which has the charge
	SHIM_SHARED,
	SHIM_UNKNOWN, // a kernel whose local memory is not known yet
	SHIM_UNDONE,  // code that did not fit, so it was unloaded
};

struct shim_record {
	uint64_t key;
	uint64_t bytes;
	void *context; // the context whose destruction destroys the object; NULL: none
	void *data;
	uint32_t references;
	uint8_t type;	// enum shim_record_type
	uint8_t kind;	// enum vg_ledger_kind
	uint8_t origin; // enum shim_origin
	// Ordinal of the device whose ledger has the charge, plus 1. The caller may leave it 0: then the function that
	// stores the record sets it.
	uint8_t device;
};

// Returns true for memory whose charge is stored in a struct shim_physical instead of the record.
static inline bool shim_record_has_physical(const struct shim_record *record)
{
	return record->origin >= SHIM_OPENED;
}

// Stores a record. Replaces a record of the same type and key, because then the driver has reused the address. Returns
// -ENOMEM if nothing was stored.
int shim_record_put(const struct shim_record *record);
bool shim_record_find(enum shim_record_type type, uint64_t key, struct shim_record *ret_record);
bool shim_record_remove(enum shim_record_type type, uint64_t key, struct shim_record *ret_record);
// Adds `change` to the reference count of a record, copies the record to the caller, and removes it if the count
// becomes 0. Returns false if there is no such record.
bool shim_record_add_references(enum shim_record_type type, uint64_t key, int change, struct shim_record *ret_record);
// Adds a reference to the record of the same type and key, or stores this record with one reference. Returns 1 if there
// was such a record, 0 if this one was stored, or -ENOMEM.
int shim_record_reference_or_put(const struct shim_record *record);
// Turns the record of an allocation into one of a shared allocation. `data` is its struct shim_physical, which has the
// charge from then on. Returns false if there is no such record, or the allocation is shared already.
bool shim_record_set_physical(enum shim_record_type type, uint64_t key, void *data);
// Adds the bytes to the record of the same type and key, or stores this record. Returns 0 or -ENOMEM.
int shim_record_add_bytes(const struct shim_record *record);
// Removes all records of a type with this `data`, or all records of a context. Calls `removed` for each of them with no
// lock held.
void shim_record_remove_data(enum shim_record_type type, const void *data,
			     void (*removed)(const struct shim_record *record));
void shim_record_remove_context(const void *context, void (*removed)(const struct shim_record *record));
