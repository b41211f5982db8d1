// Helpers for tests of the balancer with real managers.
#pragma once
#include "work_test.h"

#include <time.h>

// Returns how often a job repeats its work: `simulated` times on the simulated GPU, and `hardware` times on a GPU,
// which is some hundred times as fast.
static inline unsigned scale_repeats(unsigned simulated, unsigned hardware)
{
	return getenv("VIRGATE_SIM") ? simulated : hardware;
}

static inline struct vg_balancer *open_balancer(struct vg_manager *const *managers, size_t count,
						const struct vg_balancer_options *options)
{
	struct vg_balancer *balancer;

	OK(vg_balancer_create(managers, count, options, &balancer));
	return balancer;
}

static inline struct vg_virtual_gpu *with_share(struct vg_manager *manager, int id, double share)
{
	const struct vg_virtual_gpu_options options = {
		.size = sizeof options, .id = id, .memory_limit = 64 * MIB, .compute_share = share};
	struct vg_virtual_gpu *vgpu;

	OK(vg_virtual_gpu_create(manager, &options, &vgpu));
	return vgpu;
}
