// Tests vGPUs that run side by side under MPS: which of them run at the same time, and what an attempt to run another
// one beside them costs if it fails.
#include "test.h"

#include "model.h"

static const struct program train = {.launches = 20, .host_ns = 8 * US, .kernel_ns = 200 * US};

static struct model *begin_model(void)
{
	struct model_options options;

	model_options(TURN_MODE_MPS, &options);
	return model_create(&options);
}

static unsigned int start_vgpu(struct model *model, const struct program *program)
{
	return model_start_process(model, model_add_vgpu(model, 50, false, false), program);
}

// The arbiter waits twice as long after each attempt to run the vGPUs side by side that fails.
TEST(failed_attempts_cost_little)
{
	const struct program small = {.launches = 200, .host_ns = 12 * US, .kernel_ns = 4500, .width = .4};
	struct model *model = begin_model();
	const double rate_in_turns = 83000 * .5;

	start_vgpu(model, &train);
	unsigned int other = start_vgpu(model, &small);
	model_run(model, 7 * SEC);
	model_reset_figures(model);
	model_run(model, 4 * SEC);
	CHECK((double)model_process(model, other)->kernels / 4 > .8 * rate_in_turns);
	model_destroy(model);
}

// The kernels of each vGPU take two thirds of the time, but less than half of the device.
TEST(small_kernels_run_side_by_side)
{
	const struct program narrow = {.launches = 200, .host_ns = 12 * US, .kernel_ns = 8 * US, .width = .4};
	struct model *model = begin_model();

	unsigned int alone = start_vgpu(model, &narrow);
	model_run(model, 2 * SEC);
	uint64_t rate = model_process(model, alone)->kernels / 2;
	start_vgpu(model, &narrow);
	model_run(model, SEC);
	model_reset_figures(model);
	model_run(model, 4 * SEC);
	for (unsigned int i = 0; i < 2; i++)
		CHECK(model_process(model, i)->kernels / 4 > rate * 85 / 100);
	model_destroy(model);
}

// Tests vGPUs that are mostly idle. In an attempt of 20 ms, each works for about 4 ms. Though it works so little, it
// does not wait for the other one, so the attempt must succeed.
TEST(mostly_idle_tenants_run_side_by_side)
{
	struct program rare = {.launches = 10, .host_ns = 8 * US, .kernel_ns = 200 * US, .think_ns = 10 * MS};
	struct model *model = begin_model();
	unsigned int beside = 0;

	start_vgpu(model, &rare);
	rare.think_ns = 17 * MS;
	start_vgpu(model, &rare);
	model_run(model, SEC);
	for (int i = 0; i < 400; i++) {
		model_run(model, 10 * MS);
		beside += model_orders(model)->regime == TURN_REGIME_BESIDE;
	}
	CHECK(beside > 300);
	model_destroy(model);
}

// Every two seconds, vGPUs that run side by side take turns for a moment, so that their rates are measured again. Until
// then their virtual times have advanced by seconds, which must not count as a lag of the one that waits last.
TEST(turns_between_take_a_moment)
{
	struct program narrow = {.launches = 100, .host_ns = 6 * US, .kernel_ns = 4500, .width = .4};
	struct model *model = begin_model();
	uint64_t longest = 0, turns = 0;

	start_vgpu(model, &narrow);
	narrow.host_ns = 5500;
	narrow.think_ns = 200 * US;
	start_vgpu(model, &narrow);
	model_run(model, 5 * SEC);
	for (uint64_t at = 0; at < 20 * SEC; at += MS) {
		model_run(model, MS);
		turns = model_orders(model)->regime == TURN_REGIME_BESIDE ? 0 : turns + MS;
		longest = turns > longest ? turns : longest;
	}
	CHECK(longest > 0);
	CHECK(longest < 50 * MS);
	model_destroy(model);
}
