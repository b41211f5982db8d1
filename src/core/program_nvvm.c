// Compiles NVVM IR with libNVVM.
#include "core/error.h"
#include "core/program.h"
#include "driver/toolchain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic(const struct vg_nvvm *) nvvm; // set by core_nvvm_find()

enum vg_status core_nvvm_find(void)
{
	const struct vg_nvvm *found;
	char problem[1000];

	if (vg_nvvm_load(&found, problem, sizeof problem))
		return vg_fail(VG_NOT_FOUND, 0, "%s", problem);
	nvvm = found;
	return VG_OK;
}

void core_nvvm_drop(struct vg_program *program)
{
	nvvmProgram native = program->native;

	if (native)
		nvvm->nvvmDestroyProgram(&native);
	program->native = NULL;
}

static enum vg_status fail_call(struct vg_program *program, nvvmResult r, const char *call)
{
	const char *log;
	size_t size = 0;

	free(program->log);
	program->log = NULL;
	if (program->native && nvvm->nvvmGetProgramLogSize(program->native, &size) == NVVM_SUCCESS && size > 1)
		program->log = calloc(1, size + 1);
	if (program->log && nvvm->nvvmGetProgramLog(program->native, program->log))
		program->log[0] = '\0';
	log = program->log ? program->log : "";
	enum vg_status status = vg_fail(VG_TOOLCHAIN, r, "%s of program \"%s\": %s%s", call, program->name,
					nvvm->nvvmGetErrorString(r), core_see_log(log));
	vg_fail_log(log);
	return status;
}

// Reads a whole file. Returns NULL and sets errno on failure.
static char *read_file(const char *path, size_t *ret_size)
{
	FILE *file = fopen(path, "re");
	char *data = NULL;
	long size = -1;

	if (file && fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0 && fseek(file, 0, SEEK_SET) == 0)
		data = malloc((size_t)size + 1);
	if (data && fread(data, 1, (size_t)size, file) != (size_t)size) {
		free(data);
		data = NULL;
		errno = EIO;
	}
	if (file)
		fclose(file);
	*ret_size = (size_t)size;
	return data;
}

// Adds libdevice. NVVM links only the functions that the program uses.
static enum vg_status add_libdevice(struct vg_program *program)
{
	char path[4096], problem[1000];
	size_t size;

	if (vg_libdevice_find(nvvm, path, sizeof path, problem, sizeof problem))
		return vg_fail(VG_NOT_FOUND, 0, "%s", problem);
	char *data = read_file(path, &size);
	if (!data)
		return vg_fail(VG_SYSTEM, errno, "cannot read %s: %s", path, strerror(errno));
	nvvmResult r = nvvm->nvvmLazyAddModuleToProgram(program->native, data, size, "libdevice");
	free(data);
	return r ? fail_call(program, r, "nvvmLazyAddModuleToProgram") : VG_OK;
}

static enum vg_status add_modules(struct vg_program *program)
{
	nvvmResult r =
		nvvm->nvvmAddModuleToProgram(program->native, program->source, program->source_size, program->name);

	for (size_t i = 0; i < program->module_count && r == NVVM_SUCCESS; i++)
		r = nvvm->nvvmAddModuleToProgram(program->native, program->modules[i].data, program->modules[i].size,
						 program->modules[i].name);
	if (r)
		return fail_call(program, r, "nvvmAddModuleToProgram");
	return program->use_libdevice ? add_libdevice(program) : VG_OK;
}

enum vg_status core_nvvm_compile(struct vg_program *program, enum vg_code_type target,
				 const struct core_arguments *arguments, struct core_compiled *ret_compiled)
{
	const char **texts = (const char **)arguments->texts;
	int count = (int)arguments->count;
	nvvmProgram native;

	core_nvvm_drop(program);
	nvvmResult r = nvvm->nvvmCreateProgram(&native);
	if (r)
		return fail_call(program, r, "nvvmCreateProgram");
	program->native = native;
	CORE_TRY(add_modules(program));
	r = nvvm->nvvmVerifyProgram(native, count, texts);
	if (r)
		return fail_call(program, r, "nvvmVerifyProgram");
	r = nvvm->nvvmCompileProgram(native, count, texts);
	if (r)
		return fail_call(program, r, "nvvmCompileProgram");
	r = nvvm->nvvmGetCompiledResultSize(native, &ret_compiled->size);
	ret_compiled->data = r ? NULL : malloc(ret_compiled->size + 1);
	if (!r && !ret_compiled->data)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu bytes of code", ret_compiled->size);
	if (!r)
		r = nvvm->nvvmGetCompiledResult(native, ret_compiled->data);
	if (r)
		return fail_call(program, r, "nvvmGetCompiledResult");
	while (target == VG_CODE_PTX && ret_compiled->size && !ret_compiled->data[ret_compiled->size - 1])
		ret_compiled->size--; // the size includes the zero byte
	ret_compiled->data[ret_compiled->size] = '\0';
	return VG_OK;
}
