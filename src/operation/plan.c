#include "operation/plan.h"

#include <stdlib.h>

enum { WORKSPACE_ALIGNMENT = 256 };

static enum vg_status create_plan(struct operation_set *set, const struct operation_ranges *ranges,
				  struct operation_plan **ret_plan)
{
	struct operation_plan *plan = calloc(1, sizeof *plan);

	if (!plan)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a plan");
	plan->set = set;
	plan->ranges = *ranges;
	*ret_plan = plan;
	return VG_OK;
}

// Checks whether the rules allow products of this type.
static enum vg_status check_rules(const struct operation_type *type, struct operation_rules rules)
{
	if (rules.no_tensor_cores && type->tensor_only)
		return vg_fail(VG_UNSUPPORTED, 0,
			       "tensor cores are off, and only they multiply in %s: take f32, or switch them on",
			       type->name);
	if (rules.no_mixed_precision && type->mixed)
		return vg_fail(
			VG_UNSUPPORTED, 0,
			"mixed precision is off, and products of %s are summed in f32: take f32, or switch it on",
			type->name);
	return VG_OK;
}

// Returns whether the provider is available. If so, makes the set's context current.
static bool enter_provider(struct operation_set *set, enum operation_provider provider, struct operation_rules rules,
			   struct core_scope *scope)
{
	return !rules.portable && !operation_set_lacks(set, provider) &&
	       core_enter(scope, set->context->handle) == CUDA_SUCCESS;
}

enum vg_status operation_plan_matrix_multiply(struct operation_set *set, const struct vg_matrix_multiply *description,
					      struct operation_rules rules, struct operation_plan **ret_plan)
{
	struct checked_multiply checked;

	enum vg_status status = operation_check_multiply(description, &checked);
	if (status)
		return status;
	status = check_rules(checked.type, rules);
	if (status)
		return status;
	status = create_plan(set, &checked.ranges, ret_plan);
	if (status)
		return status;
	CORE_SCOPE scope = {false};
	if (!enter_provider(set, OPERATION_CUBLASLT, rules, &scope) ||
	    cublaslt_plan(set->cublaslt, *ret_plan, &checked, rules))
		portable_multiply(*ret_plan, &checked);
	return VG_OK;
}

enum vg_status operation_plan_convolution(struct operation_set *set, const struct vg_convolution *description,
					  struct operation_rules rules, struct operation_plan **ret_plan)
{
	struct checked_convolution checked;

	enum vg_status status = operation_check_convolution(description, &checked);
	if (status)
		return status;
	status = check_rules(checked.type, rules);
	if (status)
		return status;
	status = create_plan(set, &checked.ranges, ret_plan);
	if (status)
		return status;
	CORE_SCOPE scope = {false};
	if (!enter_provider(set, OPERATION_CUDNN, rules, &scope) || cudnn_plan(set->cudnn, *ret_plan, &checked, rules))
		portable_convolution(*ret_plan, &checked);
	return VG_OK;
}

enum vg_status operation_plan_activation(struct operation_set *set, const struct vg_activation *description,
					 struct operation_rules rules, struct operation_plan **ret_plan)
{
	struct checked_activation checked;

	enum vg_status status = operation_check_activation(description, &checked);
	if (status)
		return status;
	status = create_plan(set, &checked.ranges, ret_plan);
	if (status)
		return status;
	portable_activation(*ret_plan, &checked);
	return VG_OK;
}

void operation_plan_destroy(struct operation_plan *plan)
{
	if (plan && plan->finish)
		plan->finish(plan);
	free(plan);
}

void operation_plan_ranges(const struct operation_plan *plan, struct operation_ranges *ret_ranges)
{
	*ret_ranges = plan->ranges;
}

size_t operation_plan_workspace(const struct operation_plan *plan)
{
	return plan->workspace;
}

enum operation_provider operation_plan_provider(const struct operation_plan *plan)
{
	return plan->provider;
}

const char *operation_plan_says(const struct operation_plan *plan)
{
	return plan->says;
}

enum vg_status operation_plan_run(struct operation_plan *plan, struct vg_stream *stream, vg_address workspace)
{
	const struct vg_context *context = plan->set->context;
	CORE_SCOPE scope = {false};

	enum vg_status status = core_object_check((struct core_object *)stream, "stream");
	if (status)
		return status;
	if (stream->context->handle != context->handle)
		return vg_fail(VG_INVALID, 0, "the stream is of another context: take one of device %d's",
			       context->device->ordinal);
	if (plan->workspace && (workspace == 0 || workspace % WORKSPACE_ALIGNMENT))
		return vg_fail(VG_INVALID, 0, "the workspace is at 0x%llx: %zu bytes are needed, at a multiple of %d",
			       (unsigned long long)workspace, plan->workspace, WORKSPACE_ALIGNMENT);
	CUresult r = core_enter(&scope, context->handle);
	if (r)
		return core_driver_failed(r, "cuCtxPushCurrent", "%s", "");
	return plan->run(plan, stream->handle, workspace);
}
