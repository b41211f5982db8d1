#include "operation/plan.h"

#include "kernels/activation_fatbin.h"
#include "kernels/multiply_fatbin.h"
#include "virgate/object_code.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
	const char *format;
	bool activation, f64;
} kernel_names[KERNEL_COUNT] = {
	[KERNEL_MULTIPLY_SMALL] = {"virgate_multiply_%s_small", false, true},
	[KERNEL_MULTIPLY_LARGE] = {"virgate_multiply_%s_large", false, false},
	[KERNEL_CONVOLVE_SMALL] = {"virgate_convolve_%s_small", false, true},
	[KERNEL_CONVOLVE_LARGE] = {"virgate_convolve_%s_large", false, false},
	[KERNEL_ACTIVATE] = {"virgate_activate_%s", true, true},
	[KERNEL_SOFTMAX] = {"virgate_softmax_%s", true, true},
};

static enum vg_status load_kernel(struct operation_set *set, enum operation_kernel kernel, enum vg_element_type type)
{
	const struct operation_type *t = operation_type_of(type);
	char name[64];

	if (type == VG_TF32 || (type == VG_F64 && !kernel_names[kernel].f64))
		return VG_OK;
	snprintf(name, sizeof name, kernel_names[kernel].format, t->name);
	return vg_object_code_kernel(kernel_names[kernel].activation ? set->activation : set->multiply, name,
				     &set->kernels[kernel][t->kernels]);
}

static enum vg_status load_kernels(struct operation_set *set)
{
	static const struct vg_object_code_options multiply = {.size = sizeof multiply, .name = "virgate multiply"};
	static const struct vg_object_code_options activation = {.size = sizeof activation,
								 .name = "virgate activation"};

	enum vg_status status = vg_object_code_create(VG_CODE_FATBIN, multiply_fatbin, sizeof multiply_fatbin - 1,
						      &multiply, &set->multiply);
	if (status)
		return status;
	status = vg_object_code_create(VG_CODE_FATBIN, activation_fatbin, sizeof activation_fatbin - 1, &activation,
				       &set->activation);
	for (int kernel = 0; !status && kernel < KERNEL_COUNT; kernel++)
		for (int type = VG_F32; !status && type <= VG_F64; type++)
			status = load_kernel(set, (enum operation_kernel)kernel, (enum vg_element_type)type);
	return status;
}

enum vg_status operation_set_create(struct vg_context *context, struct operation_set **ret_set)
{
	int processors;

	enum vg_status status = core_object_check((struct core_object *)context, "context");
	if (status)
		return status;
	status = vg_device_property(context->device, VG_DEVICE_MULTIPROCESSOR_COUNT, &processors);
	if (status)
		return status;
	struct operation_set *set = calloc(1, sizeof *set);
	if (!set)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a set of operations");
	core_object_retain(&context->object);
	set->context = context;
	set->processors = (unsigned)processors;
	status = load_kernels(set);
	if (status) {
		operation_set_destroy(set);
		return status;
	}
	*ret_set = set;
	return VG_OK;
}

static void close_libraries(struct operation_set *set)
{
	CORE_SCOPE scope = {false};

	// If the context was destroyed, the libraries' handles need not be freed.
	if ((set->cublaslt || set->cudnn) && core_enter(&scope, set->context->handle) == CUDA_SUCCESS) {
		cudnn_destroy(set->cudnn);
		cublaslt_destroy(set->cublaslt);
	}
}

void operation_set_destroy(struct operation_set *set)
{
	if (!set)
		return;
	for (int kernel = 0; kernel < KERNEL_COUNT; kernel++)
		for (int type = 0; type < OPERATION_KERNEL_TYPES; type++)
			vg_kernel_destroy(set->kernels[kernel][type]);
	vg_object_code_destroy(set->activation);
	vg_object_code_destroy(set->multiply);
	close_libraries(set);
	core_object_release(&set->context->object);
	free(set);
}

static void try_library(struct operation_set *set, enum operation_provider provider)
{
	char *lacks = set->lacks[provider];
	CORE_SCOPE scope = {false};

	if (core_driver->simulated)
		snprintf(lacks, sizeof set->lacks[provider],
			 "on the simulated GPU this library's own kernels do everything");
	else if (core_enter(&scope, set->context->handle))
		snprintf(lacks, sizeof set->lacks[provider], "the context cannot be entered");
	else if (provider == OPERATION_CUBLASLT)
		cublaslt_create(&set->cublaslt, lacks, sizeof set->lacks[provider]);
	else
		cudnn_create(&set->cudnn, lacks, sizeof set->lacks[provider]);
}

const char *operation_set_lacks(struct operation_set *set, enum operation_provider provider)
{
	if (provider == OPERATION_PORTABLE)
		return NULL;
	vg_mutex_lock(&set->lock);
	if (!set->tried[provider])
		try_library(set, provider);
	set->tried[provider] = true;
	vg_mutex_unlock(&set->lock);
	return set->lacks[provider][0] ? set->lacks[provider] : NULL;
}
