// Helpers for tests that submit work with built-in kernels. The kernel `fill` runs as long as requested.
#pragma once
#include "manager_test.h"

static inline enum vg_status try_fill(struct vg_virtual_gpu *vgpu, unsigned stream, vg_address to, float value,
				      uint64_t count, unsigned repeat, struct vg_execution **ret_execution)
{
	const struct vg_argument arguments[] = {VG_ARGUMENT(to), VG_ARGUMENT(value), VG_ARGUMENT(count)};
	const struct vg_work work = {.size = sizeof work,
				     .kernel = "fill",
				     .config = {.grid = {4}, .block = {64}},
				     .arguments = arguments,
				     .argument_count = 3,
				     .stream = stream,
				     .repeat = repeat};

	return vg_virtual_gpu_execute(vgpu, &work, ret_execution);
}

static inline struct vg_execution *fill(struct vg_virtual_gpu *vgpu, unsigned stream, vg_address to, float value,
					uint64_t count, unsigned repeat)
{
	struct vg_execution *execution;

	OK(try_fill(vgpu, stream, to, value, count, repeat, &execution));
	return execution;
}

static inline float float_at(struct vg_virtual_gpu *vgpu, vg_address from)
{
	float value;

	OK(vg_virtual_gpu_read(vgpu, &value, from, sizeof value));
	return value;
}
