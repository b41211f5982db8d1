// Makes each driver call fail in turn while managers and virtual GPUs are created.
#include "../core/core_fault.h"

static struct vg_device *device;
static struct vg_manager *manager, *made_manager;
static struct vg_virtual_gpu *vgpu, *made_vgpu;
static vg_address made_block;
static int plain;

static void clean(void)
{
	vg_virtual_gpu_destroy(made_vgpu);
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(made_manager);
	vg_manager_destroy(manager);
	made_vgpu = vgpu = NULL;
	made_manager = manager = NULL;
}

static enum vg_status construct_manager(void)
{
	TRY(vg_device_get(0, &device));
	return vg_manager_create(device, NULL, &made_manager);
}

static enum vg_status prepare_manager(void)
{
	const struct vg_manager_options options = {.size = sizeof options, .no_memory_virtualization = plain};

	TRY(vg_device_get(0, &device));
	return vg_manager_create(device, &options, &manager);
}

static enum vg_status construct_vgpu(void)
{
	const struct vg_virtual_gpu_options options = {.size = sizeof options, .memory_limit = 64 << 20};

	return vg_virtual_gpu_create(manager, &options, &made_vgpu);
}

static enum vg_status prepare_vgpu(void)
{
	const struct vg_virtual_gpu_options options = {.size = sizeof options, .memory_limit = 64 << 20};

	TRY(prepare_manager());
	return vg_virtual_gpu_create(manager, &options, &vgpu);
}

static enum vg_status construct_block(void)
{
	return vg_virtual_gpu_allocate(vgpu, 3 << 20, 0, &made_block);
}

TEST(a_failed_manager_creation_leaves_nothing)
{
	static const struct fault_subject subject = {NULL, construct_manager, clean};

	FAULT_EVERY_CALL(&subject, "cuDevicePrimaryCtxRetain", "cuDeviceTotalMem_v2");
}

TEST(a_failed_vgpu_creation_leaves_nothing)
{
	static const struct fault_subject subject = {prepare_manager, construct_vgpu, clean};

	plain = 0;
	FAULT_EVERY_CALL(&subject, "cuMemGetAllocationGranularity", "cuMemAddressReserve",
			 "cuStreamCreateWithPriority");
}

TEST(a_failed_allocation_leaves_nothing)
{
	static const struct fault_subject subject = {prepare_vgpu, construct_block, clean};

	plain = 0;
	FAULT_EVERY_CALL(&subject, "cuMemCreate", "cuMemMap", "cuMemSetAccess");
	plain = 1;
	FAULT_EVERY_CALL(&subject, "cuMemAlloc_v2");
}
