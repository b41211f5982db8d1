// Implements the driver's functions for modules.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "capture.h"
#include "context.h"
#include "entry.h"
#include "log.h"
#include "module.h"
#include "process.h"

static CUresult report_bad_image(struct sim_jit *jit, CUresult result, const char *text)
{
	if (jit)
		sim_jit_log(&jit->error, "%s\n", text);
	sim_log("%s", text);
	return result;
}

CUresult sim_image_get(const void *data, size_t size, struct sim_jit *jit, struct sim_image *ret_image)
{
	switch (sim_image_read(data, size, sim_module_target(), ret_image)) {
	case SIM_IMAGE_READ:
		return CUDA_SUCCESS;
	case SIM_IMAGE_NO_BINARY:
		return report_bad_image(jit, CUDA_ERROR_NO_BINARY_FOR_GPU,
					"the image holds no PTX that this device can run");
	case SIM_IMAGE_INVALID:
		return report_bad_image(jit, CUDA_ERROR_INVALID_IMAGE, "the image is neither PTX nor a fat binary");
	default:
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
}

static CUresult load_module(const void *data, size_t size, struct sim_jit *jit, CUmodule *ret_module)
{
	struct sim_context *context;
	struct sim_image image = {0};

	if (!ret_module || !data)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_context_current(&context));
	if (sim_image_has_modules(data))
		return report_bad_image(jit, CUDA_ERROR_INVALID_IMAGE,
					"a program of several modules can only be a library");
	CUresult result = sim_image_get(data, size, jit, &image);
	if (result == CUDA_SUCCESS)
		result = sim_module_create(context, &image, jit, NULL, ret_module);
	sim_image_finish(&image);
	return result;
}

// Reads the whole file, and appends a 0 byte. NULL: errno is set.
static void *read_file(const char *path, size_t *ret_size)
{
	FILE *file = fopen(path, "re");
	char *data = NULL;
	size_t size = 0, capacity = 0;

	if (!file)
		return NULL;
	for (;;) {
		if (size + 1 >= capacity) {
			capacity = capacity ? capacity * 2 : 65536;
			char *larger = realloc(data, capacity);
			if (!larger)
				break;
			data = larger;
		}
		size_t bytes = fread(data + size, 1, capacity - size - 1, file);
		size += bytes;
		if (bytes == 0) {
			bool failed = ferror(file);
			fclose(file);
			if (failed) {
				free(data);
				errno = EIO;
				return NULL;
			}
			data[size] = 0;
			*ret_size = size;
			return data;
		}
	}
	fclose(file);
	free(data);
	errno = ENOMEM;
	return NULL;
}

CUresult sim_image_file(const char *path, struct sim_jit *jit, struct sim_image *ret_image)
{
	size_t size;

	if (!path)
		return CUDA_ERROR_INVALID_VALUE;
	void *data = read_file(path, &size);
	if (!data)
		return errno == ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_FILE_NOT_FOUND;
	CUresult result = sim_image_get(data, size, jit, ret_image);
	free(data);
	return result;
}

CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
	struct sim_context *context;
	struct sim_image image = {0};

	SIM_ENTER(cuModuleLoad);
	if (!module)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_context_current(&context));
	SIM_TRY(sim_image_file(fname, NULL, &image));
	CUresult result = sim_module_create(context, &image, NULL, NULL, module);
	sim_image_finish(&image);
	return result;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	SIM_ENTER(cuModuleLoadData);
	return load_module(image, SIM_IMAGE_UNBOUNDED, NULL, module);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions, CUjit_option *options,
			    void **optionValues)
{
	struct sim_jit jit;

	SIM_ENTER(cuModuleLoadDataEx);
	SIM_TRY(sim_jit_read(numOptions, options, optionValues, &jit));
	CUresult result = load_module(image, SIM_IMAGE_UNBOUNDED, &jit, module);
	sim_jit_write(&jit);
	return result;
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
	SIM_ENTER(cuModuleLoadFatBinary);
	return load_module(fatCubin, SIM_IMAGE_UNBOUNDED, NULL, module);
}

CUresult cuModuleUnload(CUmodule hmod)
{
	struct CUmod_st *module;
	struct sim_exec *exec;
	struct sim_context *context;

	SIM_ENTER(cuModuleUnload);
	SIM_TRY(sim_capture_check_unsafe());
	SIM_TRY(sim_context_current_any(&context));
	SIM_TRY(sim_module_get(hmod, &module));
	if (module->library)
		return CUDA_ERROR_NOT_PERMITTED;
	SIM_TRY(sim_exec_get(module->context, &exec));
	pthread_mutex_lock(&exec->lock);
	struct CUmod_st **link = &exec->modules;
	while (*link && *link != module)
		link = &(*link)->next;
	bool found = *link;
	if (found)
		*link = module->next;
	pthread_mutex_unlock(&exec->lock);
	if (!found)
		return CUDA_ERROR_INVALID_HANDLE;
	module->magic = 0;
	CUresult error = sim_failure();
	sim_module_unref(module);
	return error;
}

// Returns the module of a handle. Fails with the sticky error if there is one.
static CUresult get_module(CUmodule handle, struct CUmod_st **ret_module)
{
	SIM_TRY(sim_module_get(handle, ret_module));
	return sim_failure();
}

CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	struct CUmod_st *module;

	SIM_ENTER(cuModuleGetFunction);
	if (!hfunc || !name)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(get_module(hmod, &module));
	for (size_t i = 0; i < module->function_count; i++) {
		struct CUfunc_st *function = &module->functions[i];
		if (strcmp(function->info->name, name) != 0)
			continue;
		SIM_TRY(sim_function_check(function->ptx));
		*hfunc = function;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule mod)
{
	struct CUmod_st *module;

	SIM_ENTER(cuModuleGetFunctionCount);
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(get_module(mod, &module));
	*count = (unsigned)module->function_count;
	return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule mod)
{
	struct CUmod_st *module;

	SIM_ENTER(cuModuleEnumerateFunctions);
	if (!functions || !numFunctions)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(get_module(mod, &module));
	for (size_t i = 0; i < numFunctions && i < module->function_count; i++)
		functions[i] = &module->functions[i];
	return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
	struct CUmod_st *module;
	uint64_t device;
	size_t size;

	SIM_ENTER(cuModuleGetGlobal_v2);
	if (!name || (!dptr && !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(get_module(hmod, &module));
	if (!ptx_module_variable(module->ptx, name, &device, &size))
		return CUDA_ERROR_NOT_FOUND;
	if (dptr)
		*dptr = device;
	if (bytes)
		*bytes = size;
	return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	const char *wanted = getenv("CUDA_MODULE_LOADING");

	SIM_ENTER(cuModuleGetLoadingMode);
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = wanted && strcmp(wanted, "EAGER") == 0 ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
	return CUDA_SUCCESS;
}
