// Links with the driver's linker.
#include "core/context.h"
#include "core/error.h"
#include "core/linker.h"
#include "core/object_code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_SIZE = 4 << 20 }; // size of each log; the driver truncates longer logs

void core_driver_link_drop(struct vg_linker *linker)
{
	if (linker->native)
		core_driver->cuLinkDestroy(linker->native);
	linker->native = NULL;
}

// Sets the error of a failed call. `code` is the input that caused the failure, or NULL.
static enum vg_status fail_call(const struct vg_linker *linker, const struct vg_object_code *code, CUresult r,
				const char *call)
{
	const char *log = vg_linker_error_log(linker);

	enum vg_status status = core_driver_failed(r, call, "%s%s\"%s\"%s", code ? code->title : "", code ? " in " : "",
						   linker->name, core_see_log(log));
	if (*log)
		vg_fail_log(log);
	return status;
}

static CUresult add_input(const struct vg_linker *linker, const struct vg_object_code *code)
{
	static const CUjitInputType inputs[] = {
		[VG_CODE_CUBIN] = CU_JIT_INPUT_CUBIN,	   [VG_CODE_PTX] = CU_JIT_INPUT_PTX,
		[VG_CODE_FATBIN] = CU_JIT_INPUT_FATBINARY, [VG_CODE_OBJECT] = CU_JIT_INPUT_OBJECT,
		[VG_CODE_LIBRARY] = CU_JIT_INPUT_LIBRARY,
	};

	if (code->path)
		return core_driver->cuLinkAddFile_v2(linker->native, inputs[code->type], code->path, 0, NULL, NULL);
	// The driver expects the size of PTX to include the zero byte at its end.
	return core_driver->cuLinkAddData_v2(linker->native, inputs[code->type], code->data,
					     code->size + (code->type == VG_CODE_PTX), core_code_label(code), 0, NULL,
					     NULL);
}

// Links, and copies the result, which the driver's linker owns. Call with the context current and both logs allocated.
static enum vg_status link_all(struct vg_linker *linker, struct core_compiled *compiled)
{
	CUjit_option options[CORE_LINKER_JIT + 4] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
						     CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[CORE_LINKER_JIT + 4] = {linker->info_log, (void *)(size_t)LOG_SIZE, linker->error_log,
					     (void *)(size_t)LOG_SIZE};
	CUlinkState native;
	size_t size;
	void *cubin;

	for (unsigned i = 0; i < linker->jit_count; i++) {
		options[4 + i] = (CUjit_option)linker->jit[i].option;
		values[4 + i] = (void *)(size_t)linker->jit[i].value;
	}
	CUresult r = core_driver->cuLinkCreate_v2(4 + linker->jit_count, options, values, &native);
	if (r)
		return fail_call(linker, NULL, r, "cuLinkCreate");
	linker->native = native;
	for (size_t i = 0; i < linker->code_count; i++) {
		r = add_input(linker, linker->codes[i]);
		if (r)
			return fail_call(linker, linker->codes[i], r,
					 linker->codes[i]->path ? "cuLinkAddFile" : "cuLinkAddData");
	}
	r = core_driver->cuLinkComplete(native, &cubin, &size);
	if (r)
		return fail_call(linker, NULL, r, "cuLinkComplete");
	compiled->data = malloc(size + 1);
	if (!compiled->data)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu bytes of code", size);
	memcpy(compiled->data, cubin, size);
	compiled->data[size] = '\0';
	compiled->size = size;
	return VG_OK;
}

// Frees the unused part of a log.
static char *shrink_log(char *log)
{
	char *shorter = log ? realloc(log, strlen(log) + 1) : NULL;

	return shorter ? shorter : log;
}

enum vg_status core_driver_link(struct vg_linker *linker, struct core_compiled *ret_compiled)
{
	struct vg_device *device = linker->device;
	struct vg_context *context;

	if (!device)
		CORE_TRY(vg_device_get(0, &device));
	CORE_TRY(vg_context_primary(device, &context));
	enum vg_status status;
	linker->info_log = calloc(1, LOG_SIZE);
	linker->error_log = calloc(1, LOG_SIZE);
	if (!linker->info_log || !linker->error_log) {
		status = vg_fail(VG_NO_MEMORY, 0, "no memory for logs of %d bytes", LOG_SIZE);
	} else {
		CORE_SCOPE scope = {false};
		CUresult r = core_enter(&scope, context->handle);
		status = r ? core_driver_failed(r, "cuCtxPushCurrent", "%s", "") : link_all(linker, ret_compiled);
		// Destroy the driver's linker first: it writes to the logs until then.
		core_driver_link_drop(linker);
	}
	vg_context_destroy(context);
	linker->info_log = shrink_log(linker->info_log);
	linker->error_log = shrink_log(linker->error_log);
	return status;
}
