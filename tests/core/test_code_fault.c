// Tests failures of every driver call that creates object code, kernels, launches and the driver's linker.
#include "core_fault.h"

static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
			  ".visible .entry k(.param .u32 a, .param .u64 b) { ret; }\n";

static struct vg_context *context;
static struct vg_object_code *code, *linked;
static struct vg_kernel *kernel, *borrowed;
static struct vg_linker *linker;
static struct vg_prepared_launch *prepared;

static void clean(void)
{
	vg_prepared_launch_destroy(prepared);
	vg_kernel_destroy(borrowed);
	vg_kernel_destroy(kernel);
	vg_linker_destroy(linker);
	vg_object_code_destroy(linked);
	vg_object_code_destroy(code);
	vg_context_destroy(context);
}

static enum vg_status make_code(void)
{
	return vg_object_code_create(VG_CODE_PTX, ptx, sizeof ptx, NULL, &code);
}

static enum vg_status load(void)
{
	return vg_object_code_load(code);
}

static enum vg_status get_kernel(void)
{
	return vg_object_code_kernel(code, "k", &kernel);
}

static enum vg_status borrow_kernel(void)
{
	return vg_kernel_borrow(vg_kernel_handle(kernel), code, NULL, NULL, &borrowed);
}

static enum vg_status make_kernel(void)
{
	struct vg_device *device;

	TRY(vg_device_get(0, &device));
	TRY(vg_context_primary(device, &context));
	TRY(make_code());
	return get_kernel();
}

static enum vg_status prepare_cooperative(void)
{
	struct vg_launch_config config = {sizeof config, .grid = {1}, .block = {1}, .cooperative = 1};

	return vg_launch_prepare(context, &config, kernel, NULL, 0, &prepared);
}

static enum vg_status make_linker(void)
{
	struct vg_linker_options options = {sizeof options, .backend = VG_BACKEND_DRIVER};

	TRY(make_code());
	return vg_linker_create(&code, 1, &options, &linker);
}

static enum vg_status link_code(void)
{
	return vg_linker_link(linker, VG_CODE_CUBIN, &linked);
}

TEST(object_code)
{
	FAULT_EVERY_CALL((&(struct fault_subject){make_code, load, clean}), "cuLibraryLoadData");
}

TEST(kernels)
{
	FAULT_EVERY_CALL((&(struct fault_subject){make_code, get_kernel, clean}), "cuLibraryLoadData",
			 "cuLibraryGetKernel", "cuKernelGetParamInfo");
}

TEST(borrowed_kernels)
{
	FAULT_EVERY_CALL((&(struct fault_subject){make_kernel, borrow_kernel, clean}), "cuKernelGetLibrary",
			 "cuKernelGetParamInfo");
}

TEST(prepared_launches)
{
	FAULT_EVERY_CALL((&(struct fault_subject){make_kernel, prepare_cooperative, clean}), "cuCtxGetCurrent",
			 "cuCtxPushCurrent_v2", "cuOccupancyMaxActiveBlocksPerMultiprocessor", "cuCtxGetDevResource");
}

TEST(the_drivers_linker)
{
	FAULT_EVERY_CALL((&(struct fault_subject){make_linker, link_code, clean}), "cuDevicePrimaryCtxRetain",
			 "cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuLinkCreate_v2", "cuLinkAddData_v2",
			 "cuLinkComplete");
}
