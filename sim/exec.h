// What a context owns for its kernels: modules, the heap, printf's output (module_exec.c). Any thread.
#pragma once

#include "sim.h"

struct CUmod_st;
struct ptx_heap;

enum { SIM_WORKSPACE = 256, SIM_WORKSPACES = 64 };

struct sim_exec { // a context's modules and heap; a green context uses those of its parent
	pthread_mutex_t lock;
	struct CUmod_st *modules;
	struct ptx_heap *heap;
	CUdeviceptr heap_memory;
	CUdeviceptr workspaces;	 // workspaces of cooperative launches: slots of SIM_WORKSPACE bytes
	uint64_t workspace_used; // a bit for each used slot
	// printf's output since the host last waited, the oldest first.
	char *printed;
	size_t printed_length;
};
CUresult sim_exec_get(struct sim_context *context, struct sim_exec **ret_exec);
// Creates the heap of kernels that call malloc, unless it exists.
CUresult sim_exec_create_heap(struct sim_context *context);
CUresult sim_exec_workspace_alloc(struct sim_context *context, CUdeviceptr *ret_workspace);
void sim_exec_workspace_free(struct sim_context *context, CUdeviceptr workspace);
void sim_exec_print(void *context, const char *text, size_t length);
bool sim_exec_is_verbose(void); // VIRGATE_SIM_LOG is set
// The host has waited for work of the context (stream, event, context, synchronous copy): writes printf's output.
void sim_exec_flush_output(struct sim_context *context);
// cuCtxSetLimit: sets the size of the heap or of printf's buffer.
CUresult sim_exec_set_limit(struct sim_context *context, CUlimit limit, size_t value);
// Frees the modules, the heap and the buffers of a context that ends.
void sim_exec_context_finish(struct sim_context *context);
