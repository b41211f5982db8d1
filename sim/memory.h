// Between the memory files. Under the memory lock unless said otherwise.
#pragma once

#include "sim.h"

#define SIM_HOST_MEMORY "virgate-sim-host" // how descriptors of memory on the host are named

unsigned long long sim_buffer_id(void); // any thread, no lock
// Memory that the region has already given us (or, `memory` >= 0, host memory).
struct sim_physical *sim_physical_adopt(struct sim_device *device, uint64_t id, size_t size, int memory);
// Zeroed memory of the host's, which the host and devices may map; CUDA_ERROR_OUT_OF_MEMORY.
CUresult sim_physical_on_host(size_t size, struct sim_physical **ret_physical);
bool sim_numa_node(int node); // the machine has it; any thread, no lock
// Another of this process's structs stands for the same memory (it was imported).
bool sim_physical_held_otherwise(const struct sim_physical *physical);
struct sim_physical *sim_handle_find(CUmemGenericAllocationHandle handle); // NULL: not a handle
void sim_handle_forget(CUmemGenericAllocationHandle handle); // vmm.c: its memory goes
// Lets the host use the addresses; only for memory that is located there.
CUresult sim_mapping_host(struct sim_mapping *mapping);
// Opens a mapped range to the devices that may use the context's allocations.
void sim_range_open(struct sim_range *range, struct sim_context *context);

// Calls `each` for every reserved range, in order of address; `each` may free that range.
void sim_ranges_each(void (*each)(struct sim_range *range, void *data), void *data);

// Small allocations share granules, in units of 512 bytes (block.c).
CUresult sim_block_alloc(struct sim_context *context, size_t size, CUdeviceptr *ret_address);
bool sim_block_free(struct sim_range *range, CUdeviceptr address); // false: no allocation starts there
bool sim_block_find(struct sim_range *range, CUdeviceptr address, struct sim_pointer *ret_pointer);
void sim_block_finish(struct sim_range *range); // its struct only; the range goes with its context
// A new range with memory behind it, open to the context's device and its peers.
CUresult sim_range_alloc(struct sim_context *context, size_t size, enum sim_range_kind kind,
			 struct sim_range **ret_range);

// Pools (pool.c).
bool sim_pool_find(struct sim_range *range, CUdeviceptr address, struct sim_pointer *ret_pointer);
// cuMemFree of a pool's pointer; takes no lock of the caller's. false: no allocation starts there.
bool sim_pool_free(CUdeviceptr address);
CUmemoryPool sim_pool_handle_of(struct sim_range *range);

// Pinned and managed memory (host.c); take their own lock.
bool sim_host_find(uintptr_t address, struct sim_pointer *ret_pointer);
CUresult sim_host_free(uintptr_t base, bool managed);
// Whether there is any managed memory, of whatever kind.
bool sim_host_has_managed(void);
// Changes the managed memory that holds all of [address, address + size); false: there is none.
bool sim_host_update(uintptr_t address, size_t size, void (*change)(struct sim_host *host, void *data), void *data);
void sim_host_context_finish(struct sim_context *context);
// A piece of a managed pool: it takes advice like other managed memory.
CUresult sim_host_pool_add(uintptr_t base, size_t size);
void sim_host_pool_remove(uintptr_t base);

// For checkpoints, with the memory lock: all physical memory of the process, and taking its
// bytes away from (or giving them back to) the addresses where it is mapped. 0 or -ENOMEM.
void sim_physicals_each(void (*each)(struct sim_physical *physical, void *data), void *data);
int sim_physical_backing(const struct sim_physical *physical, bool present);
void sim_ipc_finish(struct sim_range *range); // ipc.c: the range goes with its context
