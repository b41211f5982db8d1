// Tests rounds of the balancer with real managers and schedulers: queued work moves, shares are lent, and quanta end.
#include "balancer_test.h"

// Runs rounds while one virtual GPU has a long queue, and another one is idle.
TEST(queued_work_migrates_to_an_idle_virtual_gpu)
{
	struct vg_balancer_options options = {.size = sizeof options, .manual = 1};
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *one = new_vgpu(manager, 1, 64 * MIB), *two = new_vgpu(manager, 2, 64 * MIB);
	struct vg_balancer *balancer = open_balancer(&manager, 1, &options);
	vg_address block = allocate(one, 1 << 18);
	struct vg_balancing_entry entry;
	struct vg_execution *last = NULL;
	size_t taken, count;

	for (int i = 0; i < 200; i++) {
		vg_execution_destroy(last);
		last = fill(one, (unsigned)i % 4, block, 2.0f, 1 << 16, scale_repeats(2, 2000));
	}
	OK(vg_balancer_rebalance(balancer, &taken));
	CHECK_INT(taken, 1);
	OK(vg_balancer_log(balancer, &entry, 1, &count));
	CHECK(entry.action == VG_ACTION_MIGRATE && entry.from == 1 && entry.to == 2 && entry.amount >= 10);
	CHECK_CONTAINS(entry.why, "vgpu-1 has ");
	// Waits for all work that was submitted to the first virtual GPU.
	OK(vg_virtual_gpu_sync_all(one, 60));
	CHECK(float_at(one, block) == 2.0f && float_at(one, block + (1 << 18) - 4) == 2.0f);
	CHECK_INT(info_of(one).queue_length + info_of(two).queue_length, 0);
	CHECK(info_of(two).launches > 0 || info_of(two).completed > 0);
	vg_execution_destroy(last);
	vg_balancer_destroy(balancer);
	vg_virtual_gpu_destroy(one);
	vg_virtual_gpu_destroy(two);
	vg_manager_destroy(manager);
}

static double share_of(struct vg_virtual_gpu *vgpu)
{
	return info_of(vgpu).compute_share;
}

TEST(shares_are_lent_and_returned)
{
	struct vg_balancer_options options = {.size = sizeof options, .manual = 1, .forbidden = VG_ACTION_MIGRATE};
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *one = with_share(manager, 1, 0.3), *two = with_share(manager, 2, 0.7);
	struct vg_balancer *balancer = open_balancer(&manager, 1, &options);
	vg_address block = allocate(one, 1 << 20), other = allocate(two, 4096);
	size_t taken;

	// Makes the second virtual GPU's utilization known.
	vg_execution_destroy(fill(two, 0, other, 1, 1024, 1));
	OK(vg_virtual_gpu_sync_all(two, 60));
	// Submits enough work for the whole test. Closing the virtual GPU cancels the rest.
	for (int i = 0; i < 4000; i++)
		OK(try_fill(one, (unsigned)i % 4, block, 2.0f, 1 << 18, 100, NULL));
	for (int i = 0; i < 1000 && share_of(one) == 0.3; i++) {
		OK(vg_balancer_rebalance(balancer, NULL));
		pause_ms(10);
	}
	CHECK(share_of(one) > 0.3 && share_of(two) < 0.7);
	CHECK(share_of(one) + share_of(two) <= 1 + 1e-9);
	for (int i = 0; i < 10; i++)
		OK(vg_balancer_rebalance(balancer, &taken));
	CHECK(share_of(one) <= 0.6 + 1e-6 && share_of(two) >= 0.35 - 1e-6);
	OK(vg_balancer_close(balancer));
	CHECK(share_of(one) > 0.3 - 1e-6 && share_of(one) < 0.3 + 1e-6);
	CHECK(share_of(two) > 0.7 - 1e-6 && share_of(two) < 0.7 + 1e-6);
	vg_balancer_destroy(balancer);
	OK(vg_virtual_gpu_end(one));
	vg_virtual_gpu_destroy(one);
	vg_virtual_gpu_destroy(two);
	vg_manager_destroy(manager);
}

// Without preemption, the work of the unit with the higher priority would wait for the other unit's quantum of 100 ms.
TEST(preemption_ends_a_quantum_of_lower_priority)
{
	const struct vg_compute_options turns = {.size = sizeof turns,
						 .policy = VG_COMPUTE_ROUND_ROBIN,
						 .placement = VG_PLACEMENT_TIME,
						 .time_slice_ms = 100};
	const struct vg_manager_options of_turns = {.size = sizeof of_turns, .compute = &turns};
	struct vg_balancer_options options = {
		.size = sizeof options, .manual = 1, .forbidden = VG_ACTION_ALL & ~VG_ACTION_PREEMPT};
	struct vg_manager *manager = open_manager(&of_turns);
	struct vg_virtual_gpu *low = new_vgpu(manager, 1, 64 * MIB), *high = new_vgpu(manager, 2, 64 * MIB);
	struct vg_balancer *balancer = open_balancer(&manager, 1, &options);
	vg_address block = allocate(low, 1 << 20), other = allocate(high, 4096);
	struct vg_balancing_entry entry;
	size_t count = 0;

	OK(vg_compute_unit_set_priority(vg_virtual_gpu_compute(high), 5));
	for (int i = 0; i < 400; i++)
		OK(try_fill(low, (unsigned)i % 4, block, 1, 1 << 18, scale_repeats(50, 5000), NULL));
	for (int i = 0; i < 50 && !count; i++) {
		struct vg_execution *execution = fill(high, 0, other, 2, 1024, 1);
		for (int k = 0; k < 3; k++)
			OK(vg_balancer_rebalance(balancer, NULL));
		OK(vg_execution_wait(execution, 60));
		vg_execution_destroy(execution);
		OK(vg_balancer_log(balancer, &entry, 1, &count));
	}
	CHECK_INT(count, 1);
	CHECK(entry.action == VG_ACTION_PREEMPT && entry.from == 1 && entry.to == 2 && entry.status == VG_OK);
	CHECK_CONTAINS(entry.why, "vgpu-2 has 1 waiting with priority 5 and nothing running, while vgpu-1 runs");
	vg_balancer_destroy(balancer);
	OK(vg_virtual_gpu_end(low));
	vg_virtual_gpu_destroy(low);
	vg_virtual_gpu_destroy(high);
	vg_manager_destroy(manager);
}

static void keep_queued(struct vg_virtual_gpu *vgpu, vg_address block, unsigned count)
{
	unsigned queued = info_of(vgpu).queue_length;

	for (unsigned i = queued; i < count; i++)
		OK(try_fill(vgpu, i % 4, block, 1, 1 << 16, scale_repeats(2, 200), NULL));
}

TEST(a_constant_load_is_not_moved_back_and_forth)
{
	struct vg_balancer_options options = {.size = sizeof options, .interval_ms = 5};
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *busy = with_share(manager, 1, 0.4), *less = with_share(manager, 2, 0.4);
	vg_address first = allocate(busy, 1 << 18), second = allocate(less, 1 << 18);
	struct vg_balancer *balancer = open_balancer(&manager, 1, &options);
	struct vg_balancing_entry entries[VG_BALANCER_LOG];
	unsigned there = 0, back = 0;
	size_t count;

	for (int i = 0; i < 400; i++) {
		keep_queued(busy, first, 60);
		keep_queued(less, second, 6);
		pause_ms(2);
	}
	OK(vg_balancer_log(balancer, entries, VG_BALANCER_LOG, &count));
	for (size_t i = 0; i < count; i++) {
		if (entries[i].action != VG_ACTION_MIGRATE)
			continue;
		(*(entries[i].to == 2 ? &there : &back))++;
	}
	CHECK(there > 0);
	CHECK_INT(back, 0);
	vg_balancer_destroy(balancer);
	OK(vg_virtual_gpu_end(busy));
	OK(vg_virtual_gpu_end(less));
	vg_virtual_gpu_destroy(busy);
	vg_virtual_gpu_destroy(less);
	vg_manager_destroy(manager);
}
