// Implements the deprecated launch functions of CUDA 2 and 3. They store the shape and the parameters of a launch in
// the function.
#include <stdlib.h>

#include "entry.h"
#include "launch.h"
#include "stream.h"

enum { MOST_PARAMETERS = 32764 };

static CUresult check_function(CUfunction handle)
{
	return handle && handle->magic == SIM_FUNCTION_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z)
{
	SIM_ENTER(cuFuncSetBlockShape);
	SIM_TRY(check_function(hfunc));
	if (x <= 0 || y <= 0 || z <= 0 || x > 1024 || y > 1024 || z > 64 || (long)x * y * z > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	hfunc->block[0] = (unsigned)x;
	hfunc->block[1] = (unsigned)y;
	hfunc->block[2] = (unsigned)z;
	return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes)
{
	SIM_ENTER(cuFuncSetSharedSize);
	SIM_TRY(check_function(hfunc));
	hfunc->shared = bytes;
	return CUDA_SUCCESS;
}

static CUresult resize_parameters(CUfunction function, size_t size)
{
	if (size > MOST_PARAMETERS)
		return CUDA_ERROR_INVALID_VALUE;
	unsigned char *parameters = realloc(function->parameters, size ? size : 1);
	if (!parameters)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (size > function->parameter_size)
		memset(parameters + function->parameter_size, 0, size - function->parameter_size);
	function->parameters = parameters;
	function->parameter_size = size;
	return CUDA_SUCCESS;
}

static CUresult set_parameter(CUfunction function, int offset, const void *value, unsigned size)
{
	SIM_TRY(check_function(function));
	if (offset < 0 || !value || size > MOST_PARAMETERS)
		return CUDA_ERROR_INVALID_VALUE;
	if ((size_t)offset + size > function->parameter_size)
		SIM_TRY(resize_parameters(function, (size_t)offset + size));
	memcpy(function->parameters + offset, value, size);
	return CUDA_SUCCESS;
}

CUresult cuParamSetSize(CUfunction hfunc, unsigned int numbytes)
{
	SIM_ENTER(cuParamSetSize);
	SIM_TRY(check_function(hfunc));
	return resize_parameters(hfunc, numbytes);
}

CUresult cuParamSeti(CUfunction hfunc, int offset, unsigned int value)
{
	SIM_ENTER(cuParamSeti);
	return set_parameter(hfunc, offset, &value, sizeof value);
}

CUresult cuParamSetf(CUfunction hfunc, int offset, float value)
{
	SIM_ENTER(cuParamSetf);
	return set_parameter(hfunc, offset, &value, sizeof value);
}

CUresult cuParamSetv(CUfunction hfunc, int offset, void *ptr, unsigned int numbytes)
{
	SIM_ENTER(cuParamSetv);
	return set_parameter(hfunc, offset, ptr, numbytes);
}

static CUresult launch_function(CUfunction function, int width, int height, CUstream handle)
{
	struct sim_stream *stream;
	struct sim_op *op;

	SIM_TRY(check_function(function));
	if (width <= 0 || height <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, function->parameters, CU_LAUNCH_PARAM_BUFFER_SIZE,
			 &function->parameter_size, CU_LAUNCH_PARAM_END};
	struct sim_launch_request request = {
		.function = function,
		.grid = {(unsigned)width, (unsigned)height, 1},
		.block = {function->block[0], function->block[1], function->block[2]},
		.shared = function->shared,
		.extra = extra,
	};
	SIM_TRY(sim_stream_get(handle, &stream));
	SIM_TRY(sim_launch_op_new(stream->context, &request, &op));
	return sim_submit(stream, op);
}

CUresult cuLaunch(CUfunction f)
{
	SIM_ENTER(cuLaunch);
	return launch_function(f, 1, 1, NULL);
}

CUresult cuLaunchGrid(CUfunction f, int grid_width, int grid_height)
{
	SIM_ENTER(cuLaunchGrid);
	return launch_function(f, grid_width, grid_height, NULL);
}

CUresult cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream)
{
	SIM_ENTER(cuLaunchGridAsync);
	return launch_function(f, grid_width, grid_height, hStream);
}
