#include "core/kernel.h"

#include "base/hot.h"
#include "core/error.h"
#include "core/object_code.h"
#include "core/some_context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_kernel(struct core_object *object)
{
	struct vg_kernel *kernel = (struct vg_kernel *)object;

	if (kernel->release)
		kernel->release(kernel->owner);
	core_object_release(kernel->code ? &kernel->code->object : NULL);
	free(kernel);
}

static const struct core_class kernel_class = {"kernel", NULL, free_kernel};

// Sets the error of a failed query about a parameter. The query may have been the first use, which compiles the code.
static enum vg_status fail_parameter(CUresult r, const struct vg_object_code *code, unsigned index)
{
	char what[32];

	snprintf(what, sizeof what, "parameter %u", index);
	return code ? core_code_failed(code, r, "cuKernelGetParamInfo", what)
		    : core_driver_failed(r, "cuKernelGetParamInfo", "%s", what);
}

// Counts the parameters by asking for each until the driver fails: it has no query for the number.
static enum vg_status count_parameters(CUkernel handle, const struct vg_object_code *code, unsigned *ret_count)
{
	size_t offset, size;
	unsigned count = 0;
	CUresult r;

	while ((r = core_driver->cuKernelGetParamInfo(handle, count, &offset, &size)) == CUDA_SUCCESS)
		count++;
	if (r != CUDA_ERROR_INVALID_VALUE)
		return fail_parameter(r, code, count);
	core_log_skip();
	*ret_count = count;
	return VG_OK;
}

static enum vg_status read_parameters(struct vg_kernel *kernel)
{
	uint16_t *offsets = kernel->sizes + kernel->parameter_count;
	size_t offset, size;

	for (unsigned i = 0; i < kernel->parameter_count; i++) {
		CUresult r = core_driver->cuKernelGetParamInfo(kernel->handle, i, &offset, &size);
		if (r)
			return fail_parameter(r, kernel->code, i);
		offsets[i] = (uint16_t)offset;
		kernel->sizes[i] = (uint16_t)size;
		kernel->parameter_bytes = (unsigned)(offset + size);
	}
	return VG_OK;
}

enum vg_status core_kernel_create(CUkernel handle, struct vg_object_code *code, const char *name,
				  struct vg_kernel **ret_kernel)
{
	__attribute__((cleanup(core_leave_some))) struct core_some_context some;
	char title[CORE_TITLE];
	unsigned count = 0;

	CUresult r = core_enter_some(&some);
	if (r)
		return core_driver_failed(r, "cuDevicePrimaryCtxRetain", "%s", "");
	CORE_TRY(count_parameters(handle, code, &count));
	core_symbol_title(code ? core_code_expression(code, name) : name, title);
	struct vg_kernel *kernel = vg_lines(sizeof *kernel + 2 * count * sizeof *kernel->sizes + strlen(title) + 1);
	if (!kernel)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a kernel of %u parameters", count);
	core_object_init(&kernel->object, &kernel_class);
	kernel->handle = handle;
	kernel->parameter_count = count;
	strcpy((char *)core_kernel_title(kernel), title);
	kernel->code = code;
	if (code)
		core_object_retain(&code->object);
	enum vg_status status = read_parameters(kernel);
	if (status)
		core_object_release(&kernel->object);
	else
		*ret_kernel = kernel;
	return status;
}

enum vg_status vg_kernel_borrow(struct CUkern_st *handle, struct vg_object_code *code, void *owner,
				void (*release)(void *owner), struct vg_kernel **ret_kernel)
{
	VG_ENTRY();
	CUlibrary library, own;
	const char *name;

	CORE_NEEDED(handle);
	CORE_NEEDED(ret_kernel);
	CORE_TRY(core_open());
	CORE_CALL(cuKernelGetLibrary, &own, handle);
	if (code) {
		CORE_TRY(vg_object_code_handle(code, &library));
		if (own != library)
			return vg_fail(VG_INVALID, 0,
				       "the kernel belongs to another library than %s: give the code that it was got "
				       "from, or NULL",
				       code->title);
	}
	CORE_CALL(cuKernelGetName, &name, handle);
	CORE_TRY(core_kernel_create(handle, code, name, ret_kernel));
	(*ret_kernel)->owner = owner;
	(*ret_kernel)->release = release;
	return VG_OK;
}

enum vg_status vg_kernel_close(struct vg_kernel *kernel)
{
	VG_ENTRY();
	CORE_NEEDED(kernel);
	return core_object_close(&kernel->object);
}

void vg_kernel_destroy(struct vg_kernel *kernel)
{
	core_object_release(kernel ? &kernel->object : NULL);
}

struct CUkern_st *vg_kernel_handle(const struct vg_kernel *kernel)
{
	return kernel && !kernel->object.closed ? kernel->handle : NULL;
}

const char *vg_kernel_name(const struct vg_kernel *kernel)
{
	const char *name;

	if (!kernel || kernel->object.closed || core_driver->cuKernelGetName(&name, kernel->handle) || !name)
		return "";
	return name;
}

struct vg_object_code *vg_kernel_code(const struct vg_kernel *kernel)
{
	return kernel ? kernel->code : NULL;
}

size_t vg_kernel_parameter_count(const struct vg_kernel *kernel)
{
	return kernel ? kernel->parameter_count : 0;
}

enum vg_status vg_kernel_parameter(const struct vg_kernel *kernel, size_t index, size_t *ret_offset, size_t *ret_size)
{
	VG_ENTRY();
	CORE_USABLE(kernel, "kernel");
	if (index >= kernel->parameter_count)
		return vg_fail(VG_INVALID, 0, "parameter %zu: kernel \"%s\" has %u, counted from 0", index,
			       core_kernel_title(kernel), kernel->parameter_count);
	if (ret_offset)
		*ret_offset = core_kernel_offsets(kernel)[index];
	if (ret_size)
		*ret_size = kernel->sizes[index];
	return VG_OK;
}

static enum vg_status fail_attribute(CUresult r, const char *call, const struct vg_kernel *kernel,
				     const struct vg_device *device, int attribute)
{
	return core_driver_failed(r, call, "attribute %d of kernel \"%s\" on device %d", attribute,
				  core_kernel_title(kernel), device->ordinal);
}

static enum vg_status check_attribute(int attribute)
{
	if (attribute >= VG_KERNEL_MAX_THREADS_PER_BLOCK && attribute <= VG_KERNEL_CLUSTER_SCHEDULING_POLICY_PREFERENCE)
		return VG_OK;
	return vg_fail(VG_INVALID, 0, "kernel attribute %d: there are %d to %d", attribute,
		       VG_KERNEL_MAX_THREADS_PER_BLOCK, VG_KERNEL_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
}

enum vg_status vg_kernel_get_attribute(const struct vg_kernel *kernel, struct vg_device *device,
				       enum vg_kernel_attribute attribute, int *ret_value)
{
	VG_ENTRY();
	CORE_USABLE(kernel, "kernel");
	CORE_NEEDED(device);
	CORE_NEEDED(ret_value);
	CORE_TRY(check_attribute((int)attribute));
	CUresult r = core_driver->cuKernelGetAttribute(ret_value, (CUfunction_attribute)attribute, kernel->handle,
						       device->handle);
	return r ? fail_attribute(r, "cuKernelGetAttribute", kernel, device, (int)attribute) : VG_OK;
}

enum vg_status vg_kernel_set_attribute(struct vg_kernel *kernel, struct vg_device *device,
				       enum vg_kernel_attribute attribute, int value)
{
	VG_ENTRY();
	CORE_USABLE(kernel, "kernel");
	CORE_NEEDED(device);
	CORE_TRY(check_attribute((int)attribute));
	bool settable = attribute == VG_KERNEL_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
			attribute == VG_KERNEL_PREFERRED_SHARED_MEMORY_CARVEOUT ||
			(attribute >= VG_KERNEL_REQUIRED_CLUSTER_WIDTH &&
			 attribute <= VG_KERNEL_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
	if (!settable)
		return vg_fail(VG_INVALID, 0,
			       "kernel attribute %d cannot be set: 8, 9 and 11 to 15 can (shared memory and clusters)",
			       (int)attribute);
	CUresult r = core_driver->cuKernelSetAttribute((CUfunction_attribute)attribute, value, kernel->handle,
						       device->handle);
	if (r == CUDA_ERROR_INVALID_VALUE)
		return core_explained(vg_fail(VG_INVALID, r, "device %d refuses %d for attribute %d of kernel \"%s\"",
					      device->ordinal, value, (int)attribute, core_kernel_title(kernel)));
	return r ? fail_attribute(r, "cuKernelSetAttribute", kernel, device, (int)attribute) : VG_OK;
}
