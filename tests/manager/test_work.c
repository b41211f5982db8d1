// Tests work of virtual GPUs: kernels and operations in virtual streams, pauses, shares, and the effects of closing.
#include "work_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

TEST(kernels_run_in_virtual_streams)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 64 * MIB);
	vg_address block = allocate(vgpu, 4096);

	struct vg_execution *execution = fill(vgpu, 0, block, 1.5f, 1024, 1);
	vg_execution_destroy(fill(vgpu, 0, block, 2.5f, 512, 1)); // this work runs after the first one in its stream
	OK(vg_execution_wait(execution, 0));
	OK(vg_virtual_gpu_sync(vgpu, 0, 0));
	CHECK(float_at(vgpu, block) == 2.5f && float_at(vgpu, block + 4092) == 1.5f);
	CHECK_INT(vg_manager_status(manager, 1), VG_VIRTUAL_GPU_RUNNING);
	struct vg_virtual_gpu_info info = info_of(vgpu);
	CHECK_INT(info.completed, 2);
	CHECK_INT(info.launches, 2);
	CHECK_INT(info.active_streams, 1);
	REFUSED(vg_virtual_gpu_execute(vgpu, NULL, NULL), VG_INVALID, "work is NULL");
	const struct vg_work unknown = {
		.size = sizeof unknown, .kernel = "no_such", .config = {.grid = {1}, .block = {1}}, .stream = 1};
	REFUSED(vg_virtual_gpu_execute(vgpu, &unknown, NULL), VG_NOT_FOUND, "no_such");
	// A refused submission uses no stream.
	CHECK_INT(info_of(vgpu).active_streams, 1);
	vg_execution_destroy(execution);
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

TEST(a_manager_limits_active_streams)
{
	const struct vg_manager_options options = {.size = sizeof options, .virtual_streams = 5};
	struct vg_manager *manager = open_manager(&options);
	struct vg_virtual_gpu_options more = {.size = sizeof more, .memory_limit = 64 * MIB, .streams = 6};
	struct vg_virtual_gpu *one = new_vgpu(manager, 0, 64 * MIB), *two = new_vgpu(manager, 0, 64 * MIB), *vgpu;
	vg_address mine = allocate(one, 4096), other = allocate(two, 4096);

	REFUSED(vg_virtual_gpu_create(manager, &more, &vgpu), VG_LIMIT, "asked for 6 streams");
	for (unsigned i = 0; i < 4; i++)
		OK(try_fill(one, i, mine, 0, 1024, 1, NULL));
	OK(try_fill(two, 3, other, 0, 1024, 1, NULL));
	REFUSED(try_fill(one, 4, mine, 0, 1024, 1, NULL), VG_INVALID, "4 virtual streams, 0 to 3");
	REFUSED(try_fill(two, 1, other, 0, 1024, 1, NULL), VG_LIMIT, "1 has 4, 2 has 1");
	CHECK_INT(manager_info(manager).active_streams, 5);
	CHECK_INT(info_of(one).active_streams, 4);
	OK(vg_virtual_gpu_sync_all(one, 0));
	REFUSED(vg_virtual_gpu_release_stream(one, 9), VG_INVALID, "no stream 9");
	OK(vg_virtual_gpu_release_stream(one, 2));
	OK(try_fill(two, 1, other, 0, 1024, 1, NULL));
	REFUSED(try_fill(one, 2, mine, 0, 1024, 1, NULL), VG_LIMIT, "all 5 virtual streams");
	vg_virtual_gpu_destroy(two);
	CHECK_INT(manager_info(manager).active_streams, 3);
	OK(try_fill(one, 2, mine, 0, 1024, 1, NULL));
	vg_virtual_gpu_destroy(one);
	vg_manager_destroy(manager);
}

static atomic_bool submitting;

// Submits work that is always refused, to a stream in which another thread's work runs.
static void *submit_in_vain(void *vgpu)
{
	const struct vg_work unknown = {
		.size = sizeof unknown, .kernel = "no_such", .config = {.grid = {1}, .block = {1}}, .stream = 1};

	while (atomic_load(&submitting))
		CHECK_INT(vg_virtual_gpu_execute(vgpu, &unknown, NULL), VG_NOT_FOUND);
	return NULL;
}

TEST(refused_work_does_not_release_a_busy_stream)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 64 * MIB);
	vg_address block = allocate(vgpu, 4096);
	pthread_t thread;

	atomic_store(&submitting, 1);
	CHECK_INT(pthread_create(&thread, NULL, submit_in_vain, vgpu), 0);
	for (int i = 0; i < 2000; i++) {
		OK(try_fill(vgpu, 1, block, 0, 16, 1, NULL));
		CHECK_INT(info_of(vgpu).active_streams, 1);
		OK(vg_virtual_gpu_sync(vgpu, 1, 0));
		// This call may return VG_BUSY: the other thread may be submitting to the same stream.
		(void)vg_virtual_gpu_release_stream(vgpu, 1);
	}
	atomic_store(&submitting, 0);
	pthread_join(thread, NULL);
	OK(vg_virtual_gpu_release_stream(vgpu, 1));
	CHECK_INT(manager_info(manager).active_streams, 0);
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

TEST(queued_work_waits_while_paused)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 64 * MIB);
	vg_address block = allocate(vgpu, 4096);

	OK(vg_virtual_gpu_set(vgpu, block, 0, 4096));
	OK(vg_virtual_gpu_pause(vgpu));
	struct vg_execution *execution = fill(vgpu, 0, block, 4, 1024, 1);
	CHECK_INT(vg_virtual_gpu_sync(vgpu, 0, 0.05), VG_NOT_READY);
	CHECK_INT(vg_execution_state(execution), VG_EXECUTION_QUEUED);
	CHECK(float_at(vgpu, block) == 0);
	CHECK_INT(info_of(vgpu).queue_length, 1);
	REFUSED(vg_virtual_gpu_release_stream(vgpu, 0), VG_BUSY, "work in stream 0");
	OK(vg_virtual_gpu_resume(vgpu));
	OK(vg_execution_wait(execution, 0));
	CHECK(float_at(vgpu, block) == 4);
	vg_execution_destroy(execution);
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

TEST(shares_change_while_work_runs)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu_options options = {.size = sizeof options, .memory_limit = 64 * MIB, .compute_units = 4};
	struct vg_virtual_gpu *vgpu, *other;

	OK(vg_virtual_gpu_create(manager, &options, &vgpu));
	CHECK(info_of(vgpu).compute_share == 0.25); // 4 of 16 virtual compute units (the unit of shares)
	options.compute_units = 0;
	options.compute_share = 0.5;
	OK(vg_virtual_gpu_create(manager, &options, &other));
	CHECK(manager_info(manager).share_promised == 0.75);
	REFUSED(vg_virtual_gpu_set_compute_share(vgpu, 0.6), VG_LIMIT, "0.5 is left");
	REFUSED(vg_virtual_gpu_set_compute_share(vgpu, 0), VG_INVALID, "share");
	REFUSED(vg_virtual_gpu_set_compute_share(vgpu, -1), VG_INVALID, "share");
	REFUSED(vg_virtual_gpu_scale_compute_units(vgpu, 17), VG_INVALID, "17");
	REFUSED(vg_virtual_gpu_scale_compute_units(vgpu, 0), VG_INVALID, "0 compute units");
	OK(vg_virtual_gpu_set_compute_share(vgpu, 0.5));
	OK(vg_virtual_gpu_scale_compute_units(other, 2));
	CHECK(info_of(vgpu).compute_share == 0.5 && info_of(other).compute_share == 0.125);
	vg_virtual_gpu_destroy(vgpu);
	vg_virtual_gpu_destroy(other);
	vg_manager_destroy(manager);
}

TEST(utilization_is_measured_or_unknown)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 64 * MIB);
	vg_address block = allocate(vgpu, MIB);

	if (info_of(vgpu).compute_utilization_known)
		// No work has run yet, so the utilization is 0.
		CHECK(info_of(vgpu).compute_utilization == 0);
	struct vg_virtual_gpu_info info = {0};
	for (time_t end = time(NULL) + 10; time(NULL) < end;) { // waits for some measuring intervals of 100 ms
		vg_execution_destroy(fill(vgpu, 0, block, 1, MIB / 4, 20));
		OK(vg_virtual_gpu_sync(vgpu, 0, 0));
		info = info_of(vgpu);
		if (info.compute_utilization_known && info.compute_utilization > 0)
			break;
	}
	CHECK(info.compute_utilization_known);
	CHECK(info.compute_utilization > 0 && info.compute_utilization <= 1);
	CHECK(manager_info(manager).utilization_known);
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

TEST(direct_work_goes_straight_to_the_driver)
{
	const struct vg_manager_options options = {.size = sizeof options, .no_compute_virtualization = 1};
	struct vg_manager *manager = open_manager(&options);
	struct vg_virtual_gpu_options share = {.size = sizeof share, .memory_limit = 64 * MIB, .compute_share = 0.8};
	struct vg_virtual_gpu *vgpu, *other;

	OK(vg_virtual_gpu_create(manager, &share, &vgpu));
	// Without virtual compute, the sum of shares is not limited.
	OK(vg_virtual_gpu_create(manager, &share, &other));
	vg_address block = allocate(vgpu, 4096), more = allocate(other, 4096);
	vg_execution_destroy(fill(vgpu, 0, block, 1, 1024, 1));
	vg_execution_destroy(fill(vgpu, 0, block, 2, 1024, 1));
	vg_execution_destroy(fill(other, 0, more, 3, 1024, 1));
	OK(vg_virtual_gpu_sync_all(vgpu, 0));
	OK(vg_virtual_gpu_sync_all(other, 0));
	CHECK(float_at(vgpu, block) == 2 && float_at(other, more) == 3);
	CHECK(info_of(vgpu).compute_share == 0 && !info_of(vgpu).compute_utilization_known);
	CHECK(!manager_info(manager).utilization_known && !manager_info(manager).compute_virtualized);
	REFUSED(vg_virtual_gpu_set_compute_share(vgpu, 0.5), VG_UNSUPPORTED, "no shares");
	OK(vg_virtual_gpu_pause(vgpu));
	REFUSED(try_fill(vgpu, 0, block, 1, 1, 1, NULL), VG_STATE, "resume it first");
	OK(vg_virtual_gpu_resume(vgpu));
	OK(try_fill(vgpu, 0, block, 1, 1, 1, NULL));
	vg_virtual_gpu_destroy(vgpu);
	vg_virtual_gpu_destroy(other);
	vg_manager_destroy(manager);
}

TEST(a_manager_restricts_its_vgpus)
{
	const struct vg_manager_options options = {.size = sizeof options, .no_tensor_cores = 1};
	struct vg_manager *manager = open_manager(&options);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 64 * MIB);

	CHECK(!info_of(vgpu).tensor_cores && info_of(vgpu).mixed_precision);
	REFUSED(vg_virtual_gpu_set_tensor_cores(vgpu, 1), VG_STATE, "allows no tensor cores");
	OK(vg_virtual_gpu_set_tensor_cores(vgpu, 0));
	OK(vg_virtual_gpu_set_mixed_precision(vgpu, 0));
	CHECK(!info_of(vgpu).mixed_precision);
	OK(vg_virtual_gpu_set_mixed_precision(vgpu, 1));
	CHECK(info_of(vgpu).mixed_precision);
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

// A kernel's fault ends the context for all virtual GPUs. No call may hang, and all calls must report the fault. Runs
// in a child process.
TEST(a_fault_fails_all_virtual_gpus)
{
	struct vg_manager *manager = open_manager(NULL), *other = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 1, 64 * MIB), *bystander = new_vgpu(manager, 2, 64 * MIB),
			      *elsewhere = new_vgpu(other, 1, 64 * MIB);
	vg_address address;

	allocate(vgpu, MIB);
	struct vg_execution *execution = fill(vgpu, 0, 8, 1, 1, 1);
	CHECK_INT(vg_execution_wait(execution, 10), VG_DRIVER);
	CHECK_INT(vg_execution_state(execution), VG_EXECUTION_FAILED);
	CHECK_INT(vg_manager_status(manager, 1), VG_VIRTUAL_GPU_ERROR);
	CHECK_INT(vg_manager_status(manager, 2), VG_VIRTUAL_GPU_ERROR);
	CHECK_INT(vg_manager_status(other, 1), VG_VIRTUAL_GPU_ERROR);
	REFUSED(vg_virtual_gpu_allocate(bystander, 32 * MIB, 0, &address), VG_STATE, "context is lost");
	REFUSED(vg_virtual_gpu_pause(bystander), VG_STATE, "context is lost");
	CHECK_INT(vg_virtual_gpu_sync_all(bystander, 1), VG_DRIVER);
	CHECK(vg_virtual_gpu_close(vgpu) != VG_OK);
	CHECK_INT(vg_manager_status(manager, 1), VG_VIRTUAL_GPU_DESTROYED);
	CHECK_INT(manager_info(manager).memory_held, 0);
	vg_execution_destroy(execution);
	vg_virtual_gpu_destroy(elsewhere);
	vg_virtual_gpu_destroy(bystander);
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(other);
	vg_manager_destroy(manager);
}
