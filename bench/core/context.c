#include "cases.h"

static struct vg_device *device;
static struct vg_context *context;
static CUcontext handle;

static void open_family(void)
{
	LIBRARY(vg_device_get(0, &device));
	LIBRARY(vg_context_primary(device, &context));
	LIBRARY(vg_context_set_current(context, NULL));
	handle = vg_context_handle(context);
}

static void close_family(void)
{
	LIBRARY(vg_context_restore(NULL));
	vg_context_destroy(context);
}

static CUcontext current;
static struct vg_context *retained;

SIDES(get_current, LIBRARY(vg_context_current(&current)), RAW(cuCtxGetCurrent(&current)))
SIDES(set_current, LIBRARY(vg_context_set_current(context, NULL)), RAW(cuCtxSetCurrent(handle)))
SIDES(
	swap,
	{
		LIBRARY(vg_context_set_current(context, &current));
		LIBRARY(vg_context_restore(current));
	},
	{
		RAW(cuCtxGetCurrent(&current));
		RAW(cuCtxSetCurrent(handle));
		RAW(cuCtxSetCurrent(current));
	})
SIDES(
	retain,
	{
		LIBRARY(vg_context_primary(device, &retained));
		vg_context_destroy(retained);
	},
	{
		RAW(cuDevicePrimaryCtxRetain(&current, 0));
		RAW(cuDevicePrimaryCtxRelease(0));
	})

static const struct bench_case cases[] = {
	{"ctx_get_current", 50, 500, get_current_library, get_current_raw, NULL},
	{"ctx_set_current", 50, 500, set_current_library, set_current_raw, NULL},
	{"ctx_swap_and_restore", 100, 500, swap_library, swap_raw, NULL}, // two calls
	{"primary_ctx_retain", 0, 200, retain_library, retain_raw, NULL}, // with the release
};
const struct bench_family bench_context = {open_family, cases, sizeof cases / sizeof *cases, close_family};
