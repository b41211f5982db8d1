// Links with nvJitLink.
#include "core/error.h"
#include "core/linker.h"
#include "core/object_code.h"
#include "driver/toolchain.h"

#include <stdlib.h>
#include <string.h>

static const char *result_name(nvJitLinkResult r)
{
	switch (r) {
#define NAME(name)             \
	case NVJITLINK_##name: \
		return "NVJITLINK_" #name;
		NAME(SUCCESS)
		NAME(ERROR_UNRECOGNIZED_OPTION)
		NAME(ERROR_MISSING_ARCH)
		NAME(ERROR_INVALID_INPUT)
		NAME(ERROR_PTX_COMPILE)
		NAME(ERROR_NVVM_COMPILE)
		NAME(ERROR_INTERNAL)
		NAME(ERROR_THREADPOOL)
		NAME(ERROR_UNRECOGNIZED_INPUT)
		NAME(ERROR_FINALIZE)
		NAME(ERROR_NULL_INPUT)
		NAME(ERROR_INCOMPATIBLE_OPTIONS)
		NAME(ERROR_INCORRECT_INPUT_TYPE)
		NAME(ERROR_ARCH_MISMATCH)
		NAME(ERROR_OUTDATED_LIBRARY)
		NAME(ERROR_MISSING_FATBIN)
		NAME(ERROR_UNRECOGNIZED_ARCH)
		NAME(ERROR_UNSUPPORTED_ARCH)
		NAME(ERROR_LTO_NOT_ENABLED)
#undef NAME
	}
	return "an unknown result";
}

// Returns nvJitLink, which was loaded when the linker was created.
static const struct vg_nvjitlink *get_nvjitlink(void)
{
	const struct vg_nvjitlink *nvjitlink = NULL;
	char problem[8];

	vg_nvjitlink_load(&nvjitlink, problem, sizeof problem);
	return nvjitlink;
}

void core_nvjitlink_drop(struct vg_linker *linker)
{
	nvJitLinkHandle native = linker->native;

	if (native)
		get_nvjitlink()->nvJitLinkDestroy(&native);
	linker->native = NULL;
}

static char *read_log(nvJitLinkHandle native, nvJitLinkResult (*get_size)(nvJitLinkHandle, size_t *),
		      nvJitLinkResult (*get)(nvJitLinkHandle, char *))
{
	size_t size = 0;
	char *log;

	if (!native || get_size(native, &size) || size < 2)
		return NULL;
	log = calloc(1, size + 1);
	if (log && get(native, log))
		log[0] = '\0';
	return log;
}

// Sets the error of a failed call. `code` is the input that caused the failure, or NULL.
static enum vg_status fail_call(const struct vg_linker *linker, const struct vg_object_code *code, nvJitLinkResult r,
				const char *call)
{
	const char *log = vg_linker_error_log(linker);

	enum vg_status status = vg_fail(VG_TOOLCHAIN, (int)r, "%s of %s%s\"%s\": %s%s", call, code ? code->title : "",
					code ? " in " : "", linker->name, result_name(r), core_see_log(log));
	vg_fail_log(log);
	return status;
}

static nvJitLinkResult add_input(const struct vg_nvjitlink *nvjitlink, nvJitLinkHandle native,
				 const struct vg_object_code *code)
{
	static const nvJitLinkInputType inputs[] = {
		[VG_CODE_CUBIN] = NVJITLINK_INPUT_CUBIN,   [VG_CODE_PTX] = NVJITLINK_INPUT_PTX,
		[VG_CODE_LTOIR] = NVJITLINK_INPUT_LTOIR,   [VG_CODE_FATBIN] = NVJITLINK_INPUT_FATBIN,
		[VG_CODE_OBJECT] = NVJITLINK_INPUT_OBJECT, [VG_CODE_LIBRARY] = NVJITLINK_INPUT_LIBRARY,
	};

	if (code->path)
		return nvjitlink->nvJitLinkAddFile(native, inputs[code->type], code->path);
	return nvjitlink->nvJitLinkAddData(native, inputs[code->type], code->data, code->size, core_code_label(code));
}

static nvJitLinkResult read_code(const struct vg_nvjitlink *nvjitlink, nvJitLinkHandle native, enum vg_code_type target,
				 struct core_compiled *compiled)
{
	bool ptx = target == VG_CODE_PTX;

	nvJitLinkResult r = ptx ? nvjitlink->nvJitLinkGetLinkedPtxSize(native, &compiled->size)
				: nvjitlink->nvJitLinkGetLinkedCubinSize(native, &compiled->size);
	if (r)
		return r;
	compiled->data = malloc(compiled->size + 1);
	if (!compiled->data)
		return NVJITLINK_SUCCESS;
	r = ptx ? nvjitlink->nvJitLinkGetLinkedPtx(native, compiled->data)
		: nvjitlink->nvJitLinkGetLinkedCubin(native, compiled->data);
	while (ptx && compiled->size && !compiled->data[compiled->size - 1])
		compiled->size--; // the size includes the zero byte
	compiled->data[compiled->size] = '\0';
	return r;
}

enum vg_status core_nvjitlink_link(struct vg_linker *linker, enum vg_code_type target,
				   struct core_compiled *ret_compiled)
{
	const struct vg_nvjitlink *nvjitlink = get_nvjitlink();
	struct core_arguments arguments = {0};
	const char *call = "nvJitLinkCreate";
	const struct vg_object_code *code = NULL; // the input of the current call
	nvJitLinkHandle native = NULL;

	core_linker_arguments(linker, target, &arguments);
	if (arguments.failed) {
		core_arguments_finish(&arguments);
		return vg_fail(VG_NO_MEMORY, 0, "no memory for arguments");
	}
	nvJitLinkResult r =
		nvjitlink->nvJitLinkCreate(&native, (unsigned)arguments.count, (const char **)arguments.texts);
	core_arguments_finish(&arguments);
	linker->native = native;
	for (size_t i = 0; i < linker->code_count && r == NVJITLINK_SUCCESS; i++) {
		call = "nvJitLinkAddData";
		code = linker->codes[i];
		r = add_input(nvjitlink, native, code);
	}
	if (r == NVJITLINK_SUCCESS) {
		call = "nvJitLinkComplete";
		code = NULL;
		r = nvjitlink->nvJitLinkComplete(native);
	}
	linker->error_log = read_log(native, nvjitlink->nvJitLinkGetErrorLogSize, nvjitlink->nvJitLinkGetErrorLog);
	linker->info_log = read_log(native, nvjitlink->nvJitLinkGetInfoLogSize, nvjitlink->nvJitLinkGetInfoLog);
	if (r == NVJITLINK_SUCCESS) {
		call = target == VG_CODE_PTX ? "nvJitLinkGetLinkedPtx" : "nvJitLinkGetLinkedCubin";
		r = read_code(nvjitlink, native, target, ret_compiled);
	}
	if (r)
		return fail_call(linker, code, r, call);
	// nvJitLink reports success even if it has ignored an invalid input.
	if (linker->error_log && strstr(linker->error_log, "ERROR"))
		return fail_call(linker, NULL, NVJITLINK_ERROR_UNRECOGNIZED_INPUT, "nvJitLinkComplete");
	return ret_compiled->data ? VG_OK
				  : vg_fail(VG_NO_MEMORY, 0, "no memory for %zu bytes of code", ret_compiled->size);
}
