// Declares device addresses, mappings and physical memory (address.c, memory.c, block.c, vmm.c, ipc.c). Each group of
// functions says whether its caller has the memory lock.
#pragma once

#include <sys/types.h>

#include "sim.h"

#define SIM_HOST_MEMORY "virgate-sim-host" // name of the files behind descriptors of host memory

// A physical allocation of whole granules (2 MiB). All processes know it by the same id.
struct sim_physical {
	_Atomic int references;	   // references of handles and mappings in this process
	struct sim_device *device; // NULL: host memory, with the descriptor `memory`
	uint64_t id;		   // id in the state that all processes of the node share
	size_t size;
	int memory; // descriptor of host memory, or -1
	off_t memory_offset;
	bool borrowed; // the descriptor belongs to a pool, so it is not closed here
	// if the memory was imported: the error with which every restore from a checkpoint fails; otherwise 0
	CUresult foreign;
	// the memory was exported or imported, so another struct of this process may represent it, too
	bool shared;
	bool driver;			     // the driver allocated the memory for itself: contexts, stacks
	CUmemAllocationProp properties;	     // of cuMemCreate
	CUmemGenericAllocationHandle handle; // handle that vmm.c returned to the program; 0: none yet
	unsigned handles;		     // number of the program's references to the handle
	unsigned long long buffer_id;
	struct sim_physical *next, *previous; // list of all physical memory of the process, under the memory lock
	int shadow;			      // while the process is checkpointed: descriptor of a private copy; or -1
};

enum sim_range_kind {
	SIM_RANGE_DEVICE,   // memory of cuMemAlloc larger than a granule, and of arrays
	SIM_RANGE_BLOCK,    // a granule that small allocations share
	SIM_RANGE_RESERVED, // cuMemAddressReserve
	SIM_RANGE_POOL,	    // a memory pool
	SIM_RANGE_IPC,	    // memory of another process that cuIpcOpenMemHandle opened
	SIM_RANGE_GRAPH,    // memory of allocation nodes of graphs
	SIM_RANGE_MODULE,   // variables and code of modules, heaps of kernels
};

struct sim_mapping { // physical memory at an address
	CUdeviceptr base;
	size_t size;
	struct sim_physical *physical;
	unsigned char access[SIM_DEVICES]; // CUmemAccess_flags for each device ordinal
	struct sim_range *range;
	bool host;		  // the memory is host memory, and the host may access it by these addresses
	struct sim_mapping *next; // next mapping of the range, by address
};

struct sim_range { // reserved device addresses
	CUdeviceptr base;
	size_t size, asked; // in bytes: rounded up to whole granules, and as the caller requested
	enum sim_range_kind kind;
	struct sim_context *context;
	struct sim_device *device;
	struct sim_mapping *mappings;
	unsigned long long buffer_id;
	bool sync_memops;
	void *owner; // depends on the kind: struct sim_block, struct sim_pool, …
};

CUresult sim_address_start(void); // Allocates the tables for the window; cuInit calls it
void sim_memory_lock(void);
void sim_memory_unlock(void);

// ---- with the memory lock held ----

// Reserves whole granules of addresses, if possible at `hint`. `hint` 0: anywhere.
CUresult sim_range_reserve(size_t size, size_t alignment, CUdeviceptr hint, enum sim_range_kind kind,
			   struct sim_range **ret_range);
void sim_range_free(struct sim_range *range);	       // frees the range of addresses, and removes the mappings in it
struct sim_range *sim_range_find(CUdeviceptr address); // NULL: the address is not reserved
// Calls `each` for every reserved range, in order of address. `each` may free that range.
void sim_ranges_each(void (*each)(struct sim_range *range, void *data), void *data);
CUresult sim_range_map(struct sim_range *range, CUdeviceptr base, struct sim_physical *physical);
// Makes a mapped range accessible to the context's device, and to devices with peer access to that device.
void sim_range_open(struct sim_range *range, struct sim_context *context);
// Reserves a range and maps new memory there. The context's device, and devices with peer access, get access.
CUresult sim_range_alloc(struct sim_context *context, size_t size, enum sim_range_kind kind,
			 struct sim_range **ret_range);
struct sim_mapping *sim_mapping_find(CUdeviceptr address);
void sim_mapping_remove(struct sim_mapping *mapping);
void sim_mapping_set_access(struct sim_mapping *mapping, struct sim_device *device, CUmemAccess_flags access);
// Lets the host access memory by its device addresses. The memory must be host memory.
CUresult sim_mapping_open_to_host(struct sim_mapping *mapping);

// Allocates zeroed memory of `device`. `size` must be a multiple of a granule. May return CUDA_ERROR_OUT_OF_MEMORY.
CUresult sim_physical_create(struct sim_device *device, size_t size, struct sim_physical **ret_physical);
// Allocates zeroed memory in the host, which the host and devices may map. May return CUDA_ERROR_OUT_OF_MEMORY.
CUresult sim_physical_create_on_host(size_t size, struct sim_physical **ret_physical);
// Creates a struct for memory of which this process has a reference already. If `memory` is not -1, it is the
// descriptor of host memory. Otherwise `id` is that of device memory. NULL: out of memory.
struct sim_physical *sim_physical_adopt(struct sim_device *device, uint64_t id, size_t size, int memory);
// Drops a reference. The last one frees the memory. NULL: does nothing.
void sim_physical_unref(struct sim_physical *physical);
// Returns whether another struct of this process represents the same memory, because the process has imported it.
bool sim_physical_has_duplicate(const struct sim_physical *physical);
struct sim_physical *sim_handle_find(CUmemGenericAllocationHandle handle); // NULL: no such handle
void sim_handle_forget(CUmemGenericAllocationHandle handle);		   // removes the handle of freed memory
// For checkpoints: calls `each` for all physical memory of the process.
void sim_physicals_each(void (*each)(struct sim_physical *physical, void *data), void *data);
// For checkpoints: unmaps the memory at all of its addresses, which stay reserved.
void sim_physical_unmap(struct sim_physical *physical);
// For checkpoints: maps the memory again at the addresses from which sim_physical_unmap() unmapped it.
int sim_physical_remap(const struct sim_physical *physical);

// The following functions manage small allocations: several share a granule of 2 MiB, in units of 512 bytes (block.c).
CUresult sim_block_alloc(struct sim_context *context, size_t size, CUdeviceptr *ret_address);
bool sim_block_free(struct sim_range *range, CUdeviceptr address); // false: no allocation starts there
bool sim_block_find(struct sim_range *range, CUdeviceptr address, struct sim_pointer *ret_pointer);
void sim_block_finish(struct sim_range *range); // frees only the struct sim_block; the range is freed with its context
void sim_ipc_finish(struct sim_range *range);	// frees only range->owner; the range is freed with its context

// ---- without the memory lock ----

unsigned long long sim_new_buffer_id(void); // returns a new id
bool sim_has_numa_node(int node);	    // whether the machine has the NUMA node
static inline bool sim_is_host_location(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_HOST || location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
	       location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}
// Allocates addresses and memory that the context's device and its peers may access.
CUresult sim_memory_alloc(struct sim_context *context, size_t size, enum sim_range_kind kind, CUdeviceptr *ret_address);
// Frees without waiting for anything. CUDA_ERROR_INVALID_VALUE: no allocation starts there.
CUresult sim_memory_free(CUdeviceptr address);
void sim_memory_context_finish(struct sim_context *context);
enum sim_access { SIM_READ, SIM_WRITE };
// Returns the address at which the host can access `length` bytes of device, pinned or managed memory. Returns NULL if
// `device` has no access to all of them. The address is valid while the memory stays mapped.
void *sim_memory_translate(const struct sim_device *device, CUdeviceptr address, size_t length, enum sim_access access);

// What the driver knows about an address, for the checks of copies and for pointer attributes.
struct sim_pointer {
	CUmemorytype type;
	CUdeviceptr base;
	size_t size;
	struct sim_device *device;
	struct sim_context *context;
	bool managed, mapped;	 // mapped: the address has physical memory
	bool host_access;	 // the host may use the address
	struct sim_range *range; // the range of device addresses that contains the address; or NULL
	struct sim_host *host;	 // the entry of the address, if it is in pinned or managed memory; or NULL
	unsigned long long buffer_id;
};
bool sim_pointer_find(CUdeviceptr address, struct sim_pointer *ret_pointer); // false: unknown to the driver
