#include "core/context.h"

#include "core/device_resource.h"
#include "core/error.h"

#include <stdlib.h>

enum { MOST_RESOURCES = 256 };

static enum vg_status close_green(struct vg_context *context)
{
	CUcontext current;

	// Pop the context: the thread must not keep a destroyed context as its current one.
	if (core_driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context->identity)
		core_driver->cuCtxSetCurrent(NULL);
	CUresult r = core_driver->cuGreenCtxDestroy(context->green);
	return r ? core_driver_failed(r, "cuGreenCtxDestroy", "%s", "") : VG_OK;
}

static enum vg_status close_context(struct core_object *object)
{
	struct vg_context *context = (struct vg_context *)object;
	enum vg_status status = context->green && !context->borrowed ? close_green(context) : VG_OK;

	CUresult r =
		context->primary ? core_driver->cuDevicePrimaryCtxRelease_v2(context->device->handle) : CUDA_SUCCESS;
	return r ? core_driver_failed(r, "cuDevicePrimaryCtxRelease", "%s", "") : status;
}

static void free_context(struct core_object *object)
{
	free(object);
}

static const struct core_class context_class = {"context", close_context, free_context};

static enum vg_status create_context(struct vg_device *device, struct vg_context **ret_context)
{
	struct vg_context *context = calloc(1, sizeof *context);

	if (!context)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a context");
	core_object_init(&context->object, &context_class);
	context->device = device;
	*ret_context = context;
	return VG_OK;
}

// Retains the device's primary context until the object is closed. The object makes this context current for its calls.
static enum vg_status retain_primary(struct vg_context *context)
{
	CUresult r = core_driver->cuDevicePrimaryCtxRetain(&context->handle, context->device->handle);

	if (r)
		return core_driver_failed(r, "cuDevicePrimaryCtxRetain", "device %d", context->device->ordinal);
	context->primary = true;
	return VG_OK;
}

enum vg_status vg_context_primary(struct vg_device *device, struct vg_context **ret_context)
{
	VG_ENTRY();
	struct vg_context *context = NULL;

	CORE_NEEDED(device);
	CORE_NEEDED(ret_context);
	CORE_TRY(create_context(device, &context));
	enum vg_status status = retain_primary(context);
	if (status) {
		core_object_release(&context->object);
		return status;
	}
	context->identity = context->handle;
	*ret_context = context;
	return VG_OK;
}

static enum vg_status check_resources(const struct vg_device *device, const struct vg_context_options *o)
{
	if (!o->sms || o->sm_count == 0)
		return vg_fail(VG_INVALID, 0,
			       "resources must be provided: .sms, which vg_sm_resource_split() makes of "
			       "vg_device_sm_resource()");
	if (o->sm_count > MOST_RESOURCES)
		return vg_fail(VG_INVALID, 0, "%zu SM resources: %d at most", o->sm_count, MOST_RESOURCES);
	for (size_t i = 0; i < o->sm_count; i++) {
		const struct vg_sm_resource *sm = o->sms[i];
		CORE_USABLE(sm, "an SM resource");
		if (sm->dry_run)
			return vg_fail(VG_INVALID, 0, "resource %zu is a dry-run SM resource: split without .dry_run",
				       i);
		if (sm->device != device)
			return vg_fail(VG_INVALID, 0, "resource %zu is of device %d, the context of device %d", i,
				       sm->device->ordinal, device->ordinal);
	}
	if (o->workqueue && o->workqueue->device != device)
		return vg_fail(VG_INVALID, 0, "the work queue is of device %d, the context of device %d",
			       o->workqueue->device->ordinal, device->ordinal);
	return VG_OK;
}

// Creates the green context. On failure, releasing `context` destroys what was created so far.
static enum vg_status make_green(struct vg_context *context, const struct vg_context_options *o)
{
	CUdevResource natives[MOST_RESOURCES + 2];
	CUdevResourceDesc description;
	unsigned count = 0;

	while (count < o->sm_count) {
		natives[count] = o->sms[count]->native;
		count++;
	}
	if (o->workqueue) {
		natives[count++] = o->workqueue->config;
		natives[count++] = o->workqueue->queue;
	}
	CUresult r = core_driver->cuDevResourceGenerateDesc(&description, natives, count);
	if (r)
		return core_driver_failed(r, "cuDevResourceGenerateDesc", "of %u resources", count);
	// Retain the device's primary context first. Otherwise the driver would create it for the green context, and
	// also destroy it.
	CORE_TRY(retain_primary(context));
	CUgreenCtx green;
	r = core_driver->cuGreenCtxCreate(&green, description, context->device->handle, CU_GREEN_CTX_DEFAULT_STREAM);
	if (r)
		return core_driver_failed(r, "cuGreenCtxCreate", "of %u resources", count);
	context->green = green;
	r = core_driver->cuCtxFromGreenCtx(&context->identity, green);
	return r ? core_driver_failed(r, "cuCtxFromGreenCtx", "%s", "") : VG_OK;
}

enum vg_status vg_context_create(struct vg_device *device, const struct vg_context_options *options,
				 struct vg_context **ret_context)
{
	VG_ENTRY();
	struct vg_context_options o;
	struct vg_context *context = NULL;

	CORE_NEEDED(device);
	CORE_NEEDED(ret_context);
	CORE_OPTIONS(o, options);
	CORE_TRY(check_resources(device, &o));
	CORE_TRY(create_context(device, &context));
	enum vg_status status = make_green(context, &o);
	if (status)
		core_object_release(&context->object);
	else
		*ret_context = context;
	return status;
}

static enum vg_status find_device(CUcontext identity, struct vg_device **ret_device)
{
	CUdevice handle;

	CORE_ENTER(scope, identity);
	CUresult r = core_driver->cuCtxGetDevice(&handle);
	if (r)
		return core_driver_failed(r, "cuCtxGetDevice", "%s", "");
	*ret_device = core_device_find(handle);
	return VG_OK;
}

enum vg_status core_context_borrow(CUcontext identity, CUgreenCtx green, struct vg_context **ret_context)
{
	struct vg_device *device = NULL;
	struct vg_context *context = NULL;

	CORE_TRY(find_device(identity, &device));
	CORE_TRY(create_context(device, &context));
	context->identity = context->handle = identity;
	context->green = green;
	context->borrowed = true;
	enum vg_status status = green ? retain_primary(context) : VG_OK;
	if (status)
		core_object_release(&context->object);
	else
		*ret_context = context;
	return status;
}

// Asks the driver for the green context whose handle as a CUcontext is `identity`. The default stream of `identity`
// belongs to it. Returns NULL in *ret_green if `identity` is not a green context.
static enum vg_status find_green(CUcontext identity, CUgreenCtx *ret_green)
{
	CORE_ENTER(scope, identity);
	CORE_CALL(cuStreamGetGreenCtx, CU_STREAM_LEGACY, ret_green);
	return VG_OK;
}

enum vg_status vg_context_borrow(struct CUctx_st *handle, struct vg_context **ret_context)
{
	VG_ENTRY();
	CUgreenCtx green = NULL;

	CORE_NEEDED(handle);
	CORE_NEEDED(ret_context);
	CORE_TRY(core_open());
	CORE_TRY(find_green(handle, &green));
	return core_context_borrow(handle, green, ret_context);
}

void vg_context_destroy(struct vg_context *context)
{
	core_object_release(context ? &context->object : NULL);
}

enum vg_status vg_context_close(struct vg_context *context)
{
	VG_ENTRY();
	CUcontext current = NULL;

	CORE_NEEDED(context);
	if (context->object.closed)
		return VG_OK;
	CORE_CALL(cuCtxGetCurrent, &current);
	if (current == context->identity && !context->borrowed)
		return vg_fail(VG_STATE, 0,
			       "a context cannot be closed while it is current: make another one current with "
			       "vg_context_set_current()");
	return core_object_close(&context->object);
}

struct vg_device *vg_context_device(const struct vg_context *context)
{
	return context ? context->device : NULL;
}

struct CUctx_st *vg_context_handle(const struct vg_context *context)
{
	return context && !context->object.closed ? context->identity : NULL;
}

int vg_context_is_green(const struct vg_context *context)
{
	return context && context->green;
}

int vg_context_equal(const struct vg_context *context, const struct vg_context *other)
{
	return context == other || (context && other && context->identity == other->identity);
}

enum vg_status vg_context_set_current(struct vg_context *context, struct CUctx_st **ret_previous)
{
	VG_ENTRY();
	CUcontext previous = NULL;

	CORE_TRY(core_open());
	if (context)
		CORE_USABLE(context, "context");
	if (ret_previous)
		CORE_CALL(cuCtxGetCurrent, &previous);
	CORE_CALL(cuCtxSetCurrent, context ? context->identity : NULL);
	if (ret_previous)
		*ret_previous = previous;
	return VG_OK;
}

enum vg_status vg_context_restore(struct CUctx_st *previous)
{
	VG_ENTRY();
	CORE_TRY(core_open());
	CORE_CALL(cuCtxSetCurrent, previous);
	return VG_OK;
}

enum vg_status vg_context_current(struct CUctx_st **ret_handle)
{
	VG_ENTRY();
	CORE_NEEDED(ret_handle);
	CORE_TRY(core_open());
	CORE_CALL(cuCtxGetCurrent, ret_handle);
	return VG_OK;
}
