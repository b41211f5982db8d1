// Declares what a context owns for its kernels: modules, the heap, printf's output (module_exec.c). Any thread.
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
	CUdeviceptr workspaces;	 // memory for cooperative launches, in parts of SIM_WORKSPACE bytes
	uint64_t workspace_used; // a bit for each part that is in use
	// Output of printf that is not written yet. It is written when the host waits for work.
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
// Writes the output of printf. Call it after the host has waited for work of the context, as by cuStreamSynchronize.
void sim_exec_flush_output(struct sim_context *context);
// Implements cuCtxSetLimit for the sizes of the heap and of printf's buffer.
CUresult sim_exec_set_limit(struct sim_context *context, CUlimit limit, size_t value);
// Frees the modules, the heap and the buffers of a context that ends.
void sim_exec_context_finish(struct sim_context *context);
