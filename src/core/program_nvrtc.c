// Compiles CUDA C++ with NVRTC.
#include "base/log.h"
#include "core/core.h"
#include "core/error.h"
#include "core/program.h"
#include "driver/toolchain.h"

#include <stdlib.h>
#include <string.h>

static _Atomic(const struct vg_nvrtc *) nvrtc; // set by core_nvrtc_find()

enum vg_status core_nvrtc_find(void)
{
	const struct vg_nvrtc *found;
	char problem[1000];

	if (vg_nvrtc_load(&found, problem, sizeof problem))
		return vg_fail(VG_NOT_FOUND, 0, "%s", problem);
	nvrtc = found;
	return VG_OK;
}

void core_nvrtc_drop(struct vg_program *program)
{
	nvrtcProgram native = program->native;

	if (native)
		nvrtc->nvrtcDestroyProgram(&native);
	program->native = NULL;
}

static void keep_log(struct vg_program *program)
{
	size_t size = 0;

	free(program->log);
	program->log = NULL;
	if (nvrtc->nvrtcGetProgramLogSize(program->native, &size) || size < 2)
		return;
	program->log = calloc(1, size + 1);
	if (program->log && nvrtc->nvrtcGetProgramLog(program->native, program->log))
		program->log[0] = '\0';
}

static enum vg_status fail_call(const struct vg_program *program, nvrtcResult r, const char *call)
{
	const char *log = program->log ? program->log : "";

	enum vg_status status = vg_fail(VG_TOOLCHAIN, r, "%s of program \"%s\": %s%s", call, program->name,
					nvrtc->nvrtcGetErrorString(r), core_see_log(log));
	vg_fail_log(log);
	return status;
}

// Compiles with a new NVRTC program, since NVRTC cannot add names to a program that was compiled already.
static enum vg_status compile_once(struct vg_program *program, const struct core_arguments *arguments,
				   const struct vg_texts *names)
{
	nvrtcProgram native;

	core_nvrtc_drop(program);
	nvrtcResult r = nvrtc->nvrtcCreateProgram(&native, program->source, program->name, 0, NULL, NULL);
	if (r)
		return fail_call(program, r, "nvrtcCreateProgram");
	program->native = native;
	for (size_t i = 0; i < names->count; i++) {
		r = nvrtc->nvrtcAddNameExpression(native, names->values[i]);
		if (r)
			return fail_call(program, r, "nvrtcAddNameExpression");
	}
	r = nvrtc->nvrtcCompileProgram(native, (int)arguments->count, (const char *const *)arguments->texts);
	keep_log(program);
	return r ? fail_call(program, r, "nvrtcCompileProgram") : VG_OK;
}

// Sets *ret_again if the precompiled header did not fit into NVRTC's heap. In that case the heap is enlarged, and the
// caller compiles once more.
static void read_pch_status(struct vg_program *program, bool *ret_again)
{
	nvrtcResult r = nvrtc->nvrtcGetPCHCreateStatus(program->native);
	size_t needed;

	*ret_again = r == NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED &&
		     nvrtc->nvrtcGetPCHHeapSizeRequired(program->native, &needed) == NVRTC_SUCCESS &&
		     nvrtc->nvrtcSetPCHHeapSize(needed) == NVRTC_SUCCESS;
	program->pch_status = r == NVRTC_SUCCESS			 ? VG_PCH_CREATED
			      : r == NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED ? VG_PCH_NOT_ATTEMPTED
									 : VG_PCH_FAILED;
}

static enum vg_status read_code(const struct vg_program *program, enum vg_code_type target,
				struct core_compiled *compiled)
{
	const struct {
		nvrtcResult (*size)(nvrtcProgram, size_t *), (*get)(nvrtcProgram, char *);
		const char *call, *why;
	} getters[] = {
		[VG_CODE_CUBIN] = {nvrtc->nvrtcGetCUBINSize, nvrtc->nvrtcGetCUBIN, "nvrtcGetCUBIN",
				   "an architecture that begins with sm_ is needed, and no link_time_optimization"},
		[VG_CODE_PTX] = {nvrtc->nvrtcGetPTXSize, nvrtc->nvrtcGetPTX, "nvrtcGetPTX",
				 "with link_time_optimization there is LTO-IR only"},
		[VG_CODE_LTOIR] = {nvrtc->nvrtcGetLTOIRSize, nvrtc->nvrtcGetLTOIR, "nvrtcGetLTOIR",
				   "fdevice_syntax_only makes no code"},
	};

	nvrtcResult r = getters[target].size(program->native, &compiled->size);
	if (r == NVRTC_SUCCESS && compiled->size < 2)
		return vg_fail(VG_TOOLCHAIN, 0, "%s of program \"%s\": NVRTC made none: %s", getters[target].call,
			       program->name, getters[target].why);
	if (r == NVRTC_SUCCESS) {
		compiled->data = malloc(compiled->size + 1);
		if (!compiled->data)
			return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu bytes of code", compiled->size);
		r = getters[target].get(program->native, compiled->data);
	}
	if (r)
		return fail_call(program, r, getters[target].call);
	if (target == VG_CODE_PTX)
		compiled->size--; // the size includes the zero byte
	compiled->data[compiled->size] = '\0';
	return VG_OK;
}

static enum vg_status read_symbols(const struct vg_program *program, const struct vg_texts *names,
				   struct core_compiled *compiled)
{
	struct vg_symbol *found = calloc(names->count + 1, sizeof *found);
	nvrtcResult r = NVRTC_SUCCESS;

	for (size_t i = 0; found && i < names->count && r == NVRTC_SUCCESS; i++) {
		found[i].expression = names->values[i];
		r = nvrtc->nvrtcGetLoweredName(program->native, names->values[i], &found[i].symbol);
	}
	if (found && r == NVRTC_SUCCESS) {
		compiled->symbol_count = names->count;
		compiled->symbols = core_symbols_copy(found, names->count);
	}
	free(found);
	if (r)
		return fail_call(program, r, "nvrtcGetLoweredName");
	return names->count && !compiled->symbols ? vg_fail(VG_NO_MEMORY, 0, "no memory for symbols") : VG_OK;
}

enum vg_status core_nvrtc_compile(struct vg_program *program, enum vg_code_type target,
				  const struct core_arguments *arguments, const struct vg_texts *names,
				  struct core_compiled *ret_compiled)
{
	bool again = false;

	CORE_TRY(compile_once(program, arguments, names));
	if (program->pch)
		read_pch_status(program, &again);
	if (again) {
		CORE_TRY(compile_once(program, arguments, names));
		read_pch_status(program, &again);
	}
	CORE_TRY(read_code(program, target, ret_compiled));
	CORE_TRY(read_symbols(program, names, ret_compiled));
	if (target == VG_CODE_PTX && core_driver && core_driver_version() < nvrtc->major * 1000 + nvrtc->minor * 10)
		vg_log(VG_LOG_WARNING,
		       "the driver knows CUDA %d.%d and may refuse the PTX of NVRTC %d.%d: compile to a cubin",
		       core_driver_version() / 1000, core_driver_version() % 1000 / 10, nvrtc->major, nvrtc->minor);
	return VG_OK;
}
