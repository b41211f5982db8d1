#include "operation/cudnn.h"

#include "operation/cache.h"
#include "operation/plan.h"

#include "driver/math.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORKSPACE ((size_t)256 << 20)

// Only one thread at a time may use a handle.
struct handle {
	struct handle *next;
	void *handle;
};

struct cudnn {
	const struct vg_cudnn *api;
	struct vg_mutex lock;
	struct handle *idle;
	struct operation_cache cache;
};

// The key of the cache: all inputs to the choice of an algorithm, without padding.
struct question {
	uint32_t batch, in_channels, out_channels, height, width, kernel_height, kernel_width;
	uint32_t stride[2], padding[2], dilation[2], groups, type, no_tensor_cores, no_workspace;
};

struct answer {
	uint64_t workspace;
	int algorithm, math;
	bool none;
};
_Static_assert(sizeof(struct question) <= CACHE_KEY && sizeof(struct answer) <= CACHE_VALUE, "the cache holds them");

// For each element type, cuDNN's types and the most permissive math that is allowed. Only FMA_MATH never rounds f32
// inputs.
static const struct {
	int type, sum, math;
} types[] = {
	[VG_F32] = {VG_CUDNN_FLOAT, VG_CUDNN_FLOAT, VG_CUDNN_FMA_MATH},
	[VG_TF32] = {VG_CUDNN_FLOAT, VG_CUDNN_FLOAT, VG_CUDNN_TENSOR_OP_MATH},
	[VG_F16] = {VG_CUDNN_HALF, VG_CUDNN_FLOAT, VG_CUDNN_TENSOR_OP_MATH},
	[VG_BF16] = {VG_CUDNN_BFLOAT16, VG_CUDNN_FLOAT, VG_CUDNN_TENSOR_OP_MATH},
	[VG_F64] = {VG_CUDNN_DOUBLE, VG_CUDNN_DOUBLE, VG_CUDNN_TENSOR_OP_MATH},
};

int cudnn_create(struct cudnn **ret_cudnn, char *problem, size_t capacity)
{
	const struct vg_cudnn *api;

	if (vg_cudnn_load(&api, problem, capacity))
		return 1;
	struct cudnn *cudnn = calloc(1, sizeof *cudnn);
	if (!cudnn) {
		snprintf(problem, capacity, "no memory for cuDNN");
		return 1;
	}
	cudnn->api = api;
	*ret_cudnn = cudnn;
	return 0;
}

void cudnn_destroy(struct cudnn *cudnn)
{
	while (cudnn && cudnn->idle) {
		struct handle *handle = cudnn->idle;
		cudnn->idle = handle->next;
		cudnn->api->cudnnDestroy(handle->handle);
		free(handle);
	}
	free(cudnn);
}

static int acquire_handle(struct cudnn *cudnn, struct handle **ret_handle)
{
	vg_mutex_lock(&cudnn->lock);
	struct handle *handle = cudnn->idle;
	if (handle)
		cudnn->idle = handle->next;
	vg_mutex_unlock(&cudnn->lock);
	if (!handle) {
		handle = calloc(1, sizeof *handle);
		if (!handle || cudnn->api->cudnnCreate(&handle->handle)) {
			free(handle);
			return 1;
		}
	}
	*ret_handle = handle;
	return 0;
}

static void release_handle(struct cudnn *cudnn, struct handle *handle)
{
	vg_mutex_lock(&cudnn->lock);
	handle->next = cudnn->idle;
	cudnn->idle = handle;
	vg_mutex_unlock(&cudnn->lock);
}

static void destroy_descriptors(struct operation_plan *plan)
{
	const struct vg_cudnn *api = plan->set->cudnn->api;
	struct cudnn_convolution *c = &plan->convolution;

	if (c->input)
		api->cudnnDestroyTensorDescriptor(c->input);
	if (c->output)
		api->cudnnDestroyTensorDescriptor(c->output);
	if (c->bias)
		api->cudnnDestroyTensorDescriptor(c->bias);
	if (c->filter)
		api->cudnnDestroyFilterDescriptor(c->filter);
	if (c->convolution)
		api->cudnnDestroyConvolutionDescriptor(c->convolution);
	memset(c, 0, sizeof *c);
}

static int describe_tensor(const struct vg_cudnn *api, void **tensor, int type, uint64_t n, uint64_t c, uint64_t h,
			   uint64_t w)
{
	return api->cudnnCreateTensorDescriptor(tensor) ||
	       api->cudnnSetTensor4dDescriptor(*tensor, VG_CUDNN_NCHW, type, (int)n, (int)c, (int)h, (int)w);
}

// Sets the descriptors. Returns nonzero if cuDNN rejects the description.
static int create_descriptors(const struct vg_cudnn *api, struct cudnn_convolution *c,
			      const struct checked_convolution *checked)
{
	const struct vg_convolution *d = &checked->d;
	int type = types[d->type].type;

	return describe_tensor(api, &c->input, type, d->batch, d->in_channels, d->height, d->width) ||
	       describe_tensor(api, &c->output, type, d->batch, d->out_channels, checked->output_height,
			       checked->output_width) ||
	       describe_tensor(api, &c->bias, type, 1, d->out_channels, 1, 1) ||
	       api->cudnnCreateFilterDescriptor(&c->filter) ||
	       api->cudnnSetFilter4dDescriptor(c->filter, type, VG_CUDNN_NCHW, (int)d->out_channels,
					       (int)(d->in_channels / d->groups), (int)d->kernel_height,
					       (int)d->kernel_width) ||
	       api->cudnnCreateConvolutionDescriptor(&c->convolution) ||
	       api->cudnnSetConvolution2dDescriptor(
		       c->convolution, (int)d->padding[0], (int)d->padding[1], (int)d->stride[0], (int)d->stride[1],
		       (int)d->dilation[0], (int)d->dilation[1], VG_CUDNN_CROSS_CORRELATION, types[d->type].sum) ||
	       api->cudnnSetConvolutionGroupCount(c->convolution, (int)d->groups);
}

static struct answer choose_algorithm(struct cudnn *cudnn, void *handle, const struct cudnn_convolution *c, int math,
				      size_t most)
{
	struct vg_cudnn_algorithm candidates[VG_CUDNN_ALGORITHMS];
	const struct vg_cudnn *api = cudnn->api;
	struct answer answer;
	size_t workspace;
	int count = 0;

	memset(&answer, 0, sizeof answer);
	answer.none = api->cudnnSetConvolutionMathType(c->convolution, math) ||
		      api->cudnnGetConvolutionForwardAlgorithm_v7(handle, c->input, c->filter, c->convolution,
								  c->output, VG_CUDNN_ALGORITHMS, &count, candidates);
	for (int i = 0; !answer.none && i < count; i++) {
		const struct vg_cudnn_algorithm *one = &candidates[i];
		if (one->status || one->algorithm > VG_CUDNN_ALGORITHM_DIRECT || one->workspace > most ||
		    (math == VG_CUDNN_FMA_MATH && one->math != math) ||
		    api->cudnnSetConvolutionMathType(c->convolution, one->math) ||
		    api->cudnnGetConvolutionForwardWorkspaceSize(handle, c->input, c->filter, c->convolution, c->output,
								 one->algorithm, &workspace) ||
		    workspace > most)
			continue;
		answer.workspace = workspace;
		answer.algorithm = one->algorithm;
		answer.math = one->math;
		return answer;
	}
	answer.none = true;
	return answer;
}

static int run_with_handle(struct operation_plan *plan, void *handle, vg_address workspace)
{
	static const double one = 1, zero = 0;
	static const float one_f32 = 1, zero_f32 = 0;
	const struct vg_cudnn *api = plan->set->cudnn->api;
	const struct cudnn_convolution *c = &plan->convolution;
	const void *with = c->wide ? (const void *)&one : &one_f32,
		   *without = c->wide ? (const void *)&zero : &zero_f32;

	int r = api->cudnnConvolutionForward(handle, with, c->input, c->address_input, c->filter, c->address_filter,
					     c->convolution, c->algorithm, (void *)workspace, plan->workspace, without,
					     c->output, c->address_output);
	if (r == 0 && c->address_bias)
		r = api->cudnnAddTensor(handle, with, c->bias, c->address_bias, with, c->output, c->address_output);
	return r;
}

static enum vg_status run_convolution(struct operation_plan *plan, CUstream stream, vg_address workspace)
{
	struct cudnn *cudnn = plan->set->cudnn;
	struct handle *handle;

	if (acquire_handle(cudnn, &handle))
		return vg_fail(VG_DRIVER, 0, "cudnnCreate failed; %s", plan->says);
	int r = cudnn->api->cudnnSetStream(handle->handle, stream);
	if (r == 0)
		r = run_with_handle(plan, handle->handle, workspace);
	release_handle(cudnn, handle);
	return r ? vg_fail(VG_DRIVER, 0, "%s: %s", plan->says, cudnn->api->cudnnGetErrorString(r)) : VG_OK;
}

static struct question make_question(const struct vg_convolution *d, struct operation_rules rules)
{
	struct question q;

	memset(&q, 0, sizeof q);
	q.batch = (uint32_t)d->batch;
	q.in_channels = (uint32_t)d->in_channels;
	q.out_channels = (uint32_t)d->out_channels;
	q.height = (uint32_t)d->height;
	q.width = (uint32_t)d->width;
	q.kernel_height = (uint32_t)d->kernel_height;
	q.kernel_width = (uint32_t)d->kernel_width;
	memcpy(q.stride, d->stride, sizeof q.stride);
	memcpy(q.padding, d->padding, sizeof q.padding);
	memcpy(q.dilation, d->dilation, sizeof q.dilation);
	q.groups = d->groups;
	q.type = (uint32_t)d->type;
	q.no_tensor_cores = rules.no_tensor_cores;
	q.no_workspace = rules.no_workspace;
	return q;
}

static bool find_answer(struct cudnn *cudnn, struct operation_plan *plan, const struct vg_convolution *d,
			struct operation_rules rules, struct answer *ret_answer)
{
	const struct question question = make_question(d, rules);
	struct handle *handle;

	if (operation_cache_find(&cudnn->cache, &question, sizeof question, ret_answer, sizeof *ret_answer))
		return !ret_answer->none;
	if (acquire_handle(cudnn, &handle))
		return false;
	*ret_answer = choose_algorithm(cudnn, handle->handle, &plan->convolution,
				       rules.no_tensor_cores ? VG_CUDNN_FMA_MATH : types[d->type].math,
				       rules.no_workspace ? 0 : MAX_WORKSPACE);
	release_handle(cudnn, handle);
	operation_cache_keep(&cudnn->cache, &question, sizeof question, ret_answer, sizeof *ret_answer);
	return !ret_answer->none;
}

int cudnn_plan(struct cudnn *cudnn, struct operation_plan *plan, const struct checked_convolution *checked,
	       struct operation_rules rules)
{
	static const char *const algorithms[] = {"implicit GEMM", "implicit precomputed GEMM", "GEMM", "direct"};
	const struct vg_convolution *d = &checked->d;
	struct cudnn_convolution *c = &plan->convolution;
	struct answer answer;

	if (create_descriptors(cudnn->api, c, checked) || !find_answer(cudnn, plan, d, rules, &answer) ||
	    cudnn->api->cudnnSetConvolutionMathType(c->convolution, answer.math)) {
		destroy_descriptors(plan);
		return 1;
	}
	c->algorithm = answer.algorithm;
	c->address_input = (const void *)d->input;
	c->address_filter = (const void *)d->filter;
	c->address_bias = (const void *)d->bias;
	c->address_output = (void *)d->output;
	c->wide = d->type == VG_F64;
	plan->provider = OPERATION_CUDNN;
	plan->workspace = answer.workspace;
	plan->run = run_convolution;
	plan->finish = destroy_descriptors;
	snprintf(plan->says, sizeof plan->says, "cuDNN %d.%d, %s, %s", cudnn->api->major, cudnn->api->minor,
		 algorithms[answer.algorithm],
		 answer.math == VG_CUDNN_FMA_MATH ? "no tensor cores" : "tensor cores allowed");
	return 0;
}
