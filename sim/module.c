// Parses modules, allocates memory for their variables and code, and finds their functions.
#include <stdlib.h>
#include <sys/mman.h>

#include "context.h"
#include "host.h"
#include "log.h"
#include "module.h"
#include "process.h"

// PTX of the device function cudaGraphSetConditional, which the driver defines. The value of a condition is a word in
// device memory, and the condition's handle is the address of that word.
static const char set_conditional[] =
	".version 7.0\n.target sm_52\n.address_size 64\n"
	".visible .func cudaGraphSetConditional(.param .b64 cudaGraphSetConditional_param_0,\n"
	".param .b32 cudaGraphSetConditional_param_1)\n"
	"{\n.reg .b64 %rd<2>;\n.reg .b32 %r<2>;\n"
	"ld.param.u64 %rd1, [cudaGraphSetConditional_param_0];\n"
	"ld.param.u32 %r1, [cudaGraphSetConditional_param_1];\n"
	"st.u32 [%rd1], %r1;\nret;\n}\n";

int sim_module_target(void)
{
	return (int)(sim_process.config.cc_major * 10 + sim_process.config.cc_minor);
}

static bool contains_word(const struct sim_image *image, const char *word)
{
	for (size_t i = 0; i < image->count; i++)
		if (memmem(image->texts[i], image->lengths[i], word, strlen(word)))
			return true;
	return false;
}

CUresult sim_module_parse(const struct sim_image *image, struct sim_jit *jit, struct ptx_module **ret_module)
{
	const char **texts = calloc(image->count + 1, sizeof *texts);
	size_t *lengths = calloc(image->count + 1, sizeof *lengths), count = image->count;
	char reason[1024] = "";
	struct ptx_log log = {reason, sizeof reason, 0};
	struct ptx_module *module = NULL;

	if (!texts || !lengths) {
		free(texts);
		free(lengths);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (size_t i = 0; i < count; i++) {
		texts[i] = image->texts[i];
		lengths[i] = image->lengths[i];
	}
	if (contains_word(image, "cudaGraphSetConditional")) {
		texts[count] = set_conditional;
		lengths[count++] = sizeof set_conditional - 1;
	}
	int r = ptx_module_load(texts, lengths, count, sim_module_target(), &log, &module);
	free(texts);
	free(lengths);
	if (r != PTX_LOADED && jit)
		sim_jit_log(&jit->error, "ptxas application ptx input, %s", reason);
	if (r != PTX_LOADED && sim_exec_is_verbose())
		sim_warn("module refused: %s", reason);
	if (r != PTX_LOADED)
		sim_log("PTX refused: %.*s", (int)strcspn(reason, "\n"), reason);
	switch (r) {
	case PTX_LOADED:
		break;
	case PTX_VERSION:
		return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	case PTX_TARGET:
	case PTX_SYNTAX:
	case PTX_UNRESOLVED:
		return CUDA_ERROR_INVALID_PTX;
	default:
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (size_t i = 0; jit && i < ptx_module_function_count(module); i++) {
		const struct ptx_function *function = ptx_module_function_at(module, i);
		const char *refusal = ptx_function_refusal(function);
		if (refusal)
			sim_jit_log(&jit->error, "%s (kernel %s)\n", refusal, ptx_function_info(function)->name);
	}
	*ret_module = module;
	return CUDA_SUCCESS;
}

void sim_module_unref(struct CUmod_st *module)
{
	if (atomic_fetch_sub(&module->references, 1) != 1)
		return;
	module->magic = 0;
	for (size_t i = 0; i < module->function_count; i++) {
		module->functions[i].magic = 0;
		free(module->functions[i].parameters);
	}
	free(module->functions);
	sim_texture_references_finish(module);
	if (module->ptx)
		sim_managed_variables_free(module->managed, ptx_module_managed_size(module->ptx));
	ptx_module_destroy(module->ptx);
	if (module->image)
		sim_memory_free(module->image);
	free(module);
}

void sim_managed_variables_free(void *memory, size_t size)
{
	if (!memory)
		return;
	sim_host_pool_remove((uintptr_t)memory);
	munmap(memory, size);
}

CUresult sim_managed_variables_new(const struct ptx_module *ptx, void **ret_memory)
{
	size_t size = ptx_module_managed_size(ptx);

	if (ptx_module_image_align(ptx) > 4096)
		// The memory begins at a page, so a variable cannot have a larger alignment.
		return CUDA_ERROR_INVALID_IMAGE;
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (sim_host_pool_add((uintptr_t)memory, size) != CUDA_SUCCESS) {
		munmap(memory, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_memory = memory;
	return CUDA_SUCCESS;
}

// Sets the addresses of the managed variables. All modules of a library share one copy of them. A module that belongs
// to no library allocates its own.
static CUresult bind_managed(struct CUmod_st *module, const struct CUlib_st *library)
{
	bool is_shared = library && library->managed;

	if (!ptx_module_managed_size(module->ptx))
		return CUDA_SUCCESS;
	if (!is_shared)
		SIM_TRY(sim_managed_variables_new(module->ptx, &module->managed));
	ptx_module_bind_managed(module->ptx, (uintptr_t)(is_shared ? library->managed : module->managed), is_shared);
	return CUDA_SUCCESS;
}

// Allocates device memory for the variables and for the code, and sets the variables' addresses. The code takes as many
// bytes as its PTX.
static CUresult bind_variables(struct CUmod_st *module, const struct sim_image *image)
{
	size_t variables = ptx_module_image_size(module->ptx), align = ptx_module_image_align(module->ptx), code = 0;

	for (size_t i = 0; i < image->count; i++)
		code += image->lengths[i];
	if (align > SIM_GRANULE)
		return CUDA_ERROR_INVALID_IMAGE;
	SIM_TRY(sim_memory_alloc(module->context, sim_round_up(variables, align ? align : 1) + code + align,
				 SIM_RANGE_MODULE, &module->image));
	CUdeviceptr start = align ? (module->image + align - 1) / align * align : module->image;
	void *host = sim_memory_translate(module->context->device, start, variables ? variables : 1, SIM_WRITE);
	if (!host || ptx_module_bind(module->ptx, start, host) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}

static CUresult list_functions(struct CUmod_st *module)
{
	size_t count = ptx_module_function_count(module->ptx);

	module->functions = calloc(count ? count : 1, sizeof *module->functions);
	if (!module->functions)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < count; i++) {
		struct CUfunc_st *function = &module->functions[i];
		function->magic = SIM_FUNCTION_MAGIC;
		function->module = module;
		function->ptx = ptx_module_function_at(module->ptx, i);
		function->info = ptx_function_info(function->ptx);
		function->settings.carveout = -1;
		function->kernel = module->library ? &module->library->kernels[i] : NULL;
		function->block[0] = function->block[1] = function->block[2] = 1;
	}
	module->function_count = count;
	return CUDA_SUCCESS;
}

static CUresult fill_module(struct CUmod_st *module, const struct sim_image *image, struct sim_jit *jit)
{
	SIM_TRY(sim_module_parse(image, jit, &module->ptx));
	SIM_TRY(list_functions(module));
	SIM_TRY(bind_managed(module, module->library));
	SIM_TRY(bind_variables(module, image));
	module->uses_heap = contains_word(image, "malloc");
	return module->uses_heap ? sim_exec_create_heap(module->context) : CUDA_SUCCESS;
}

CUresult sim_module_create(struct sim_context *context, const struct sim_image *image, struct sim_jit *jit,
			   struct CUlib_st *library, struct CUmod_st **ret_module)
{
	struct sim_exec *exec;

	SIM_TRY(sim_exec_get(context, &exec));
	struct CUmod_st *module = calloc(1, sizeof *module);
	if (!module)
		return CUDA_ERROR_OUT_OF_MEMORY;
	module->magic = SIM_MODULE_MAGIC;
	module->context = context->parent;
	module->library = library;
	atomic_init(&module->references, 1);
	CUresult result = fill_module(module, image, jit);
	if (result != CUDA_SUCCESS) {
		sim_module_unref(module);
		return result;
	}
	if (library && module->managed) { // from now on, the library owns the variables
		library->managed = module->managed;
		module->managed = NULL;
	}
	pthread_mutex_lock(&exec->lock);
	module->next = exec->modules;
	exec->modules = module;
	pthread_mutex_unlock(&exec->lock);
	*ret_module = module;
	return CUDA_SUCCESS;
}

CUresult sim_module_get(CUmodule handle, struct CUmod_st **ret_module)
{
	if (!handle || handle->magic != SIM_MODULE_MAGIC)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret_module = handle;
	return CUDA_SUCCESS;
}

CUresult sim_function_check(const struct ptx_function *function)
{
	const char *refusal = ptx_function_refusal(function);

	if (!refusal)
		return CUDA_SUCCESS;
	if (sim_exec_is_verbose())
		sim_warn("%s (kernel %s)", refusal, ptx_function_info(function)->name);
	sim_log("%s (kernel %s)", refusal, ptx_function_info(function)->name);
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_function_get(CUfunction handle, struct sim_context *context, struct CUfunc_st **ret_function)
{
	if (!handle)
		return CUDA_ERROR_INVALID_HANDLE;
	if (__builtin_expect(handle->magic == SIM_FUNCTION_MAGIC, 1)) {
		*ret_function = handle;
		return CUDA_SUCCESS;
	}
	if (handle->magic == SIM_KERNEL_MAGIC)
		return sim_kernel_get_function((struct CUkern_st *)handle, context, ret_function);
	return CUDA_ERROR_INVALID_HANDLE;
}
