// Helpers for the manager's tests.
#pragma once
#include "../core/core_test.h"

#define MIB (1ull << 20)

static inline struct vg_manager *open_manager(const struct vg_manager_options *options)
{
	struct vg_manager *manager;

	OK(vg_manager_create(first_device(), options, &manager));
	return manager;
}

static inline struct vg_virtual_gpu *new_vgpu(struct vg_manager *manager, int id, uint64_t limit)
{
	const struct vg_virtual_gpu_options options = {.size = sizeof options, .id = id, .memory_limit = limit};
	struct vg_virtual_gpu *vgpu;

	OK(vg_virtual_gpu_create(manager, &options, &vgpu));
	return vgpu;
}

static inline vg_address allocate(struct vg_virtual_gpu *vgpu, size_t size)
{
	vg_address address;

	OK(vg_virtual_gpu_allocate(vgpu, size, 0, &address));
	return address;
}

static inline struct vg_virtual_gpu_info info_of(struct vg_virtual_gpu *vgpu)
{
	struct vg_virtual_gpu_info info;

	OK(vg_virtual_gpu_info(vgpu, &info));
	return info;
}

static inline struct vg_manager_info manager_info(struct vg_manager *manager)
{
	struct vg_manager_info info;

	OK(vg_manager_info(manager, &info));
	return info;
}
