// Memory that the allocation nodes of graphs allocate (graph_memory.c). Any thread.
#pragma once

#include "sim.h"

#define SIM_GRAPH_CHUNK (32 * SIM_MIB)

// Memory of an allocation node. It has addresses from the creation of the node, and physical memory from the upload or
// launch. The node, its clones and its executable graphs share it.
struct sim_graph_memory {
	_Atomic int references; // references; one more while the memory is live
	struct sim_context *context;
	struct sim_range *range;
	CUdeviceptr address;
	size_t size;	   // a multiple of SIM_GRAPH_CHUNK
	bool live;	   // a launch has allocated the memory, and it was not freed since
	bool backed;	   // the memory has physical memory
	bool instantiated; // true: an executable graph has the memory; a second one may not have it
	CUDA_MEM_ALLOC_NODE_PARAMS_v2 params;
	CUmemAccessDesc access[SIM_DEVICES]; // of params
};

CUresult sim_graph_memory_new(struct sim_context *context, const CUDA_MEM_ALLOC_NODE_PARAMS_v2 *params,
			      struct sim_graph_memory **ret_memory);
struct sim_graph_memory *sim_graph_memory_ref(struct sim_graph_memory *memory);
void sim_graph_memory_unref(struct sim_graph_memory *memory);	   // NULL: does nothing
CUresult sim_graph_memory_upload(struct sim_graph_memory *memory); // allocates its physical memory
// Marks the memory as live: a launch that does not free it again was submitted. CUDA_ERROR_INVALID_VALUE: it is live
// already, and `free_first` is not set.
CUresult sim_graph_memory_mark_live(struct sim_graph_memory *memory, bool free_first);
// Returns what sim_graph_memory_mark_live() would return.
CUresult sim_graph_memory_check_live(const struct sim_graph_memory *memory, bool free_first);
// Returns whether a launch has allocated the memory at this address, and it was not freed since.
bool sim_graph_memory_is_live(CUdeviceptr address);
// Frees live memory by its address (cuMemFree, cuMemFreeAsync). CUDA_ERROR_INVALID_VALUE: no live memory starts there.
CUresult sim_graph_memory_free(CUdeviceptr address);
