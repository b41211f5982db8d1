// Tests the balancer with real managers and schedulers: binding, several devices, and virtual GPUs that are created and
// closed meanwhile.
#include "balancer_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { COUNT = 4096 };

struct job {
	struct vg_balanced *balanced;
	// The virtual GPU to which the job was bound, with a reference.
	struct vg_virtual_gpu *vgpu;
	vg_address block;
	float value;
	atomic_uint ended;
};

// Allocates the job's output in the virtual GPU to which the job is bound.
static enum vg_status bind_job(void *user, struct vg_virtual_gpu *vgpu, void *const *values, size_t count)
{
	struct job *job = user;

	enum vg_status status = vg_virtual_gpu_allocate(vgpu, COUNT * sizeof(float), 0, &job->block);
	if (status)
		return status;
	job->vgpu = vg_virtual_gpu_retain(vgpu);
	memcpy(values[0], &job->block, sizeof job->block);
	return VG_OK;
}

static void note_end(void *user, enum vg_execution_state state)
{
	((struct job *)user)->ended++;
}

static void submit(struct vg_balancer *balancer, struct job *job, unsigned repeat)
{
	const uint64_t count = COUNT;
	const struct vg_argument arguments[] = {
		{NULL, sizeof(vg_address)}, VG_ARGUMENT(job->value), VG_ARGUMENT(count)};
	const struct vg_balanced_work work = {.size = sizeof work,
					      .kernel = "fill",
					      .config = {.grid = {4}, .block = {64}},
					      .arguments = arguments,
					      .argument_count = 3,
					      .repeat = repeat,
					      .bind = bind_job,
					      .ended = note_end,
					      .user = job};

	OK(vg_balancer_execute(balancer, &work, &job->balanced));
}

// Checks that the job ran in the virtual GPU to which it was bound.
static void check_job(struct job *job)
{
	OK(vg_balanced_wait(job->balanced, 60));
	CHECK_INT(job->ended, 1);
	CHECK(float_at(job->vgpu, job->block) == job->value);
	CHECK(float_at(job->vgpu, job->block + (COUNT - 1) * sizeof(float)) == job->value);
	OK(vg_virtual_gpu_free(job->vgpu, job->block));
	vg_virtual_gpu_destroy(job->vgpu);
	vg_balanced_destroy(job->balanced);
}

TEST(unassigned_work_runs_on_a_virtual_gpu)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *one = new_vgpu(manager, 1, 64 * MIB), *two = new_vgpu(manager, 2, 64 * MIB);

	for (enum vg_balancing strategy = VG_BALANCE_LEAST_LOADED; strategy <= VG_BALANCE_WEIGHTED; strategy++) {
		struct vg_balancer_options options = {.size = sizeof options, .strategy = strategy};
		struct vg_balancer *balancer = open_balancer(&manager, 1, &options);
		struct job jobs[24] = {0};
		uint64_t before = info_of(one).completed;
		for (int i = 0; i < 24; i++) {
			jobs[i].value = (float)i;
			submit(balancer, &jobs[i], 1);
		}
		for (int i = 0; i < 24; i++)
			check_job(&jobs[i]);
		uint64_t done = info_of(one).completed - before;
		CHECK(done >= 2 && done <= 22); // both virtual GPUs completed some jobs
		vg_balancer_destroy(balancer);
	}
	CHECK_INT(info_of(one).memory_allocated + info_of(two).memory_allocated, 0);
	vg_virtual_gpu_destroy(one);
	vg_virtual_gpu_destroy(two);
	vg_manager_destroy(manager);
}

TEST(invalid_work_fails_with_a_reason)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 1, 64 * MIB);
	struct vg_balancer *balancer = open_balancer(&manager, 1, NULL);
	struct vg_balanced_work work = {
		.size = sizeof work, .kernel = "no_such_kernel", .config = {.grid = {1}, .block = {1}}};
	struct vg_balanced *balanced;

	OK(vg_balancer_execute(balancer, &work, &balanced));
	REFUSED(vg_balanced_wait(balanced, 10), VG_NOT_FOUND, "no_such_kernel");
	CHECK_INT(vg_balanced_state(balanced), VG_EXECUTION_FAILED);
	vg_balanced_destroy(balanced);
	work.kernel = "fill"; // the arguments of the kernel are missing
	OK(vg_balancer_execute(balancer, &work, &balanced));
	CHECK_INT(vg_balanced_wait(balanced, 10), VG_INVALID);
	vg_balanced_destroy(balanced);
	OK(vg_virtual_gpu_pause(vgpu));
	REFUSED(vg_balancer_execute(balancer, &work, &balanced), VG_STATE, "vgpu-1 is paused");
	OK(vg_virtual_gpu_close(vgpu));
	REFUSED(vg_balancer_execute(balancer, &work, &balanced), VG_NOT_FOUND, "no virtual GPU");
	vg_virtual_gpu_destroy(vgpu);
	OK(vg_manager_close(manager));
	REFUSED(vg_balancer_execute(balancer, &work, &balanced), VG_NOT_FOUND, "no virtual GPU");
	REFUSED(vg_balancer_add(balancer, manager), VG_CLOSED, "manager");
	vg_manager_destroy(manager);
	vg_balancer_destroy(balancer);
}

// Opens managers of two devices, or two managers of one device if there is only one.
static void open_two(struct vg_manager **managers, struct vg_virtual_gpu **vgpus)
{
	struct vg_device *device;
	int devices;

	OK(vg_device_count(&devices));
	for (int i = 0; i < 2; i++) {
		OK(vg_device_get(i % devices, &device));
		OK(vg_manager_create(device, NULL, &managers[i]));
		vgpus[i] = new_vgpu(managers[i], 1, 64 * MIB);
	}
}

static void close_two(struct vg_manager **managers, struct vg_virtual_gpu **vgpus)
{
	for (int i = 0; i < 2; i++) {
		vg_virtual_gpu_destroy(vgpus[i]);
		vg_manager_destroy(managers[i]);
	}
}

TEST(work_is_spread_over_several_managers)
{
	struct vg_balancer_options options = {
		.size = sizeof options, .strategy = VG_BALANCE_ROUND_ROBIN, .interval_ms = 5};
	struct vg_manager *managers[2];
	struct vg_virtual_gpu *vgpus[2];
	static struct job jobs[200];
	unsigned moves = 0;

	memset(jobs, 0, sizeof jobs);
	open_two(managers, vgpus);
	struct vg_balancer *balancer = open_balancer(managers, 2, &options);
	for (int i = 0; i < 200; i++) {
		jobs[i].value = (float)i;
		submit(balancer, &jobs[i], scale_repeats(20, 5000));
		// This virtual GPU is paused now. Jobs that are not bound to it yet move to the other virtual GPU.
		if (i == 100)
			OK(vg_virtual_gpu_pause(vgpus[0]));
	}
	for (int i = 0; i < 3000 && info_of(vgpus[1]).completed < 120; i++)
		pause_ms(10);
	CHECK(info_of(vgpus[1]).completed >= 120);
	OK(vg_virtual_gpu_resume(vgpus[0]));
	for (int i = 0; i < 200; i++) {
		struct vg_balanced_info info;
		OK(vg_balanced_wait(jobs[i].balanced, 60));
		OK(vg_balanced_info(jobs[i].balanced, &info));
		CHECK(vg_virtual_gpu_manager(jobs[i].vgpu) == managers[info.manager] && info.id == 1);
		moves += info.moves;
		check_job(&jobs[i]);
	}
	CHECK(moves > 0);
	CHECK_INT(info_of(vgpus[0]).completed + info_of(vgpus[1]).completed, 200);
	vg_balancer_destroy(balancer);
	close_two(managers, vgpus);
}

static atomic_bool coming;

static void *create_and_close(void *user)
{
	struct vg_manager *manager = user;

	for (int i = 0; coming; i++) {
		struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 16 * MIB);
		pause_ms(3);
		if (i % 3 == 0)
			OK(vg_virtual_gpu_pause(vgpu));
		pause_ms(2);
		OK(vg_virtual_gpu_end(vgpu));
		vg_virtual_gpu_destroy(vgpu);
	}
	return NULL;
}

static void *keep_working(void *user)
{
	struct vg_balancer *balancer = user;

	for (int i = 0; i < 60; i++) {
		struct job job = {.value = (float)i};
		submit(balancer, &job, 2);
		if (i % 7 == 0)
			(void)vg_balanced_cancel(job.balanced);
		enum vg_status status = vg_balanced_wait(job.balanced, 60);
		// If the job failed, it was cancelled, or its virtual GPU was closed before or after the binding.
		if (status != VG_OK && status != VG_STATE && status != VG_CLOSED)
			FAIL("%s: %s", vg_status_text(status), vg_last_error()->text);
		CHECK_INT(job.ended, 1);
		if (job.vgpu)
			(void)vg_virtual_gpu_free(job.vgpu, job.block);
		vg_virtual_gpu_destroy(job.vgpu);
		vg_balanced_destroy(job.balanced);
	}
	return NULL;
}

TEST(virtual_gpus_are_created_and_closed_under_load)
{
	struct vg_balancer_options options = {.size = sizeof options, .interval_ms = 2};
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *stays = new_vgpu(manager, 0, 64 * MIB);
	struct vg_balancer *balancer = open_balancer(&manager, 1, &options);
	struct vg_monitor *monitor;
	struct vg_balancer_info info;
	pthread_t goes, works[3];

	OK(vg_monitor_create(manager,
			     &(struct vg_monitor_options){.size = sizeof(struct vg_monitor_options), .interval_ms = 1},
			     &monitor));
	coming = true;
	CHECK_INT(pthread_create(&goes, NULL, create_and_close, manager), 0);
	for (int i = 0; i < 3; i++)
		CHECK_INT(pthread_create(&works[i], NULL, keep_working, balancer), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(works[i], NULL);
	coming = false;
	pthread_join(goes, NULL);
	OK(vg_balancer_info(balancer, &info));
	CHECK(info.submitted == 180 && info.completed + info.failed + info.cancelled == 180);
	CHECK(info.completed > 60);
	vg_balancer_destroy(balancer);
	vg_monitor_destroy(monitor);
	CHECK_INT(info_of(stays).memory_allocated, 0);
	vg_virtual_gpu_destroy(stays);
	vg_manager_destroy(manager);
}

TEST(balancer_calls_fail_in_a_forked_child)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 1, 64 * MIB);
	struct vg_balancer *balancer = open_balancer(&manager, 1, NULL);

	pid_t child = fork();
	if (child == 0) {
		struct vg_balancer_info info;
		bool refused = vg_balancer_info(balancer, &info) == VG_STATE &&
			       vg_balancer_rebalance(balancer, NULL) == VG_STATE &&
			       vg_balancer_close(balancer) == VG_STATE;
		// The balancer's thread does not exist in a forked child, so destroying the balancer must not wait for
		// that thread.
		vg_balancer_destroy(balancer);
		_exit(refused ? 0 : 1);
	}
	CHECK_CHILD(child);
	vg_balancer_destroy(balancer);
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

// This must be the last test, because a fault ends the GPU work of the process.
TEST(a_fault_fails_work_of_all_managers)
{
	struct vg_balancer_options options = {
		.size = sizeof options, .strategy = VG_BALANCE_ROUND_ROBIN, .interval_ms = 5};
	struct vg_manager *managers[2];
	struct vg_virtual_gpu *vgpus[2];
	struct vg_balancer_info info;
	static struct job jobs[200], late;
	unsigned failed = 0;

	open_two(managers, vgpus);
	struct vg_balancer *balancer = open_balancer(managers, 2, &options);
	for (int i = 0; i < 200; i++)
		submit(balancer, &jobs[i], scale_repeats(20, 5000));
	OK(vg_virtual_gpu_pause(vgpus[0])); // the work of this virtual GPU waits until the fault
	struct vg_execution *bad = fill(vgpus[1], 3, 8, 1, 1, 1);
	CHECK_INT(vg_execution_wait(bad, 60), VG_DRIVER);
	for (int i = 0; i < 200; i++) {
		enum vg_status status = vg_balanced_wait(jobs[i].balanced, 60);
		CHECK(status == VG_OK || status == VG_DRIVER || status == VG_STATE);
		if (status) {
			CHECK_CONTAINS(vg_last_error()->text, "restart the process");
			failed++;
		}
		CHECK_INT(jobs[i].ended, 1);
		vg_virtual_gpu_destroy(jobs[i].vgpu);
		vg_balanced_destroy(jobs[i].balanced);
	}
	CHECK(failed > 0);
	const struct vg_balanced_work work = {
		.size = sizeof work, .kernel = "empty", .config = {.grid = {1}, .block = {1}}};
	REFUSED(vg_balancer_execute(balancer, &work, &late.balanced), VG_STATE, "restart the process");
	OK(vg_balancer_info(balancer, &info));
	CHECK(info.failed == failed && info.completed == 200 - failed);
	vg_execution_destroy(bad);
	vg_balancer_destroy(balancer);
	close_two(managers, vgpus);
}
