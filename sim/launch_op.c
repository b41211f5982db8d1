// Implements kernel launches: checks the arguments, creates an operation, and runs it on the PTX interpreter.
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "context.h"
#include "cost.h"
#include "fault.h"
#include "kernel.h"
#include "launch.h"
#include "log.h"
#include "process.h"
#include "texture.h"

CUresult sim_launch_attributes_add(struct sim_launch_attributes *attributes, CUlaunchAttributeID id,
				   const CUlaunchAttributeValue *value)
{
	switch (id) {
	case CU_LAUNCH_ATTRIBUTE_IGNORE:
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
		if (!value->clusterDim.x || !value->clusterDim.y || !value->clusterDim.z)
			return CUDA_ERROR_INVALID_VALUE;
		break;
	case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
		if (value->deviceUpdatableKernelNode.deviceUpdatable)
			return CUDA_ERROR_NOT_SUPPORTED;
		break;
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
	case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
	case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	attributes->set |= 1u << id;
	attributes->values[id] = *value;
	return CUDA_SUCCESS;
}

static bool is_cooperative(const struct sim_launch_attributes *attributes)
{
	return attributes && (attributes->set & 1u << CU_LAUNCH_ATTRIBUTE_COOPERATIVE) &&
	       attributes->values[CU_LAUNCH_ATTRIBUTE_COOPERATIVE].cooperative;
}

static bool fits_grid(const unsigned cluster[3], const unsigned grid[3])
{
	return grid[0] % cluster[0] == 0 && grid[1] % cluster[1] == 0 && grid[2] % cluster[2] == 0;
}

CUresult sim_launch_cluster(const struct CUfunc_st *function, const unsigned grid[3],
			    const struct sim_launch_attributes *attributes, unsigned ret_cluster[3])
{
	const struct ptx_function_info *info = function->info;
	const struct sim_settings *settings = &function->settings;
	unsigned cluster[3] = {0};

	if (info->cluster[0])
		memcpy(cluster, info->cluster, sizeof cluster);
	else if (settings->cluster[0] > 0 && settings->cluster[1] > 0 && settings->cluster[2] > 0)
		memcpy(cluster, settings->cluster, sizeof cluster);
	if (attributes && attributes->set & 1u << CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
		const CUlaunchAttributeValue *value = &attributes->values[CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION];
		const unsigned given[3] = {value->clusterDim.x, value->clusterDim.y, value->clusterDim.z};
		if (cluster[0] && memcmp(given, cluster, sizeof cluster) != 0)
			return CUDA_ERROR_INVALID_CLUSTER_SIZE; // the kernel was compiled for another size
		memcpy(cluster, given, sizeof cluster);
	}
	memcpy(ret_cluster, cluster, sizeof cluster);
	if (!cluster[0])
		return info->explicit_cluster ? CUDA_ERROR_INVALID_CLUSTER_SIZE : CUDA_SUCCESS;
	uint64_t blocks = (uint64_t)cluster[0] * cluster[1] * cluster[2];
	if (blocks > (settings->cluster_any ? SIM_CLUSTER_MOST : SIM_CLUSTER_PORTABLE))
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	if (!fits_grid(cluster, grid))
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	return blocks > 1 && sim_process.config.cc_major < 9 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

static CUresult check_shape(const struct sim_launch_request *request, unsigned sms)
{
	const struct ptx_function_info *info = request->function->info;
	const unsigned *grid = request->grid, *block = request->block;

	if (!grid[0] || !grid[1] || !grid[2] || !block[0] || !block[1] || !block[2])
		return CUDA_ERROR_INVALID_VALUE;
	if (grid[0] > 0x7fffffff || grid[1] > 65535 || grid[2] > 65535)
		return CUDA_ERROR_INVALID_VALUE;
	if (block[0] > 1024 || block[1] > 1024 || block[2] > 64)
		return CUDA_ERROR_INVALID_VALUE;
	uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
	if (threads > 1024) {
		sim_log("%s: a block of %ux%ux%u has more than 1024 threads", info->name, block[0], block[1], block[2]);
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (info->required[0] && memcmp(info->required, block, sizeof info->required) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (threads > info->max_threads)
		return CUDA_ERROR_INVALID_VALUE;
	if (request->shared > (unsigned)sim_kernel_dynamic_limit(info, &request->function->settings))
		return CUDA_ERROR_INVALID_VALUE;
	if (info->registers * threads > 65536)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	SIM_TRY(sim_launch_cluster(request->function, grid, request->attributes, (unsigned[3]){0}));
	if (is_cooperative(request->attributes)) {
		int resident = sim_occupancy_blocks(info, (int)threads, request->shared);
		uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
		if (blocks > (uint64_t)resident * sms) {
			sim_log("%s: %llu blocks in a cooperative launch, %llu fit", info->name,
				(unsigned long long)blocks, (unsigned long long)resident * sms);
			return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
		}
	}
	return CUDA_SUCCESS;
}

static CUresult read_extra(void **extra, void **ret_buffer, size_t *ret_size)
{
	void *buffer = NULL;
	size_t size = 0;

	for (size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
		if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[i + 1];
		else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[i + 1])
			size = *(const size_t *)extra[i + 1];
		else
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (!buffer && size)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_buffer = buffer;
	*ret_size = size;
	return CUDA_SUCCESS;
}

static CUresult copy_arguments(struct sim_launch_op *launch, void **parameters, void **extra)
{
	const struct ptx_function_info *info = launch->function->info;
	unsigned char *target = launch->arguments;

	if (parameters && extra)
		return CUDA_ERROR_INVALID_VALUE;
	if (extra) {
		void *buffer;
		size_t size;
		SIM_TRY(read_extra(extra, &buffer, &size));
		if (size < info->parameter_bytes)
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(target, buffer, info->parameter_bytes);
		return CUDA_SUCCESS;
	}
	if (info->parameter_count && !parameters)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < info->parameter_count; i++) {
		if (!parameters[i])
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(target + info->parameters[i].offset, parameters[i], info->parameters[i].size);
	}
	return CUDA_SUCCESS;
}

CUresult sim_launch_op_new(struct sim_context *context, const struct sim_launch_request *request,
			   struct sim_op **ret_op)
{
	struct CUfunc_st *function = request->function;

	if (function->module->context != context->parent)
		return CUDA_ERROR_INVALID_HANDLE;
	unsigned sms = request->sms ? request->sms : context->sms;
	SIM_TRY(check_shape(request, sms));
	if (!atomic_load_explicit(&function->loaded, memory_order_relaxed)) {
		SIM_TRY(sim_function_check(function->ptx));
		atomic_store(&function->loaded, true);
	}
	struct sim_launch_op *launch = (struct sim_launch_op *)sim_op_new(&sim_launch_class, context);
	launch->function = function;
	atomic_fetch_add_explicit(&function->module->references, 1, memory_order_relaxed);
	memcpy(launch->grid, request->grid, sizeof launch->grid);
	memcpy(launch->block, request->block, sizeof launch->block);
	launch->shared = request->shared;
	launch->sms = sms;
	launch->cooperative = is_cooperative(request->attributes);
	// An empty kernel has no effect, so it may run on the submitting thread.
	launch->op.instant = function->info->empty && !sim_fault_slows_operations();
	CUresult result = CUDA_SUCCESS;
	launch->arguments = launch->inlined;
	if (function->info->parameter_bytes > SIM_LAUNCH_INLINE)
		launch->arguments = malloc(function->info->parameter_bytes);
	if (request->attributes && request->attributes->set) {
		launch->attributes = malloc(sizeof *launch->attributes);
		if (launch->attributes)
			*launch->attributes = *request->attributes;
		else
			result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!launch->arguments)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS)
		result = copy_arguments(launch, request->parameters, request->extra);
	if (result != CUDA_SUCCESS) {
		sim_op_free(&launch->op);
		return result;
	}
	*ret_op = &launch->op;
	return CUDA_SUCCESS;
}

static CUresult clone_launch(struct sim_op *op)
{
	struct sim_launch_op *launch = (struct sim_launch_op *)op;
	size_t bytes = launch->function->info->parameter_bytes;
	void *arguments = launch->inlined;
	struct sim_launch_attributes *attributes = NULL;

	if (bytes > SIM_LAUNCH_INLINE) {
		arguments = malloc(bytes);
		if (arguments)
			memcpy(arguments, launch->arguments, bytes);
	}
	if (launch->attributes) {
		attributes = malloc(sizeof *attributes);
		if (attributes)
			*attributes = *launch->attributes;
	}
	if (!arguments || (launch->attributes && !attributes)) {
		if (arguments != launch->inlined)
			free(arguments);
		free(attributes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	launch->arguments = arguments;
	launch->attributes = attributes;
	atomic_fetch_add(&launch->function->module->references, 1);
	return CUDA_SUCCESS;
}

static void finish_launch(struct sim_op *op)
{
	struct sim_launch_op *launch = (struct sim_launch_op *)op;

	if (launch->arguments != launch->inlined)
		free(launch->arguments);
	free(launch->attributes);
	if (launch->function)
		sim_module_unref(launch->function->module);
}

static CUresult report_fault(const struct sim_launch_op *launch, const struct ptx_fault *fault)
{
	// Write the output of printf now, because after a failure no later call waits for the context.
	sim_exec_flush_output(launch->op.context);
	if (fault->kind == PTX_FAULT_DEADLOCK)
		sim_warn("%s", fault->text);
	else if (fault->kind != PTX_FAULT_CANCELLED && sim_exec_is_verbose())
		sim_warn("kernel %s: %s", launch->function->info->name, fault->text);
	switch (fault->kind) {
	case PTX_FAULT_ILLEGAL_ADDRESS:
	case PTX_FAULT_SHARED_RANGE:
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	case PTX_FAULT_MISALIGNED:
		return CUDA_ERROR_MISALIGNED_ADDRESS;
	case PTX_FAULT_ASSERT:
		return CUDA_ERROR_ASSERT;
	case PTX_FAULT_STACK_OVERFLOW:
		return CUDA_ERROR_HARDWARE_STACK_ERROR;
	case PTX_FAULT_ILLEGAL_INSTRUCTION:
		return CUDA_ERROR_ILLEGAL_INSTRUCTION;
	case PTX_FAULT_DEADLOCK:
		return CUDA_ERROR_LAUNCH_TIMEOUT;
	case PTX_FAULT_CANCELLED:
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	default:
		return CUDA_ERROR_LAUNCH_FAILED;
	}
}

// Returns how many host threads may run a grid: at most one for each processor, and at most one for each block. A small
// cooperative grid gets only one, because the interpreter starts all threads of a cooperative grid at once.
static unsigned count_host_threads(const struct sim_launch_op *launch)
{
	static _Atomic unsigned processors;
	unsigned count = atomic_load_explicit(&processors, memory_order_relaxed);

	if (!count) {
		cpu_set_t set;
		count = sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
		atomic_store_explicit(&processors, count, memory_order_relaxed);
	}
	uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
	uint64_t threads = blocks * launch->block[0] * launch->block[1] * launch->block[2];
	if (launch->cooperative && threads < 4096)
		return 1;
	return blocks < count ? (unsigned)blocks : count;
}

// Makes a kernel on a part of the multiprocessors take longer. With fewer multiprocessors, the grid runs in more waves
// of blocks. Sleeps as long as these additional waves take.
static void wait_for_waves(const struct sim_launch_op *launch, uint64_t elapsed_ns)
{
	const struct sim_context *context = launch->op.context;
	uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
	unsigned threads = launch->block[0] * launch->block[1] * launch->block[2];

	if (launch->sms >= sim_process.config.sms)
		return;
	uint64_t resident = (uint64_t)sim_occupancy_blocks(launch->function->info, (int)threads, launch->shared);
	uint64_t all = resident * sim_process.config.sms, few = resident * launch->sms;
	if (!few)
		return;
	uint64_t waves = (blocks + all - 1) / all, more = (blocks + few - 1) / few - waves;
	for (uint64_t end = sim_clock_ns() + elapsed_ns / waves * more, now; (now = sim_clock_ns()) < end;) {
		uint64_t rest = end - now < 5000000 ? end - now : 5000000;
		if (atomic_load_explicit(&context->cancel, memory_order_relaxed))
			return;
		nanosleep(&(struct timespec){.tv_nsec = (long)rest}, NULL);
	}
}

static CUresult run_launch(struct sim_op *op)
{
	struct sim_launch_op *launch = (struct sim_launch_op *)op;
	struct sim_context *context = op->context;
	struct sim_exec *exec = context->parent->exec;
	struct ptx_launch run = {
		.function = launch->function->ptx,
		.grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
		.block = {launch->block[0], launch->block[1], launch->block[2]},
		.dynamic_shared = launch->shared,
		.parameters = launch->arguments,
		.space = sim_op_space(op),
		.heap = exec ? exec->heap : NULL,
		.stack_bytes = (uint32_t)context->parent->limits[CU_LIMIT_STACK_SIZE],
		.sm_count = launch->sms,
		.cooperative = launch->cooperative,
		.threads = count_host_threads(launch),
		.cancel = (const volatile int *)&context->cancel,
		.texture = sim_texture_find,
		.print = sim_exec_print,
		.print_context = context,
	};
	struct ptx_fault fault = {0};
	CUdeviceptr workspace = 0;

	SIM_TRY(sim_launch_cluster(launch->function, launch->grid, launch->attributes, run.cluster));
	if (launch->function->info->empty)
		return CUDA_SUCCESS;
	if (launch->cooperative) {
		SIM_TRY(sim_exec_workspace_alloc(context, &workspace));
		run.grid_workspace = workspace;
	}
	uint64_t start = sim_clock_ns();
	int r = ptx_run(&run, &fault);
	if (r == 0)
		wait_for_waves(launch, sim_clock_ns() - start);
	if (workspace)
		sim_exec_workspace_free(context, workspace);
	if (r < 0)
		return r == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_LAUNCH_FAILED;
	return r ? report_fault(launch, &fault) : CUDA_SUCCESS;
}

static unsigned list_pieces(const struct sim_op *op, struct region_piece *ret_pieces, unsigned capacity)
{
	const struct sim_launch_op *launch = (const struct sim_launch_op *)op;
	uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];

	if (capacity)
		ret_pieces[0] = sim_cost_kernel(launch->function->info->name, blocks, launch->sms);
	return 1;
}

const struct sim_op_class sim_launch_class = {
	.name = "kernel",
	.size = sizeof(struct sim_launch_op),
	.run = run_launch,
	.clone = clone_launch,
	.finish = finish_launch,
	.pieces = list_pieces,
};
