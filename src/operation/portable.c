// Launches this library's own kernels.
#include "operation/plan.h"

#include <stdio.h>

static uint64_t count_pieces(uint64_t whole, uint64_t piece)
{
	return whole / piece + (whole % piece != 0);
}

static uint64_t count_tiles(uint64_t m, uint64_t n, uint64_t batch, unsigned side)
{
	uint64_t tiles;

	// If the product overflows, the result is too large to launch anyway.
	return __builtin_mul_overflow(count_pieces(m, side) * count_pieces(n, side), batch, &tiles) ? UINT64_MAX
												    : tiles;
}

// Limits the number of blocks of a launch. Each block loops over its share of the work.
static unsigned limit_blocks(uint64_t blocks)
{
	return blocks < INT32_MAX ? (unsigned)blocks : INT32_MAX;
}

static enum vg_status run_kernel(struct operation_plan *plan, CUstream stream, vg_address workspace)
{
	struct operation_launch *launch = &plan->launch;
	void *arguments[] = {&launch->parameters};

	CUresult r = core_driver->cuLaunchKernel((CUfunction)launch->kernel->handle, launch->blocks, 1, 1,
						 launch->threads, 1, 1, 0, stream, arguments, NULL);
	return r ? core_driver_failed(r, "cuLaunchKernel", "%s", plan->says) : VG_OK;
}

static void set_launch(struct operation_plan *plan, const struct operation_type *type, enum operation_kernel kernel,
		       uint64_t blocks, unsigned threads, const char *what)
{
	plan->provider = OPERATION_PORTABLE;
	plan->run = run_kernel;
	plan->launch.kernel = plan->set->kernels[kernel][type->kernels];
	plan->launch.blocks = limit_blocks(blocks);
	plan->launch.threads = threads;
	snprintf(plan->says, sizeof plan->says, "own kernel, %s of %s, %llu blocks", what, type->name,
		 (unsigned long long)plan->launch.blocks);
}

// Uses large tiles, which read less memory, if there are enough of them to occupy every multiprocessor.
static void set_tiles(struct operation_plan *plan, const struct operation_type *type, enum operation_kernel small,
		      uint64_t m, uint64_t n, uint64_t batch)
{
	uint64_t large_tiles = count_tiles(m, n, batch, MULTIPLY_LARGE);
	bool large = plan->set->kernels[small + 1][type->kernels] && large_tiles >= plan->set->processors;

	set_launch(plan, type, large ? small + 1 : small,
		   large ? large_tiles : count_tiles(m, n, batch, MULTIPLY_SMALL), MULTIPLY_THREADS,
		   large ? "tiles of 128x128" : "tiles of 64x64");
}

void portable_multiply(struct operation_plan *plan, const struct checked_multiply *checked)
{
	static const enum multiply_epilogue epilogues[] = {
		[VG_EPILOGUE_RELU] = MULTIPLY_RELU,
		[VG_EPILOGUE_RELU_BIAS] = MULTIPLY_RELU,
		[VG_EPILOGUE_GELU] = MULTIPLY_GELU,
		[VG_EPILOGUE_GELU_BIAS] = MULTIPLY_GELU,
	};
	const struct vg_matrix_multiply *d = &checked->d;

	set_tiles(plan, checked->type, KERNEL_MULTIPLY_SMALL, d->m, d->n, d->batch);
	plan->launch.parameters.multiply = (struct multiply_parameters){
		.m = d->m,
		.n = d->n,
		.k = d->k,
		.batch = d->batch,
		.a = d->a,
		.b = d->b,
		.stride_a = (uint64_t)d->stride_a,
		.stride_b = (uint64_t)d->stride_b,
		.result = {d->c, d->bias, (uint64_t)d->stride_c, d->alpha, d->beta, epilogues[d->epilogue]},
	};
}

void portable_convolution(struct operation_plan *plan, const struct checked_convolution *checked)
{
	const struct vg_convolution *d = &checked->d;
	uint64_t m = d->out_channels / d->groups, n = checked->output_height * checked->output_width;
	uint64_t batch = d->batch * d->groups, channels = d->in_channels / d->groups;

	set_tiles(plan, checked->type, KERNEL_CONVOLVE_SMALL, m, n, batch);
	plan->launch.parameters.convolve = (struct convolve_parameters){
		.m = m,
		.n = n,
		.k = channels * d->kernel_height * d->kernel_width,
		.batch = batch,
		.filter = d->filter,
		.input = d->input,
		.groups = d->groups,
		.channels = (uint32_t)channels,
		.height = (uint32_t)d->height,
		.width = (uint32_t)d->width,
		.kernel_height = (uint32_t)d->kernel_height,
		.kernel_width = (uint32_t)d->kernel_width,
		.output_width = (uint32_t)checked->output_width,
		.stride = {d->stride[0], d->stride[1]},
		.padding = {d->padding[0], d->padding[1]},
		.dilation = {d->dilation[0], d->dilation[1]},
		.result = {d->output, d->bias, m * n, 1, 0, MULTIPLY_PLAIN},
	};
}

// Returns the smallest power of two that is at least `value`, but at most `most`.
static unsigned round_to_power(uint64_t value, unsigned most)
{
	unsigned power = 1;

	while (power < value && power < most)
		power *= 2;
	return power;
}

static void plan_softmax(struct operation_plan *plan, const struct checked_activation *checked)
{
	const struct vg_activation *d = &checked->d;
	uint64_t area = d->height * d->width;
	// `lanes` threads share the channels of one position, about 8 channels for each thread, and combine their
	// results. If possible, a block handles at least 32 positions, which limits `lanes`. Then a warp reads adjacent
	// positions, which are adjacent in memory.
	unsigned lanes = round_to_power(count_pieces(d->channels, 8), ACTIVATION_THREADS / round_to_power(area, 32));
	unsigned positions = ACTIVATION_THREADS / lanes;

	set_launch(plan, checked->type, KERNEL_SOFTMAX, count_pieces(d->batch * area, positions), ACTIVATION_THREADS,
		   "softmax");
	plan->launch.parameters.softmax =
		(struct softmax_parameters){d->input, d->output, d->batch, d->channels, area, positions, lanes};
}

void portable_activation(struct operation_plan *plan, const struct checked_activation *checked)
{
	const struct vg_activation *d = &checked->d;
	uint64_t count = d->batch * d->channels * d->height * d->width;
	uint64_t vectors = count_pieces(count, ACTIVATION_BYTES / checked->type->bytes),
		 blocks = count_pieces(vectors, ACTIVATION_THREADS);
	uint64_t wave = (uint64_t)plan->set->processors * 16; // sixteen blocks for each multiprocessor fill the device

	if (d->kind == VG_ACTIVATION_SOFTMAX) {
		plan_softmax(plan, checked);
		return;
	}
	set_launch(plan, checked->type, KERNEL_ACTIVATE, blocks < wave ? blocks : wave, ACTIVATION_THREADS,
		   vg_activation_name(d->kind));
	plan->launch.parameters.activation =
		(struct activation_parameters){d->input, d->output, count, d->alpha, (uint32_t)d->kind};
}
