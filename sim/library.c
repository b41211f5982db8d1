// Implements libraries. A library is an image that the driver loads into each context when the program first uses it
// there.
#include <ctype.h>
#include <stdlib.h>

#include "capture.h"
#include "context.h"
#include "entry.h"
#include "module.h"
#include "process.h"

static CUresult get_library(CUlibrary handle, struct CUlib_st **ret_library)
{
	if (!handle || handle->magic != SIM_LIBRARY_MAGIC)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret_library = handle;
	return CUDA_SUCCESS;
}

static void free_library(struct CUlib_st *library)
{
	library->magic = 0;
	for (size_t i = 0; i < library->kernel_count; i++)
		library->kernels[i].magic = 0;
	free(library->kernels);
	if (library->ptx)
		sim_managed_variables_free(library->managed, ptx_module_managed_size(library->ptx));
	ptx_module_destroy(library->ptx);
	sim_image_finish(&library->image);
	pthread_mutex_destroy(&library->lock);
	free(library);
}

static CUresult list_kernels(struct CUlib_st *library)
{
	size_t count = ptx_module_function_count(library->ptx);

	library->kernels = calloc(count + 1, sizeof *library->kernels);
	if (!library->kernels)
		return CUDA_ERROR_OUT_OF_MEMORY;
	library->kernel_count = count;
	for (size_t i = 0; i < count; i++) {
		struct CUkern_st *kernel = &library->kernels[i];
		kernel->magic = SIM_KERNEL_MAGIC;
		kernel->library = library;
		kernel->index = i;
		kernel->ptx = ptx_module_function_at(library->ptx, i);
		kernel->info = ptx_function_info(kernel->ptx);
		for (int d = 0; d < SIM_DEVICES; d++)
			kernel->settings[d].carveout = -1;
	}
	return CUDA_SUCCESS;
}

static CUresult fill_library(struct CUlib_st *library, struct sim_jit *jit)
{
	CUresult result =
		library->image.count ? sim_module_parse(&library->image, jit, &library->ptx) : CUDA_ERROR_INVALID_PTX;

	if (result == CUDA_ERROR_INVALID_PTX) {
		library->broken = result;
		return CUDA_SUCCESS;
	}
	SIM_TRY(result);
	return list_kernels(library);
}

static CUresult create_library(struct sim_image *image, struct sim_jit *jit, CUlibrary *ret_library)
{
	struct CUlib_st *library = calloc(1, sizeof *library);

	if (!library)
		return CUDA_ERROR_OUT_OF_MEMORY;
	library->magic = SIM_LIBRARY_MAGIC;
	library->image = *image;
	*image = (struct sim_image){0};
	pthread_mutex_init(&library->lock, NULL);
	CUresult result = fill_library(library, jit);
	if (result != CUDA_SUCCESS) {
		free_library(library);
		return result;
	}
	*ret_library = library;
	return CUDA_SUCCESS;
}

static CUresult check_library_options(unsigned count, const CUlibraryOption *options)
{
	if (count && !options)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++)
		if ((unsigned)options[i] >= CU_LIBRARY_NUM_OPTIONS)
			return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues,
			   unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
			   unsigned int numLibraryOptions)
{
	struct sim_image image = {0};
	struct sim_jit jit;

	SIM_ENTER(cuLibraryLoadData);
	if (!library || !code)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_library_options(numLibraryOptions, libraryOptions));
	SIM_TRY(sim_jit_read(numJitOptions, jitOptions, jitOptionsValues, &jit));
	CUresult result = sim_image_get(code, SIM_IMAGE_UNBOUNDED, &jit, &image);
	if (result == CUDA_ERROR_INVALID_IMAGE && isprint(*(const unsigned char *)code))
		result = CUDA_SUCCESS; // the driver accepts any text as PTX, too, and compiles it only when it is used
	if (result == CUDA_SUCCESS)
		result = create_library(&image, &jit, library);
	sim_image_finish(&image);
	sim_jit_write(&jit);
	return result;
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
			       void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
			       void **libraryOptionValues, unsigned int numLibraryOptions)
{
	struct sim_image image = {0};
	struct sim_jit jit;

	SIM_ENTER(cuLibraryLoadFromFile);
	if (!library || !fileName)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_library_options(numLibraryOptions, libraryOptions));
	SIM_TRY(sim_jit_read(numJitOptions, jitOptions, jitOptionsValues, &jit));
	CUresult result = sim_image_file(fileName, &jit, &image);
	if (result == CUDA_SUCCESS)
		result = create_library(&image, &jit, library);
	sim_image_finish(&image);
	sim_jit_write(&jit);
	return result;
}

struct unloading {
	struct CUlib_st *library;
	struct CUmod_st *removed; // modules that were removed from their contexts, to be freed when no lock is held
};

static void remove_modules(struct sim_context *context, void *data)
{
	struct unloading *unloading = data;
	struct sim_exec *exec = context->exec;

	if (context->parent != context || !exec)
		return;
	pthread_mutex_lock(&exec->lock);
	for (struct CUmod_st **link = &exec->modules; *link; link = &(*link)->next) {
		struct CUmod_st *module = *link;
		if (module->library != unloading->library)
			continue;
		*link = module->next;
		module->next = unloading->removed;
		unloading->removed = module;
		break;
	}
	pthread_mutex_unlock(&exec->lock);
}

CUresult cuLibraryUnload(CUlibrary library)
{
	struct unloading unloading = {0};

	SIM_ENTER(cuLibraryUnload);
	SIM_TRY(sim_capture_check_unsafe());
	SIM_TRY(get_library(library, &unloading.library));
	sim_contexts_each(remove_modules, &unloading);
	for (struct CUmod_st *next; unloading.removed; unloading.removed = next) {
		next = unloading.removed->next;
		unloading.removed->magic = 0;
		unloading.removed->library = NULL;
		sim_module_unref(unloading.removed);
	}
	free_library(unloading.library);
	return CUDA_SUCCESS;
}

// Returns the library's module in a context. Loads the module if necessary.
static CUresult get_module(struct CUlib_st *library, struct sim_context *context, struct CUmod_st **ret_module)
{
	struct CUmod_st *module;
	struct sim_exec *exec;
	CUresult result = CUDA_SUCCESS;

	SIM_TRY(library->broken);
	SIM_TRY(sim_exec_get(context, &exec));
	pthread_mutex_lock(&library->lock); // so that only one thread loads the module
	pthread_mutex_lock(&exec->lock);
	for (module = exec->modules; module; module = module->next)
		if (module->library == library)
			break;
	pthread_mutex_unlock(&exec->lock);
	if (!module)
		result = sim_module_create(context, &library->image, NULL, library, &module);
	pthread_mutex_unlock(&library->lock);
	if (result == CUDA_SUCCESS)
		*ret_module = module;
	return result;
}

CUresult sim_kernel_get_function(struct CUkern_st *kernel, struct sim_context *context, struct CUfunc_st **ret_function)
{
	struct CUmod_st *module;

	SIM_TRY(sim_function_check(kernel->ptx));
	SIM_TRY(get_module(kernel->library, context, &module));
	struct CUfunc_st *function = &module->functions[kernel->index];
	if (!atomic_load_explicit(&function->loaded, memory_order_acquire)) {
		// Take the lock, so that no kernel is launched before all of its settings are copied.
		pthread_mutex_lock(&kernel->library->lock);
		if (!atomic_load_explicit(&function->loaded, memory_order_relaxed)) {
			function->settings = kernel->settings[context->device->ordinal];
			function->cache_config = kernel->cache_config[context->device->ordinal];
			atomic_store_explicit(&function->loaded, true, memory_order_release);
		}
		pthread_mutex_unlock(&kernel->library->lock);
	}
	*ret_function = function;
	return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
	struct CUlib_st *found;

	SIM_ENTER(cuLibraryGetKernel);
	if (!pKernel || !name)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(get_library(library, &found));
	SIM_TRY(found->broken);
	for (size_t i = 0; i < found->kernel_count; i++) {
		if (strcmp(found->kernels[i].info->name, name) != 0)
			continue;
		SIM_TRY(sim_function_check(found->kernels[i].ptx));
		*pKernel = &found->kernels[i];
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_NOT_FOUND;
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib)
{
	struct CUlib_st *found;

	SIM_ENTER(cuLibraryGetKernelCount);
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(get_library(lib, &found));
	*count = (unsigned)found->kernel_count;
	return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
	struct CUlib_st *found;

	SIM_ENTER(cuLibraryEnumerateKernels);
	if (!kernels || !numKernels)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(get_library(lib, &found));
	for (size_t i = 0; i < numKernels && i < found->kernel_count; i++)
		kernels[i] = &found->kernels[i];
	return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
	struct sim_context *context;
	struct CUlib_st *found;

	SIM_ENTER(cuLibraryGetModule);
	if (!pMod)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(get_library(library, &found));
	SIM_TRY(sim_context_current(&context));
	return get_module(found, context, pMod);
}

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	struct sim_context *context;
	struct CUlib_st *found;
	struct CUmod_st *module;
	uint64_t device;
	size_t size;

	SIM_ENTER(cuLibraryGetGlobal);
	if (!name || (!dptr && !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(get_library(library, &found));
	SIM_TRY(sim_context_current(&context));
	SIM_TRY(get_module(found, context, &module));
	if (!ptx_module_variable(module->ptx, name, &device, &size))
		return CUDA_ERROR_NOT_FOUND;
	if (dptr)
		*dptr = device;
	if (bytes)
		*bytes = size;
	return CUDA_SUCCESS;
}

// Allocates the library's managed variables, which belong to no context, and stores their initial values. Call it with
// library->lock held. CUDA_ERROR_INVALID_CONTEXT: a variable's initial value is an address inside a context.
static CUresult bind_managed(struct CUlib_st *library)
{
	void *memory;

	if (!library->managed) {
		SIM_TRY(sim_managed_variables_new(library->ptx, &memory));
		ptx_module_bind_managed(library->ptx, (uintptr_t)memory, false);
		if (!ptx_module_initialize_managed(library->ptx)) {
			sim_managed_variables_free(memory, ptx_module_managed_size(library->ptx));
			return CUDA_ERROR_INVALID_CONTEXT;
		}
		library->managed = memory;
	}
	ptx_module_bind_managed(library->ptx, (uintptr_t)library->managed, true);
	return CUDA_SUCCESS;
}

CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	struct CUlib_st *found;
	uint64_t address = 0;
	size_t size = 0;

	SIM_ENTER(cuLibraryGetManaged);
	if (!name || (!dptr && !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(get_library(library, &found));
	SIM_TRY(found->broken);
	if (!ptx_module_is_managed(found->ptx, name))
		return CUDA_ERROR_NOT_FOUND;
	pthread_mutex_lock(&found->lock);
	CUresult result = bind_managed(found);
	if (result == CUDA_SUCCESS)
		ptx_module_variable(found->ptx, name, &address, &size);
	pthread_mutex_unlock(&found->lock);
	if (result == CUDA_ERROR_INVALID_CONTEXT)
		return cuLibraryGetGlobal(dptr, bytes, library, name);
	SIM_TRY(result);
	if (dptr)
		*dptr = address;
	if (bytes)
		*bytes = size;
	return CUDA_SUCCESS;
}

// Always fails: a unified function is defined by tables of the runtime library, which the simulator does not have.
CUresult cuLibraryGetUnifiedFunction(void **fptr, CUlibrary library, const char *symbol)
{
	struct CUlib_st *found;

	SIM_ENTER(cuLibraryGetUnifiedFunction);
	if (!fptr || !symbol)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(get_library(library, &found));
	return CUDA_ERROR_NOT_FOUND;
}
