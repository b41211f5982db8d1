// Releases everything on every way out of a function, with the cleanup attribute of gcc and clang. It is for C what a
// destructor is for C++.
#include "check.h"

static void drop_manager(struct vg_manager **manager)
{
	vg_manager_destroy(*manager); // NULL is allowed
}

static void drop_vgpu(struct vg_virtual_gpu **vgpu)
{
	vg_virtual_gpu_destroy(*vgpu);
}

#define OWNED(drop) __attribute__((cleanup(drop)))

// Memory of a vGPU that is freed at the end of its scope.
struct block {
	struct vg_virtual_gpu *vgpu;
	vg_address address;
};

static void drop_block(struct block *block)
{
	if (block->address && vg_virtual_gpu_free(block->vgpu, block->address))
		fprintf(stderr, "%s\n", vg_last_error()->text);
}

// Works in its own vGPU, which is destroyed with its contents on each of the four ways out.
static enum vg_status serve(struct vg_manager *manager, size_t bytes)
{
	const struct vg_virtual_gpu_options options = {.size = sizeof options, .memory_limit = 64 << 20};
	OWNED(drop_vgpu) struct vg_virtual_gpu *vgpu = NULL;
	enum vg_status status = vg_virtual_gpu_create(manager, &options, &vgpu);

	if (status)
		return status;
	OWNED(drop_block) struct block first = {.vgpu = vgpu}, second = {.vgpu = vgpu};
	status = vg_virtual_gpu_allocate(vgpu, 1 << 20, 0, &first.address);
	if (status)
		return status;
	status = vg_virtual_gpu_allocate(vgpu, bytes, 0, &second.address);
	if (status)
		return status;
	return vg_virtual_gpu_set(vgpu, second.address, 0x5a, bytes);
}

int main(void)
{
	OWNED(drop_manager) struct vg_manager *manager = NULL;
	struct vg_manager_info info;
	struct vg_device *device;

	check(vg_device_get(0, &device));
	check(vg_manager_create(device, NULL, &manager));
	check(serve(manager, 8 << 20));
	enum vg_status refused = serve(manager, 80 << 20); // more than the limit: returns early
	printf("%s\n", vg_last_error()->text);
	check(vg_manager_info(manager, &info));
	printf("manager_cleanup: %u virtual GPUs and %llu bytes are left\n", info.virtual_gpus,
	       (unsigned long long)info.memory_held);
	return refused != VG_INSUFFICIENT || info.virtual_gpus || info.memory_held;
}
