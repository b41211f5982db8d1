#include "core/launch.h"

#include "base/hot.h"
#include "core/error.h"
#include "core/graph_builder.h"
#include "core/stream.h"

#include <alloca.h>
#include <limits.h>
#include <stdlib.h>

// Fills in a launch that has only a grid and a block, which is the usual case. If it returns false, call
// core_launch_configure(), which also reports errors.
VG_HOT static inline bool fill_plain(CUlaunchConfig *native, const struct vg_launch_config *c)
{
	if (c->size != sizeof *c || !c->grid[0] || !c->block[0] || c->shared_memory > UINT_MAX || c->attributes ||
	    (c->cluster[0] | c->cluster[1] | c->cluster[2] | c->attribute_count | (unsigned)c->cooperative |
	     (unsigned)c->programmatic_stream_serialization))
		return false;
	*native = (CUlaunchConfig){.gridDimX = c->grid[0],
				   .gridDimY = c->grid[1] ? c->grid[1] : 1,
				   .gridDimZ = c->grid[2] ? c->grid[2] : 1,
				   .blockDimX = c->block[0],
				   .blockDimY = c->block[1] ? c->block[1] : 1,
				   .blockDimZ = c->block[2] ? c->block[2] : 1,
				   .sharedMemBytes = (unsigned)c->shared_memory};
	return true;
}

// Runs a launch that needs all checks: with clusters, cooperation or attributes, or from a program that was built with
// an older header.
static __attribute__((noinline)) enum vg_status launch_configured(struct vg_stream *stream,
								  const struct vg_launch_config *config,
								  struct vg_kernel *kernel, void **values)
{
	struct vg_launch_config c;
	struct core_launch launch_kernel;

	CORE_TRY(vg_options_copy(&c, sizeof c, config));
	CORE_TRY(core_launch_configure(&launch_kernel, &c, stream->context->device));
	CORE_TRY(core_launch_check_cooperative(&launch_kernel, kernel, stream->context));
	launch_kernel.native.hStream = stream->handle;
	CUresult r = core_driver->cuLaunchKernelEx(&launch_kernel.native, (CUfunction)kernel->handle, values, NULL);
	if (r)
		return core_launch_failed(r, &launch_kernel, kernel, stream->context->device, "cuLaunchKernelEx");
	return VG_OK;
}

static __attribute__((noinline)) enum vg_status fail_plain(CUresult result, const struct vg_stream *stream,
							   const struct vg_launch_config *config,
							   const struct vg_kernel *kernel)
{
	struct core_launch launch_kernel;

	core_launch_configure(&launch_kernel, config, stream->context->device);
	return core_launch_failed(result, &launch_kernel, kernel, stream->context->device, "cuLaunchKernelEx");
}

// Runs a launch that launch_kernel() cannot run itself: with special options, or on a stream that a builder captures or
// that needs its context current.
static __attribute__((noinline)) enum vg_status launch_in_context(struct vg_stream *stream,
								  const struct vg_launch_config *config,
								  struct vg_kernel *kernel, void **values)
{
	CUlaunchConfig native;

	CORE_ENTER(scope, stream->context->handle);
	if (stream->builder)
		CORE_TRY(core_builder_keep(stream->builder, &kernel->object));
	if (!fill_plain(&native, config))
		return launch_configured(stream, config, kernel, values);
	native.hStream = stream->handle;
	CUresult r = core_driver->cuLaunchKernelEx(&native, (CUfunction)kernel->handle, values, NULL);
	return r ? fail_plain(r, stream, config, kernel) : VG_OK;
}

// Skips the check of the current context in the usual case: a kernel belongs to no context, so the stream alone
// matters.
VG_HOT static inline enum vg_status launch_kernel(struct vg_stream *stream, const struct vg_launch_config *config,
						  struct vg_kernel *kernel, CUfunction handle, void **values)
{
	CUlaunchConfig native;

	if (__builtin_expect(stream->by_context || stream->builder || !fill_plain(&native, config), 0))
		return launch_in_context(stream, config, kernel, values);
	native.hStream = stream->handle;
	CUresult r = core_launching.launch(&native, handle, values, NULL);
	return __builtin_expect(r == CUDA_SUCCESS, 1) ? VG_OK : fail_plain(r, stream, config, kernel);
}

VG_HOT enum vg_status vg_launch(struct vg_stream *stream, const struct vg_launch_config *config,
				struct vg_kernel *kernel, const struct vg_argument *arguments, size_t argument_count)
{
	VG_ENTRY();
	CORE_USABLE(stream, "stream");
	CORE_USABLE(kernel, "kernel");
	CORE_NEEDED(config);
	// At most 256 KiB: the parameters of a kernel have at most 32,764 bytes, and each at least one.
	void **values = alloca((kernel->parameter_count + 1) * sizeof *values);
	CORE_TRY(core_launch_check_arguments(kernel, arguments, argument_count, values));
	return launch_kernel(stream, config, kernel, (CUfunction)kernel->handle, values);
}

// ---- lists of arguments, checked once -----------------------------------------------------------

struct vg_argument_list {
	struct core_object object;
	struct vg_kernel *kernel; // owns a reference
	CUfunction handle;	  // the kernel's handle, copied so that a launch reads one cache line less
	void *values[];		  // addresses of the values as the program gave them
};

static void free_list(struct core_object *object)
{
	struct vg_argument_list *list = (struct vg_argument_list *)object;

	core_object_release(&list->kernel->object);
	free(list);
}

static const struct core_class list_class = {"argument list", NULL, free_list};

enum vg_status vg_argument_list_create(struct vg_kernel *kernel, const struct vg_variable *arguments,
				       size_t argument_count, struct vg_argument_list **ret_list)
{
	VG_ENTRY();
	CORE_USABLE(kernel, "kernel");
	CORE_NEEDED(ret_list);
	struct vg_argument_list *list = vg_lines(sizeof *list + kernel->parameter_count * sizeof *list->values);
	if (!list)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of %u arguments", kernel->parameter_count);
	_Static_assert(sizeof *arguments == sizeof arguments->place, "an array of variables is one of arguments");
	enum vg_status status = core_launch_check_arguments(kernel, (const struct vg_argument *)arguments,
							    argument_count, list->values);
	if (status) {
		free(list);
		return status;
	}
	core_object_init(&list->object, &list_class);
	core_object_retain(&kernel->object);
	list->kernel = kernel;
	list->handle = (CUfunction)kernel->handle;
	*ret_list = list;
	return VG_OK;
}

enum vg_status vg_argument_list_set(struct vg_argument_list *list, size_t index, const void *value, size_t size)
{
	VG_ENTRY();
	CORE_USABLE(list, "list");
	CORE_TRY(core_launch_check_argument(list->kernel, index, value, size));
	list->values[index] = (void *)value;
	return VG_OK;
}

enum vg_status vg_argument_list_close(struct vg_argument_list *list)
{
	VG_ENTRY();
	CORE_NEEDED(list);
	return core_object_close(&list->object);
}

void vg_argument_list_destroy(struct vg_argument_list *list)
{
	core_object_release(list ? &list->object : NULL);
}

VG_HOT enum vg_status vg_launch_list(struct vg_stream *stream, const struct vg_launch_config *config,
				     struct vg_argument_list *list)
{
	VG_ENTRY();
	CORE_USABLE(stream, "stream");
	CORE_USABLE(list, "list");
	CORE_NEEDED(config);
	return launch_kernel(stream, config, list->kernel, list->handle, list->values);
}
