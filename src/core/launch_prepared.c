// Prepares launches that are checked once and run often.
#include "base/hot.h"
#include "core/error.h"
#include "core/graph_builder.h"
#include "core/launch.h"
#include "core/stream.h"

#include <stdlib.h>
#include <string.h>

enum { PARAMETER_ALIGNMENT = 64 }; // alignment of a tensor map, the largest alignment that a parameter has

// Aligned to a cache line, so that a run reads only the first line of this structure, and the beginning of `launch`.
struct vg_prepared_launch {
	struct core_object object;
	CUfunction handle; // the kernel's handle
	void **values;	   // addresses in `parameters`; an element is NULL until its value is set
	struct vg_device *device;
	size_t unset;
	struct core_launch launch;
	unsigned char *parameters;  // copies of the values, at the kernel's offsets
	struct vg_context *context; // owns a reference
	struct vg_kernel *kernel;   // owns a reference
};

static void free_prepared(struct core_object *object)
{
	struct vg_prepared_launch *launch = (struct vg_prepared_launch *)object;

	core_object_release(&launch->kernel->object);
	core_object_release(&launch->context->object);
	free(launch->parameters);
	free(launch->values);
	free(launch);
}

static const struct core_class prepared_class = {"prepared launch", NULL, free_prepared};

static void set_argument(struct vg_prepared_launch *launch, size_t index, const void *value)
{
	const struct vg_kernel *kernel = launch->kernel;

	launch->unset -= !launch->values[index];
	launch->values[index] = launch->parameters + core_kernel_offsets(kernel)[index];
	memcpy(launch->values[index], value, kernel->sizes[index]);
}

static enum vg_status create_prepared(struct vg_context *context, struct vg_kernel *kernel,
				      struct vg_prepared_launch **ret_launch)
{
	size_t bytes = (kernel->parameter_bytes / PARAMETER_ALIGNMENT + 1) * PARAMETER_ALIGNMENT;
	struct vg_prepared_launch *launch = vg_lines(sizeof *launch);

	if (!launch)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a prepared launch");
	core_object_init(&launch->object, &prepared_class);
	core_object_retain(&context->object);
	core_object_retain(&kernel->object);
	launch->context = context;
	launch->device = context->device;
	launch->handle = (CUfunction)kernel->handle;
	launch->kernel = kernel;
	launch->parameters = aligned_alloc(PARAMETER_ALIGNMENT, bytes);
	launch->values = vg_lines((kernel->parameter_count + 1) * sizeof *launch->values);
	launch->unset = kernel->parameter_count;
	if (!launch->parameters || !launch->values) {
		core_object_release(&launch->object);
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu bytes of arguments", bytes);
	}
	*ret_launch = launch;
	return VG_OK;
}

// Makes every check that is possible before the launch runs.
static enum vg_status check_prepared(struct vg_prepared_launch *launch, const struct vg_launch_config *config,
				     const struct vg_argument *arguments, size_t count)
{
	struct vg_device *device = launch->context->device;

	CORE_TRY(core_launch_configure(&launch->launch, config, device));
	if (arguments || count) {
		CORE_TRY(core_launch_check_arguments(launch->kernel, arguments, count, launch->values));
		// Clear the program's addresses: no value is set yet.
		memset(launch->values, 0, launch->kernel->parameter_count * sizeof *launch->values);
	}
	CORE_TRY(core_launch_check_limits(&launch->launch, launch->kernel, device));
	CORE_ENTER(scope, launch->context->handle);
	return core_launch_check_cooperative(&launch->launch, launch->kernel, launch->context);
}

enum vg_status vg_launch_prepare(struct vg_context *context, const struct vg_launch_config *config,
				 struct vg_kernel *kernel, const struct vg_argument *arguments, size_t argument_count,
				 struct vg_prepared_launch **ret_launch)
{
	VG_ENTRY();
	struct vg_prepared_launch *launch = NULL;
	struct vg_launch_config c;

	CORE_USABLE(context, "context");
	CORE_USABLE(kernel, "kernel");
	CORE_NEEDED(config);
	CORE_NEEDED(ret_launch);
	CORE_OPTIONS(c, config);
	CORE_TRY(create_prepared(context, kernel, &launch));
	enum vg_status status = check_prepared(launch, &c, arguments, argument_count);
	if (status) {
		core_object_release(&launch->object);
		return status;
	}
	for (size_t i = 0; i < argument_count; i++)
		set_argument(launch, i, arguments[i].value);
	*ret_launch = launch;
	return VG_OK;
}

enum vg_status vg_launch_set_argument(struct vg_prepared_launch *launch, size_t index, const void *value, size_t size)
{
	VG_ENTRY();
	CORE_USABLE(launch, "launch");
	CORE_NEEDED(value);
	CORE_TRY(core_launch_check_argument(launch->kernel, index, value, size));
	set_argument(launch, index, value);
	return VG_OK;
}

static enum vg_status fail_run(const struct vg_prepared_launch *launch, const struct vg_stream *stream)
{
	size_t i = 0;

	if (stream->context->device != launch->context->device)
		return vg_fail(VG_INVALID, 0, "the launch was prepared for device %d, the stream is of device %d",
			       launch->context->device->ordinal, stream->context->device->ordinal);
	while (launch->values[i])
		i++;
	return vg_fail(VG_STATE, 0,
		       "argument %zu of kernel \"%s\" (counted from 0) was never set: vg_launch_set_argument() does", i,
		       core_kernel_title(launch->kernel));
}

static __attribute__((noinline)) enum vg_status fail_launch(CUresult result, const struct vg_prepared_launch *launch)
{
	return core_launch_failed(result, &launch->launch, launch->kernel, launch->device, "cuLaunchKernelEx");
}

// Runs a launch on a stream that a builder captures or that needs its context current.
static __attribute__((noinline)) enum vg_status run_in_context(struct vg_prepared_launch *launch,
							       struct vg_stream *stream, const CUlaunchConfig *native)
{
	CORE_ENTER(scope, stream->context->handle);
	if (stream->builder)
		CORE_TRY(core_builder_keep(stream->builder, &launch->kernel->object));
	CUresult r = core_driver->cuLaunchKernelEx(native, launch->handle, launch->values, NULL);
	return r ? fail_launch(r, launch) : VG_OK;
}

VG_HOT enum vg_status vg_launch_run(struct vg_prepared_launch *launch, struct vg_stream *stream)
{
	VG_ENTRY();
	CORE_USABLE(launch, "launch");
	CORE_USABLE(stream, "stream");
	if (__builtin_expect(launch->unset || stream->device != launch->device, 0))
		return fail_run(launch, stream);
	CUlaunchConfig native = launch->launch.native;
	native.hStream = stream->handle;
	if (__builtin_expect(stream->by_context || stream->builder, 0))
		return run_in_context(launch, stream, &native);
	CUresult r = core_launching.launch(&native, launch->handle, launch->values, NULL);
	return __builtin_expect(r == CUDA_SUCCESS, 1) ? VG_OK : fail_launch(r, launch);
}

enum vg_status vg_prepared_launch_close(struct vg_prepared_launch *launch)
{
	VG_ENTRY();
	CORE_NEEDED(launch);
	return core_object_close(&launch->object);
}

void vg_prepared_launch_destroy(struct vg_prepared_launch *launch)
{
	core_object_release(launch ? &launch->object : NULL);
}
