// The balancer over real managers and schedulers: binding, devices, migration of what is queued, shares.
#include "work_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <time.h>

enum { COUNT = 4096 };

struct job {
	struct vg_balanced *balanced;
	struct vg_virtual_gpu *vgpu; // that it was bound to, with a reference
	vg_address block;
	float value;
	atomic_uint ended;
};

// How often the same is to be done so that it takes a while: a GPU is some hundred times as fast as the simulated one.
static unsigned often(unsigned simulated, unsigned hardware)
{
	return getenv("VIRGATE_SIM") ? simulated : hardware;
}

static void wait_ms(unsigned ms)
{
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

// Its output is a block of the virtual GPU that it came to.
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

// It was done where it was bound.
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

static struct vg_balancer *open_balancer(struct vg_manager *const *managers, size_t count,
					 const struct vg_balancer_options *options)
{
	struct vg_balancer *balancer;

	OK(vg_balancer_create(managers, count, options, &balancer));
	return balancer;
}

TEST(work_without_a_virtual_gpu_goes_to_one)
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
		CHECK(done >= 2 && done <= 22); // both had some
		vg_balancer_destroy(balancer);
	}
	CHECK_INT(info_of(one).memory_allocated + info_of(two).memory_allocated, 0);
	vg_virtual_gpu_destroy(one);
	vg_virtual_gpu_destroy(two);
	vg_manager_destroy(manager);
}

TEST(what_cannot_run_fails_with_its_reason)
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
	work.kernel = "fill"; // without its arguments
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

// One virtual GPU's own queue is long, and the other one of the device idles.
TEST(queued_work_of_one_runs_in_the_turns_of_another)
{
	struct vg_balancer_options options = {.size = sizeof options, .manual = 1};
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *one = new_vgpu(manager, 1, 64 * MIB), *two = new_vgpu(manager, 2, 64 * MIB);
	struct vg_balancer *balancer = open_balancer(&manager, 1, &options);
	vg_address block = allocate(one, 1 << 20);
	struct vg_balancing_entry entry;
	struct vg_execution *last = NULL;
	size_t taken, count;

	for (int i = 0; i < 200; i++) {
		vg_execution_destroy(last);
		last = fill(one, (unsigned)i % 4, block, 2.0f, 1 << 18, often(4, 2000));
	}
	OK(vg_balancer_rebalance(balancer, &taken));
	CHECK_INT(taken, 1);
	OK(vg_balancer_log(balancer, &entry, 1, &count));
	CHECK(entry.action == VG_ACTION_MIGRATE && entry.from == 1 && entry.to == 2 && entry.amount >= 10);
	CHECK_CONTAINS(entry.why, "vgpu-1 has ");
	OK(vg_virtual_gpu_sync_all(one, 60)); // it waits for all that was submitted to it
	CHECK(float_at(one, block) == 2.0f && float_at(one, block + (1 << 20) - 4) == 2.0f);
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

static struct vg_virtual_gpu *with_share(struct vg_manager *manager, int id, double share)
{
	const struct vg_virtual_gpu_options options = {
		.size = sizeof options, .id = id, .memory_limit = 64 * MIB, .compute_share = share};
	struct vg_virtual_gpu *vgpu;

	OK(vg_virtual_gpu_create(manager, &options, &vgpu));
	return vgpu;
}

TEST(shares_are_lent_and_come_back)
{
	struct vg_balancer_options options = {.size = sizeof options, .manual = 1, .forbidden = VG_ACTION_MIGRATE};
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *one = with_share(manager, 1, 0.3), *two = with_share(manager, 2, 0.7);
	struct vg_balancer *balancer = open_balancer(&manager, 1, &options);
	vg_address block = allocate(one, 1 << 20), other = allocate(two, 4096);
	size_t taken;

	vg_execution_destroy(fill(two, 0, other, 1, 1024, 1)); // so that its use is known
	OK(vg_virtual_gpu_sync_all(two, 60));
	// Work enough for as long as it takes; what is left is cancelled with its virtual GPU.
	for (int i = 0; i < 4000; i++)
		OK(try_fill(one, (unsigned)i % 4, block, 2.0f, 1 << 18, 100, NULL));
	for (int i = 0; i < 1000 && share_of(one) == 0.3; i++) {
		OK(vg_balancer_rebalance(balancer, NULL));
		wait_ms(10);
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
	OK(vg_virtual_gpu_close(one));
	vg_virtual_gpu_destroy(one);
	vg_virtual_gpu_destroy(two);
	vg_manager_destroy(manager);
}

// Of two devices where there are two; else two managers of one.
TEST(several_managers_share_the_work)
{
	struct vg_balancer_options options = {
		.size = sizeof options, .strategy = VG_BALANCE_ROUND_ROBIN, .interval_ms = 5};
	struct vg_manager *managers[2];
	struct vg_virtual_gpu *vgpus[2];
	struct vg_device *device;
	static struct job jobs[200];
	unsigned moves = 0;
	int devices;

	memset(jobs, 0, sizeof jobs);
	OK(vg_device_count(&devices));
	for (int i = 0; i < 2; i++) {
		OK(vg_device_get(i % devices, &device));
		OK(vg_manager_create(device, NULL, &managers[i]));
		vgpus[i] = new_vgpu(managers[i], 1, 64 * MIB);
	}
	struct vg_balancer *balancer = open_balancer(managers, 2, &options);
	for (int i = 0; i < 200; i++) {
		jobs[i].value = (float)i;
		submit(balancer, &jobs[i], often(20, 5000));
		if (i == 100) // what waits for it and is bound nowhere goes to the other one
			OK(vg_virtual_gpu_pause(vgpus[0]));
	}
	for (int i = 0; i < 3000 && info_of(vgpus[1]).completed < 120; i++)
		wait_ms(10);
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
	for (int i = 0; i < 2; i++) {
		vg_virtual_gpu_destroy(vgpus[i]);
		vg_manager_destroy(managers[i]);
	}
}

static atomic_bool coming;

static void *come_and_go(void *user)
{
	struct vg_manager *manager = user;

	for (int i = 0; coming; i++) {
		struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 16 * MIB);
		wait_ms(3);
		if (i % 3 == 0)
			OK(vg_virtual_gpu_pause(vgpu));
		wait_ms(2);
		OK(vg_virtual_gpu_close(vgpu));
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
		// Cancelled, or its virtual GPU was closed before or after it was bound.
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

TEST(virtual_gpus_come_and_go_under_work)
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
	CHECK_INT(pthread_create(&goes, NULL, come_and_go, manager), 0);
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

TEST(a_forked_child_has_no_balancer)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 1, 64 * MIB);
	struct vg_balancer *balancer = open_balancer(&manager, 1, NULL);
	int status;

	pid_t child = fork();
	if (child == 0) {
		struct vg_balancer_info info;
		bool refused = vg_balancer_info(balancer, &info) == VG_STATE &&
			       vg_balancer_rebalance(balancer, NULL) == VG_STATE &&
			       vg_balancer_close(balancer) == VG_STATE;
		vg_balancer_destroy(balancer); // without its thread, and without waiting for it
		_exit(refused ? 0 : 1);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	vg_balancer_destroy(balancer);
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}
