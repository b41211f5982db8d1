// Manages what a context owns for its kernels: modules, the heap, memory for cooperative launches, printf's output.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "context.h"
#include "memory.h"
#include "module.h"

static pthread_mutex_t create_lock = PTHREAD_MUTEX_INITIALIZER;

bool sim_exec_is_verbose(void)
{
	const char *wanted = getenv("VIRGATE_SIM_LOG");
	return wanted && *wanted && strcmp(wanted, "0") != 0;
}

CUresult sim_exec_get(struct sim_context *context, struct sim_exec **ret_exec)
{
	struct sim_context *owner = context->parent;
	struct sim_exec *exec;

	pthread_mutex_lock(&create_lock);
	exec = owner->exec;
	if (!exec) {
		exec = calloc(1, sizeof *exec);
		if (exec) {
			pthread_mutex_init(&exec->lock, NULL);
			atomic_store_explicit(&owner->exec, exec, memory_order_release);
		}
	}
	pthread_mutex_unlock(&create_lock);
	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_exec = exec;
	return CUDA_SUCCESS;
}

// Allocates the heap of kernels. Call it with exec->lock held.
static CUresult alloc_heap(struct sim_context *owner, struct sim_exec *exec)
{
	size_t size = owner->limits[CU_LIMIT_MALLOC_HEAP_SIZE];

	SIM_TRY(sim_memory_alloc(owner, size, SIM_RANGE_MODULE, &exec->heap_memory));
	exec->heap = ptx_heap_create(exec->heap_memory, size);
	if (exec->heap)
		return CUDA_SUCCESS;
	sim_memory_free(exec->heap_memory);
	exec->heap_memory = 0;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_exec_create_heap(struct sim_context *context)
{
	struct sim_exec *exec;

	SIM_TRY(sim_exec_get(context, &exec));
	pthread_mutex_lock(&exec->lock);
	CUresult result = exec->heap ? CUDA_SUCCESS : alloc_heap(context->parent, exec);
	pthread_mutex_unlock(&exec->lock);
	return result;
}

// Allocates memory in which the blocks of a cooperative launch synchronize. Call it with exec->lock held.
static CUresult alloc_workspace(struct sim_context *owner, struct sim_exec *exec, CUdeviceptr *ret_workspace)
{
	if (!exec->workspaces)
		SIM_TRY(sim_memory_alloc(owner, SIM_WORKSPACE * SIM_WORKSPACES, SIM_RANGE_MODULE, &exec->workspaces));
	if (exec->workspace_used == UINT64_MAX)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	int slot = __builtin_ctzll(~exec->workspace_used);
	exec->workspace_used |= (uint64_t)1 << slot;
	*ret_workspace = exec->workspaces + (CUdeviceptr)slot * SIM_WORKSPACE;
	return CUDA_SUCCESS;
}

CUresult sim_exec_workspace_alloc(struct sim_context *context, CUdeviceptr *ret_workspace)
{
	struct sim_exec *exec;

	SIM_TRY(sim_exec_get(context, &exec));
	pthread_mutex_lock(&exec->lock);
	CUresult result = alloc_workspace(context->parent, exec, ret_workspace);
	pthread_mutex_unlock(&exec->lock);
	SIM_TRY(result);
	memset(sim_memory_translate(context->device, *ret_workspace, SIM_WORKSPACE, SIM_WRITE), 0, SIM_WORKSPACE);
	return CUDA_SUCCESS;
}

void sim_exec_workspace_free(struct sim_context *context, CUdeviceptr workspace)
{
	struct sim_exec *exec = context->parent->exec;

	pthread_mutex_lock(&exec->lock);
	exec->workspace_used &= ~((uint64_t)1 << ((workspace - exec->workspaces) / SIM_WORKSPACE));
	pthread_mutex_unlock(&exec->lock);
}

// Adds output of printf. If the buffer of CU_LIMIT_PRINTF_FIFO_SIZE bytes is full, its oldest lines are lost.
void sim_exec_print(void *argument, const char *text, size_t length)
{
	struct sim_context *context = argument;
	size_t capacity = context->parent->limits[CU_LIMIT_PRINTF_FIFO_SIZE];
	struct sim_exec *exec;

	if (sim_exec_get(context, &exec) != CUDA_SUCCESS || length > capacity)
		return;
	pthread_mutex_lock(&exec->lock);
	if (exec->printed_length + length > capacity) {
		size_t drop = exec->printed_length + length - capacity;
		char *line = memchr(exec->printed + drop, '\n', exec->printed_length - drop);
		drop = line ? (size_t)(line + 1 - exec->printed) : exec->printed_length;
		memmove(exec->printed, exec->printed + drop, exec->printed_length - drop);
		exec->printed_length -= drop;
	}
	char *printed = realloc(exec->printed, exec->printed_length + length);
	if (printed) {
		memcpy(printed + exec->printed_length, text, length);
		exec->printed = printed;
		exec->printed_length += length;
	}
	pthread_mutex_unlock(&exec->lock);
}

void sim_exec_flush_output(struct sim_context *context)
{
	struct sim_exec *exec = atomic_load_explicit(&context->parent->exec, memory_order_acquire);

	if (!exec)
		return;
	pthread_mutex_lock(&exec->lock);
	char *printed = exec->printed;
	size_t length = exec->printed_length;
	exec->printed = NULL;
	exec->printed_length = 0;
	pthread_mutex_unlock(&exec->lock);
	if (length)
		fwrite(printed, 1, length, stdout);
	free(printed);
}

CUresult sim_exec_set_limit(struct sim_context *context, CUlimit limit, size_t value)
{
	struct sim_exec *exec = context->parent->exec;

	// The heap keeps its size once a module that uses it has been loaded.
	if (limit == CU_LIMIT_MALLOC_HEAP_SIZE && exec && exec->heap && value != context->limits[limit])
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

void sim_exec_context_finish(struct sim_context *context)
{
	struct sim_exec *exec = context->exec;

	if (!exec)
		return;
	sim_exec_flush_output(context);
	context->exec = NULL;
	for (struct CUmod_st *module = exec->modules, *next; module; module = next) {
		next = module->next;
		module->next = NULL;
		module->magic = 0;
		// Graphs may still have references to the module's functions, but its memory ends with the context.
		sim_memory_free(module->image);
		module->image = 0;
		sim_module_unref(module);
	}
	ptx_heap_destroy(exec->heap);
	if (exec->heap_memory)
		sim_memory_free(exec->heap_memory);
	if (exec->workspaces)
		sim_memory_free(exec->workspaces);
	free(exec->printed);
	pthread_mutex_destroy(&exec->lock);
	free(exec);
}
