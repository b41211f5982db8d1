#include "core/context.h"

#include "core/error.h"

#include <stdlib.h>

static enum vg_status close_context(struct core_object *object, const char *function)
{
	struct vg_context *context = (struct vg_context *)object;
	CUresult r = context->primary ? core_driver->cuDevicePrimaryCtxRelease_v2(context->device->handle) : CUDA_SUCCESS;

	return r ? core_driver_failed(r, function, "cuDevicePrimaryCtxRelease", "%s", "") : VG_OK;
}

static void free_context(struct core_object *object)
{
	free(object);
}

static const struct core_class context_class = {"context", close_context, free_context};

enum vg_status vg_context_primary(struct vg_device *device, struct vg_context **ret_context)
{
	CORE_NEEDED(device);
	CORE_NEEDED(ret_context);
	struct vg_context *context = calloc(1, sizeof *context);
	if (!context)
		return vg_fail(VG_NO_MEMORY, 0, __func__, "no memory for a context");
	CUresult r = core_driver->cuDevicePrimaryCtxRetain(&context->handle, device->handle);
	if (r) {
		free(context);
		return core_driver_failed(r, __func__, "cuDevicePrimaryCtxRetain", "device %d", device->ordinal);
	}
	core_object_init(&context->object, &context_class);
	context->device = device;
	context->primary = true;
	*ret_context = context;
	return VG_OK;
}

void vg_context_destroy(struct vg_context *context)
{
	core_object_release(context ? &context->object : NULL);
}

struct vg_device *vg_context_device(const struct vg_context *context)
{
	return context ? context->device : NULL;
}

struct CUctx_st *vg_context_handle(const struct vg_context *context)
{
	return context && !context->object.closed ? context->handle : NULL;
}
