// Implements the driver's functions that launch kernels.
#include "capture.h"
#include "entry.h"
#include "green.h"
#include "launch.h"
#include "stream.h"

static CUresult launch_kernel(CUfunction f, const unsigned grid[3], const unsigned block[3], unsigned shared,
			      CUstream handle, void **parameters, void **extra,
			      const struct sim_launch_attributes *attributes)
{
	struct sim_launch_request request = {
		.grid = {grid[0], grid[1], grid[2]},
		.block = {block[0], block[1], block[2]},
		.shared = shared,
		.parameters = parameters,
		.extra = extra,
		.attributes = attributes,
	};
	struct sim_stream *stream;
	struct sim_op *op;

	SIM_TRY(sim_stream_get(handle, &stream));
	SIM_TRY(sim_function_get(f, stream->context, &request.function));
	request.sms = stream->green ? stream->green->sms : 0;
	CUresult result = sim_launch_op_new(stream->context, &request, &op);
	if (result == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE)
		(void)sim_capture_check_stream(stream); // the driver synchronizes here, which invalidates a capture
	SIM_TRY(result);
	if (request.function->info->local > stream->context->parent->local) {
		result = sim_context_reserve_local(stream->context->parent, request.function->info->local);
		if (result != CUDA_SUCCESS) {
			sim_op_free(op);
			return result;
		}
	}
	return sim_submit(stream, op);
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
			unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
			unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra)
{
	SIM_ENTER(cuLaunchKernel);
	return launch_kernel(f, (unsigned[]){gridDimX, gridDimY, gridDimZ},
			     (unsigned[]){blockDimX, blockDimY, blockDimZ}, sharedMemBytes, hStream, kernelParams,
			     extra, NULL);
}

CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
			     unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
			     unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra)
{
	SIM_ENTER(cuLaunchKernel_ptsz);
	return launch_kernel(f, (unsigned[]){gridDimX, gridDimY, gridDimZ},
			     (unsigned[]){blockDimX, blockDimY, blockDimZ}, sharedMemBytes, SIM_PTSZ(hStream),
			     kernelParams, extra, NULL);
}

// Records the events that the attributes of a launch name. Records them after the kernel, although hardware may do so
// earlier.
static CUresult record_events(const struct sim_launch_attributes *attributes, CUstream stream)
{
	if (attributes->set & 1u << CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
		SIM_TRY(cuEventRecord(
			attributes->values[CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT].programmaticEvent.event, stream));
	if (attributes->set & 1u << CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
		SIM_TRY(cuEventRecord(
			attributes->values[CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT].launchCompletionEvent.event,
			stream));
	return CUDA_SUCCESS;
}

static CUresult launch_configured(const CUlaunchConfig *config, CUfunction f, void **parameters, void **extra,
				  CUstream stream)
{
	struct sim_launch_attributes attributes;

	attributes.set = 0;
	if (config->numAttrs && !config->attrs)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < config->numAttrs; i++)
		SIM_TRY(sim_launch_attributes_add(&attributes, config->attrs[i].id, &config->attrs[i].value));
	SIM_TRY(launch_kernel(f, (unsigned[]){config->gridDimX, config->gridDimY, config->gridDimZ},
			      (unsigned[]){config->blockDimX, config->blockDimY, config->blockDimZ},
			      config->sharedMemBytes, stream, parameters, extra, &attributes));
	return record_events(&attributes, stream);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
	SIM_ENTER(cuLaunchKernelEx);
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	return launch_configured(config, f, kernelParams, extra, config->hStream);
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
	SIM_ENTER(cuLaunchKernelEx_ptsz);
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	return launch_configured(config, f, kernelParams, extra, SIM_PTSZ(config->hStream));
}

static CUresult launch_cooperative(CUfunction f, const unsigned grid[3], const unsigned block[3], unsigned shared,
				   CUstream stream, void **parameters)
{
	struct sim_launch_attributes attributes;

	attributes.set = 1u << CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
	attributes.values[CU_LAUNCH_ATTRIBUTE_COOPERATIVE].cooperative = 1;
	return launch_kernel(f, grid, block, shared, stream, parameters, NULL, &attributes);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
				   unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
				   unsigned int sharedMemBytes, CUstream hStream, void **kernelParams)
{
	SIM_ENTER(cuLaunchCooperativeKernel);
	return launch_cooperative(f, (unsigned[]){gridDimX, gridDimY, gridDimZ},
				  (unsigned[]){blockDimX, blockDimY, blockDimZ}, sharedMemBytes, hStream, kernelParams);
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
					unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
					unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
					void **kernelParams)
{
	SIM_ENTER(cuLaunchCooperativeKernel_ptsz);
	return launch_cooperative(f, (unsigned[]){gridDimX, gridDimY, gridDimZ},
				  (unsigned[]){blockDimX, blockDimY, blockDimZ}, sharedMemBytes, SIM_PTSZ(hStream),
				  kernelParams);
}

// Each device runs its own cooperative grid. All grids must have the same shape, and the devices must be distinct.
CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList, unsigned int numDevices,
					      unsigned int flags)
{
	struct sim_stream *streams[SIM_DEVICES];

	SIM_ENTER(cuLaunchCooperativeKernelMultiDevice);
	if (!launchParamsList || !numDevices || numDevices > SIM_DEVICES || flags > 3)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < numDevices; i++) {
		const CUDA_LAUNCH_PARAMS *one = &launchParamsList[i], *first = launchParamsList;
		if (!one->hStream || one->hStream == CU_STREAM_LEGACY || one->hStream == CU_STREAM_PER_THREAD)
			return CUDA_ERROR_INVALID_VALUE;
		SIM_TRY(sim_stream_get(one->hStream, &streams[i]));
		if (one->gridDimX != first->gridDimX || one->gridDimY != first->gridDimY ||
		    one->gridDimZ != first->gridDimZ || one->blockDimX != first->blockDimX ||
		    one->blockDimY != first->blockDimY || one->blockDimZ != first->blockDimZ ||
		    one->sharedMemBytes != first->sharedMemBytes)
			return CUDA_ERROR_INVALID_VALUE;
		for (unsigned j = 0; j < i; j++)
			if (streams[j]->context->device == streams[i]->context->device)
				return CUDA_ERROR_INVALID_DEVICE;
	}
	for (unsigned i = 0; i < numDevices; i++) {
		const CUDA_LAUNCH_PARAMS *one = &launchParamsList[i];
		SIM_TRY(launch_cooperative(one->function, (unsigned[]){one->gridDimX, one->gridDimY, one->gridDimZ},
					   (unsigned[]){one->blockDimX, one->blockDimY, one->blockDimZ},
					   one->sharedMemBytes, one->hStream, one->kernelParams));
	}
	return CUDA_SUCCESS;
}
