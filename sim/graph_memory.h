// Declares the memory that allocation nodes of graphs allocate (graph_memory.c). Any thread.
#pragma once

#include "sim.h"

#define SIM_GRAPH_CHUNK (32 * SIM_MIB)

// The memory of an allocation node. The node reserves its addresses when it is created. It gets physical memory when a
// graph with it is uploaded or launched. The node, its clones and the executable graphs with it share this struct.
struct sim_graph_memory {
	_Atomic int references; // number of references; while `live` is set, that counts as one
	struct sim_context *context;
	struct sim_range *range;
	CUdeviceptr address;
	size_t size;	   // a multiple of SIM_GRAPH_CHUNK
	bool live;	   // a launch has allocated the memory, and it was not freed since
	bool backed;	   // physical memory is mapped at the addresses
	bool instantiated; // an executable graph has the memory; a second one must not have it
	CUDA_MEM_ALLOC_NODE_PARAMS_v2 params;
	CUmemAccessDesc access[SIM_DEVICES]; // of params
};

CUresult sim_graph_memory_new(struct sim_context *context, const CUDA_MEM_ALLOC_NODE_PARAMS_v2 *params,
			      struct sim_graph_memory **ret_memory);
struct sim_graph_memory *sim_graph_memory_ref(struct sim_graph_memory *memory);
void sim_graph_memory_unref(struct sim_graph_memory *memory);	   // NULL: does nothing
CUresult sim_graph_memory_upload(struct sim_graph_memory *memory); // allocates the physical memory
// Notes that a launch has allocated the memory and does not free it. CUDA_ERROR_INVALID_VALUE: an earlier launch has
// allocated it already, and `free_first` is not set.
CUresult sim_graph_memory_mark_live(struct sim_graph_memory *memory, bool free_first);
// Returns what sim_graph_memory_mark_live() would return, and changes nothing.
CUresult sim_graph_memory_check_live(const struct sim_graph_memory *memory, bool free_first);
// Returns whether a launch has allocated the memory at this address, and it was not freed since.
bool sim_graph_memory_is_live(CUdeviceptr address);
// Frees live memory by its address (cuMemFree, cuMemFreeAsync). CUDA_ERROR_INVALID_VALUE: no live memory starts there.
CUresult sim_graph_memory_free(CUdeviceptr address);
