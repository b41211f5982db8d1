// Finds kernels and variables of loaded object code by name.
#include "core/error.h"
#include "core/kernel.h"
#include "core/object_code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *find_symbol(const struct vg_object_code *code, const char *name)
{
	const char *symbol = vg_object_code_symbol(code, name);

	return symbol ? symbol : name;
}

// Formats a kernel's symbol, and its C++ name if that is different: the program can use either.
static int format_kernel(const struct vg_object_code *code, const char *symbol, char *to, size_t capacity)
{
	const char *name = core_code_expression(code, symbol);
	char title[CORE_TITLE];

	core_symbol_title(name, title);
	return strcmp(name, title) == 0 ? snprintf(to, capacity, "%s", name)
					: snprintf(to, capacity, "%s (%s)", name, title);
}

// Lists the kernels of the library: "add, _Z5scalePf (scale), …". Returns "none" also if the driver cannot list them.
static void list_kernels(const struct vg_object_code *code, CUlibrary library, char *ret_text, size_t capacity)
{
	unsigned count = 0;
	size_t used = 0;

	snprintf(ret_text, capacity, "none");
	if (core_driver->cuLibraryGetKernelCount(&count, library) || !count)
		return;
	CUkernel *kernels = calloc(count, sizeof *kernels);
	if (kernels && core_driver->cuLibraryEnumerateKernels(kernels, count, library) == CUDA_SUCCESS)
		for (unsigned i = 0; i < count && used < capacity; i++) {
			const char *name;
			if (core_driver->cuKernelGetName(&name, kernels[i]) != CUDA_SUCCESS)
				continue;
			if (used)
				used += (size_t)snprintf(ret_text + used, capacity - used, ", ");
			if (used < capacity)
				used += (size_t)format_kernel(code, name, ret_text + used, capacity - used);
		}
	free(kernels);
}

enum vg_status vg_object_code_kernel(struct vg_object_code *code, const char *name, struct vg_kernel **ret_kernel)
{
	VG_ENTRY();
	CUlibrary library;
	CUkernel handle;
	char there[512];

	CORE_USABLE(code, "code");
	CORE_NEEDED(name);
	CORE_NEEDED(ret_kernel);
	CORE_TRY(vg_object_code_handle(code, &library));
	CUresult r = core_driver->cuLibraryGetKernel(&handle, library, find_symbol(code, name));
	if (r == CUDA_ERROR_NOT_FOUND) {
		core_log_skip();
		list_kernels(code, library, there, sizeof there);
		return vg_fail(VG_NOT_FOUND, r, "%s has no kernel \"%s\"; it has: %s", code->title, name, there);
	}
	if (r) {
		snprintf(there, sizeof there, "kernel \"%s\" of %s", name, code->title);
		return core_code_failed(code, r, "cuLibraryGetKernel", there);
	}
	return core_kernel_create(handle, code, name, ret_kernel);
}

// Finds a variable through the driver, in the current context. A managed variable exists only after
// cuLibraryGetModule() has loaded the library into a context.
static CUresult query_variable(CUlibrary library, bool managed, const char *symbol, CUdeviceptr *ret_address,
			       size_t *ret_size)
{
	CUmodule module;

	if (!managed)
		return core_driver->cuLibraryGetGlobal(ret_address, ret_size, library, symbol);
	CUresult r = core_asked(core_driver->cuLibraryGetManaged(ret_address, ret_size, library, symbol));
	if (r == CUDA_ERROR_NOT_FOUND && core_driver->cuLibraryGetModule(&module, library) == CUDA_SUCCESS)
		r = core_driver->cuLibraryGetManaged(ret_address, ret_size, library, symbol);
	return r;
}

static enum vg_status find_variable(struct vg_object_code *code, struct vg_context *context, bool managed,
				    const char *name, vg_address *ret_address, size_t *ret_size)
{
	CORE_SCOPE scope = {false};
	CUdeviceptr address;
	CUlibrary library;
	char what[512];
	size_t size;

	CORE_USABLE(code, "code");
	CORE_USABLE(context, "context");
	CORE_NEEDED(name);
	CORE_NEEDED(ret_address);
	CORE_TRY(vg_object_code_handle(code, &library));
	CUresult r = core_enter(&scope, context->handle);
	if (r)
		return core_driver_failed(r, "cuCtxPushCurrent", "%s", "");
	r = query_variable(library, managed, find_symbol(code, name), &address, &size);
	if (r == CUDA_ERROR_NOT_FOUND)
		return core_explained(vg_fail(VG_NOT_FOUND, r, "%s has no %s variable \"%s\"", code->title,
					      managed ? "managed" : "device", name));
	if (r) {
		snprintf(what, sizeof what, "variable \"%s\" of %s", name, code->title);
		return core_code_failed(code, r, managed ? "cuLibraryGetManaged" : "cuLibraryGetGlobal", what);
	}
	*ret_address = address;
	if (ret_size)
		*ret_size = size;
	return VG_OK;
}

enum vg_status vg_object_code_global(struct vg_object_code *code, struct vg_context *context, const char *name,
				     vg_address *ret_address, size_t *ret_size)
{
	VG_ENTRY();
	return find_variable(code, context, false, name, ret_address, ret_size);
}

enum vg_status vg_object_code_managed(struct vg_object_code *code, struct vg_context *context, const char *name,
				      vg_address *ret_address, size_t *ret_size)
{
	VG_ENTRY();
	return find_variable(code, context, true, name, ret_address, ret_size);
}
