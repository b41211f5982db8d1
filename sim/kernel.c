// Implements the attributes of functions and kernels.
#include <stdlib.h>

#include "context.h"
#include "entry.h"
#include "kernel.h"
#include "log.h"
#include "process.h"

static int get_reserved_shared(void)
{
	return sim_process.config.cc_major >= 8 ? 1024 : 0;
}

int sim_kernel_shared_limit(void)
{
	switch (sim_process.config.cc_major * 10 + sim_process.config.cc_minor) {
	case 75:
		return 64 * 1024;
	case 80:
	case 87:
		return 164 * 1024 - get_reserved_shared();
	case 86:
	case 89:
	case 120:
	case 121:
		return 100 * 1024 - get_reserved_shared();
	default:
		return 228 * 1024 - get_reserved_shared();
	}
}

static CUresult get_attribute(int *value, CUfunction_attribute attribute, const struct ptx_function_info *info,
			      const struct sim_settings *settings)
{
	int axis;

	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*value = (int)info->max_threads;
		break;
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
		*value = (int)info->static_shared;
		break;
	case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
		*value = 0;
		break;
	case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
		*value = (int)info->local;
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*value = (int)info->registers;
		break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
		*value = info->target;
		break;
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*value = sim_module_target();
		break;
	case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
		*value = 0;
		break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*value = sim_kernel_dynamic_limit(info, settings);
		break;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		*value = settings->carveout;
		break;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
		*value = info->explicit_cluster;
		break;
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
		axis = attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH;
		*value = info->cluster[axis] ? (int)info->cluster[axis] : settings->cluster[axis];
		break;
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
		*value = settings->cluster_any;
		break;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		*value = settings->cluster_policy;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

int sim_kernel_dynamic_limit(const struct ptx_function_info *info, const struct sim_settings *settings)
{
	if (settings->dynamic_shared_set)
		return settings->dynamic_shared;
	int left = 48 * 1024 - (int)info->static_shared;
	return left > 0 ? left : 0;
}

static CUresult set_attribute(int value, CUfunction_attribute attribute, const struct ptx_function_info *info,
			      struct sim_settings *settings)
{
	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		if (value < 0 || value > sim_kernel_shared_limit() - (int)info->static_shared)
			return CUDA_ERROR_INVALID_VALUE;
		settings->dynamic_shared = value;
		settings->dynamic_shared_set = true;
		break;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		if (value < -1 || value > 100)
			return CUDA_ERROR_INVALID_VALUE;
		settings->carveout = value;
		break;
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
		if (value < 0)
			return CUDA_ERROR_INVALID_VALUE;
		if (info->cluster[0])
			return CUDA_ERROR_INVALID_VALUE; // the kernel was compiled for one cluster size
		settings->cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = value;
		break;
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
		if (value != 0 && value != 1)
			return CUDA_ERROR_INVALID_VALUE;
		settings->cluster_any = value;
		break;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		if (value < 0 || value > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING)
			return CUDA_ERROR_INVALID_VALUE;
		settings->cluster_policy = value;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static CUresult get_function(CUfunction handle, struct CUfunc_st **ret_function)
{
	struct sim_context *context;

	if (!handle)
		return CUDA_ERROR_INVALID_HANDLE;
	if (handle->magic == SIM_FUNCTION_MAGIC) {
		*ret_function = handle;
		return sim_failure();
	}
	SIM_TRY(sim_context_current(&context));
	return sim_function_get(handle, context, ret_function);
}

CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
	struct CUfunc_st *function;

	SIM_ENTER(cuFuncGetAttribute);
	if (!pi)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(get_function(hfunc, &function));
	return get_attribute(pi, attrib, function->info, &function->settings);
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
	struct CUfunc_st *function;

	SIM_ENTER(cuFuncSetAttribute);
	SIM_TRY(get_function(hfunc, &function));
	return set_attribute(value, attrib, function->info, &function->settings);
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
	struct CUfunc_st *function;

	SIM_ENTER(cuFuncSetCacheConfig);
	SIM_TRY(get_function(hfunc, &function));
	if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
		return CUDA_ERROR_INVALID_VALUE;
	function->cache_config = config;
	return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)
{
	struct CUfunc_st *function;

	SIM_ENTER(cuFuncSetSharedMemConfig);
	SIM_TRY(get_function(hfunc, &function));
	return (unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction hfunc)
{
	struct CUfunc_st *function;

	SIM_ENTER(cuFuncGetName);
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(get_function(hfunc, &function));
	*name = function->info->name;
	return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
	struct CUfunc_st *function;

	SIM_ENTER(cuFuncGetModule);
	if (!hmod)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(get_function(hfunc, &function));
	*hmod = function->module;
	return CUDA_SUCCESS;
}

static CUresult get_parameter_info(const struct ptx_function_info *info, size_t index, size_t *offset, size_t *size)
{
	if (index >= info->parameter_count)
		sim_log("paramIndex %zu outside of kernel parameter count %zu", index, info->parameter_count);
	if (!offset || index >= info->parameter_count)
		return CUDA_ERROR_INVALID_VALUE;
	*offset = info->parameters[index].offset;
	if (size)
		*size = info->parameters[index].size;
	return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize)
{
	struct CUfunc_st *function;

	SIM_ENTER(cuFuncGetParamInfo);
	SIM_TRY(get_function(func, &function));
	return get_parameter_info(function->info, paramIndex, paramOffset, paramSize);
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
	SIM_ENTER(cuFuncIsLoaded);
	if (!state)
		return CUDA_ERROR_INVALID_VALUE;
	if (!function || function->magic != SIM_FUNCTION_MAGIC)
		return CUDA_ERROR_INVALID_HANDLE;
	*state = function->loaded ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
	return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function)
{
	SIM_ENTER(cuFuncLoad);
	if (!function || function->magic != SIM_FUNCTION_MAGIC)
		return CUDA_ERROR_INVALID_HANDLE;
	SIM_TRY(sim_function_check(function->ptx));
	atomic_store(&function->loaded, true);
	return CUDA_SUCCESS;
}

static CUresult check_kernel(CUkernel kernel)
{
	return kernel && kernel->magic == SIM_KERNEL_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
	struct sim_context *context;

	SIM_ENTER(cuKernelGetFunction);
	if (!pFunc)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_kernel(kernel));
	SIM_TRY(sim_context_current(&context));
	return sim_kernel_get_function(kernel, context, pFunc);
}

CUresult cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)
{
	SIM_ENTER(cuKernelGetLibrary);
	if (!pLib)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_kernel(kernel));
	*pLib = kernel->library;
	return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char **name, CUkernel hfunc)
{
	SIM_ENTER(cuKernelGetName);
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_kernel(hfunc));
	*name = hfunc->info->name;
	return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset, size_t *paramSize)
{
	struct sim_context *context;

	SIM_ENTER(cuKernelGetParamInfo);
	SIM_TRY(check_kernel(kernel));
	SIM_TRY(sim_context_current(&context)); // as on hardware, a context must be current
	return get_parameter_info(kernel->info, paramIndex, paramOffset, paramSize);
}

CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)
{
	SIM_ENTER(cuKernelGetAttribute);
	if (!pi)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_kernel(kernel));
	if (dev < 0 || dev >= sim_process.device_count)
		return CUDA_ERROR_INVALID_DEVICE;
	return get_attribute(pi, attrib, kernel->info, &kernel->settings[dev]);
}

// The argument of copy_settings(), which copies a kernel's settings to its functions in the contexts of a device.
struct copied_settings {
	struct CUkern_st *kernel;
	int device;
};

static void copy_settings(struct sim_context *context, void *data)
{
	const struct copied_settings *from = data;
	struct sim_exec *exec = context->exec;

	if (context->parent != context || !exec || context->device->ordinal != from->device)
		return;
	pthread_mutex_lock(&exec->lock);
	for (struct CUmod_st *module = exec->modules; module; module = module->next) {
		if (module->library != from->kernel->library)
			continue;
		struct CUfunc_st *function = &module->functions[from->kernel->index];
		function->settings = from->kernel->settings[from->device];
		function->cache_config = from->kernel->cache_config[from->device];
	}
	pthread_mutex_unlock(&exec->lock);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
	SIM_ENTER(cuKernelSetAttribute);
	SIM_TRY(check_kernel(kernel));
	if (dev < 0 || dev >= sim_process.device_count)
		return CUDA_ERROR_INVALID_DEVICE;
	SIM_TRY(set_attribute(val, attrib, kernel->info, &kernel->settings[dev]));
	sim_contexts_each(copy_settings, &(struct copied_settings){kernel, dev});
	return CUDA_SUCCESS;
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
	SIM_ENTER(cuKernelSetCacheConfig);
	SIM_TRY(check_kernel(kernel));
	if (dev < 0 || dev >= sim_process.device_count)
		return CUDA_ERROR_INVALID_DEVICE;
	if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
		return CUDA_ERROR_INVALID_VALUE;
	kernel->cache_config[dev] = config;
	sim_contexts_each(copy_settings, &(struct copied_settings){kernel, dev});
	return CUDA_SUCCESS;
}
