// Helpers for programs that compile their kernels at run time. They exit with status 77 on a machine without NVRTC.
#pragma once
#include "check.h"

#include <string.h>

static inline void need_tool(enum vg_backend backend)
{
	struct vg_toolchain tool;

	if (vg_toolchain_find(backend, &tool) == VG_OK)
		return;
	printf("skipped: %s\n", vg_last_error()->text);
	exit(77);
}

// Compiles CUDA C++ source for the device.
static inline struct vg_object_code *compile_code(struct vg_device *device, const char *source)
{
	struct vg_program_options options = {.size = sizeof options, .name = "example.cu", .device = device};
	struct vg_program *program;
	struct vg_object_code *code;

	need_tool(VG_BACKEND_NVRTC);
	check(vg_program_create(VG_SOURCE_CXX, source, strlen(source), &options, &program));
	check(vg_program_compile(program, VG_CODE_PTX, NULL, &code));
	vg_program_destroy(program);
	return code;
}

// Compiles the source and returns a kernel of the code. The kernel has a reference to the code.
static inline struct vg_kernel *compile_kernel(struct vg_device *device, const char *source, const char *name)
{
	struct vg_object_code *code = compile_code(device, source);
	struct vg_kernel *kernel;

	check(vg_object_code_kernel(code, name, &kernel));
	vg_object_code_destroy(code);
	return kernel;
}
