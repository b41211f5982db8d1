// Implements the driver's linker. Checks PTX inputs when they are added, and links them in cuLinkComplete.
#include <stdlib.h>

#include "context.h"
#include "entry.h"
#include "module.h"

enum { LINK_MAGIC = 0x4c4e4b32 };

struct CUlinkState_st {
	uint32_t magic;
	struct sim_image image;
	struct sim_jit jit;
	void *output;
};

CUresult cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut)
{
	struct sim_context *context;
	struct sim_jit jit;

	SIM_ENTER(cuLinkCreate_v2);
	if (!stateOut)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_context_current(&context));
	SIM_TRY(sim_jit_read(numOptions, options, optionValues, &jit));
	struct CUlinkState_st *state = calloc(1, sizeof *state);
	if (!state)
		return CUDA_ERROR_OUT_OF_MEMORY;
	state->magic = LINK_MAGIC;
	state->jit = jit;
	*stateOut = state;
	return CUDA_SUCCESS;
}

static CUresult check_state(CUlinkState state)
{
	return state && state->magic == LINK_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult add_image(CUlinkState state, struct sim_image *image)
{
	return sim_image_append_all(&state->image, image) < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult check_input(CUjitInputType type)
{
	switch (type) {
	case CU_JIT_INPUT_PTX:
	case CU_JIT_INPUT_FATBINARY:
		return CUDA_SUCCESS;
	case CU_JIT_INPUT_CUBIN:
	case CU_JIT_INPUT_OBJECT:
	case CU_JIT_INPUT_LIBRARY:
		return CUDA_ERROR_NO_BINARY_FOR_GPU; // machine code
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
			  unsigned int numOptions, CUjit_option *options, void **optionValues)
{
	struct sim_image image = {0};
	struct sim_jit jit;

	SIM_ENTER(cuLinkAddData_v2);
	SIM_TRY(check_state(state));
	if (!data || !size)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_input(type));
	SIM_TRY(sim_jit_read(numOptions, options, optionValues, &jit));
	CUresult result = sim_image_get(data, size, &state->jit, &image);
	if (result == CUDA_ERROR_INVALID_IMAGE && type == CU_JIT_INPUT_PTX) {
		sim_jit_log(&state->jit.error, "%s: not PTX\n", name ? name : "<data>");
		result = CUDA_ERROR_INVALID_PTX;
	}
	if (result == CUDA_SUCCESS)
		result = add_image(state, &image);
	sim_image_finish(&image);
	sim_jit_write(&state->jit);
	return result;
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned int numOptions,
			  CUjit_option *options, void **optionValues)
{
	struct sim_image image = {0};
	struct sim_jit jit;

	SIM_ENTER(cuLinkAddFile_v2);
	SIM_TRY(check_state(state));
	SIM_TRY(check_input(type));
	SIM_TRY(sim_jit_read(numOptions, options, optionValues, &jit));
	CUresult result = sim_image_file(path, &state->jit, &image);
	if (result == CUDA_SUCCESS)
		result = add_image(state, &image);
	sim_image_finish(&image);
	return result;
}

CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
	struct ptx_module *module;
	size_t size;

	SIM_ENTER(cuLinkComplete);
	SIM_TRY(check_state(state));
	if (!cubinOut)
		return CUDA_ERROR_INVALID_VALUE;
	if (!state->image.count)
		return CUDA_ERROR_INVALID_IMAGE;
	CUresult result = sim_module_parse(&state->image, &state->jit, &module);
	sim_jit_write(&state->jit);
	if (result != CUDA_SUCCESS)
		return result;
	ptx_module_destroy(module);
	free(state->output);
	state->output = sim_image_link(&state->image, &size);
	if (!state->output)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*cubinOut = state->output;
	if (sizeOut)
		*sizeOut = size;
	return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state)
{
	SIM_ENTER(cuLinkDestroy);
	SIM_TRY(check_state(state));
	state->magic = 0;
	sim_image_finish(&state->image);
	free(state->output);
	free(state);
	return CUDA_SUCCESS;
}

// The following functions are the first versions of others, with the same arguments.
CUresult cuLinkCreate(unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut)
{
	SIM_ENTER(cuLinkCreate);
	return cuLinkCreate_v2(numOptions, options, optionValues, stateOut);
}

CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
		       unsigned int numOptions, CUjit_option *options, void **optionValues)
{
	SIM_ENTER(cuLinkAddData);
	return cuLinkAddData_v2(state, type, data, size, name, numOptions, options, optionValues);
}

CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path, unsigned int numOptions,
		       CUjit_option *options, void **optionValues)
{
	SIM_ENTER(cuLinkAddFile);
	return cuLinkAddFile_v2(state, type, path, numOptions, options, optionValues);
}
