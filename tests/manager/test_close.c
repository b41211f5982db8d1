// Checks that closing virtual GPUs and managers fails without any change while they have work, and that ending them
// cancels the work.
#include "work_test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

static atomic_uint block_messages, work_messages;
static char told[256];

static void listen(void *user, enum vg_log_level level, const char *text)
{
	if (level != VG_LOG_WARNING || !text)
		return;
	if (strstr(text, "blocks")) {
		atomic_fetch_add(&block_messages, 1);
		snprintf(told, sizeof told, "%s", text);
	}
	if (strstr(text, "executions"))
		atomic_fetch_add(&work_messages, 1);
}

static void start_listening(void)
{
	atomic_store(&block_messages, 0);
	atomic_store(&work_messages, 0);
	vg_log_set(listen, NULL);
}

TEST(closing_fails_while_work_is_queued)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 64 * MIB);
	vg_address block = allocate(vgpu, 4096);
	struct vg_execution *executions[5];

	OK(vg_virtual_gpu_pause(vgpu));
	for (unsigned i = 0; i < 5; i++)
		executions[i] = fill(vgpu, i % 2, block + i * 4, (float)i + 1, 1, 1);
	for (int i = 0; i < 2; i++) {
		REFUSED(vg_virtual_gpu_close(vgpu), VG_BUSY,
			"work in \"vgpu-1\", which is paused: 5 queued, 0 running");
		CHECK_CONTAINS(vg_last_error()->text, "vg_virtual_gpu_end()");
		CHECK_STR(vg_last_error()->function, "vg_virtual_gpu_close");
	}
	struct vg_virtual_gpu_info info = info_of(vgpu);
	CHECK(info.status == VG_VIRTUAL_GPU_PAUSED && info.queue_length == 5 && info.active_streams == 2);
	CHECK(info.cancelled == 0 && info.memory_allocated == 4096);
	// the refused close has changed nothing, so the virtual GPU can still be used
	vg_address more = allocate(vgpu, 4096);
	struct vg_execution *later = fill(vgpu, 2, more, 9, 1, 1);
	OK(vg_virtual_gpu_resume(vgpu));
	OK(vg_execution_wait(later, 60));
	for (unsigned i = 0; i < 5; i++) {
		OK(vg_execution_wait(executions[i], 60));
		CHECK(float_at(vgpu, block + i * 4) == (float)i + 1);
		vg_execution_destroy(executions[i]);
	}
	CHECK_INT(info_of(vgpu).completed, 6);
	CHECK_INT(info_of(vgpu).cancelled, 0);
	OK(vg_virtual_gpu_close(vgpu));
	REFUSED(try_fill(vgpu, 0, block, 4, 1, 1, NULL), VG_CLOSED, "destroyed");
	OK(vg_virtual_gpu_close(vgpu));
	OK(vg_virtual_gpu_end(vgpu));
	vg_execution_destroy(later);
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

// Tries to close a virtual GPU while it has running work. Returns whether the close was refused. If it was not, the
// work had ended before, and the caller must repeat the test with more work.
static bool close_running(const struct vg_manager_options *options, unsigned repeat)
{
	struct vg_manager *manager = open_manager(options);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 64 * MIB);
	struct vg_execution *execution = fill(vgpu, 0, allocate(vgpu, 65536), 1, 16384, repeat);

	while (vg_execution_state(execution) == VG_EXECUTION_QUEUED)
		sched_yield();
	enum vg_status status = vg_virtual_gpu_close(vgpu);
	if (status)
		REFUSED(status, VG_BUSY, "work in \"vgpu-1\": 0 queued, 1 running");
	// Whether or not the close was refused, the running work must complete.
	OK(vg_execution_wait(execution, 120));
	OK(vg_virtual_gpu_close(vgpu)); // all work has ended
	vg_execution_destroy(execution);
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
	return status == VG_BUSY;
}

TEST(closing_fails_while_work_is_running)
{
	const struct vg_manager_options direct = {.size = sizeof direct, .no_compute_virtualization = 1};
	unsigned repeat = 20;

	while (!(close_running(NULL, repeat) && close_running(&direct, repeat)) && repeat < 1u << 24)
		repeat *= 4; // faster devices need more work
	CHECK(repeat < 1u << 24);
}

static void *wait_for_work(void *data)
{
	return (void *)(intptr_t)vg_virtual_gpu_sync_all(data, 0);
}

TEST(ending_cancels_queued_work)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 64 * MIB);
	vg_address block = allocate(vgpu, 4096);
	pthread_t waiter;
	void *said;

	OK(vg_virtual_gpu_pause(vgpu));
	struct vg_execution *execution = fill(vgpu, 0, block, 4, 1024, 1);
	vg_execution_destroy(fill(vgpu, 1, block, 4, 1024, 1));
	CHECK_INT(pthread_create(&waiter, NULL, wait_for_work, vgpu), 0);
	CHECK_INT(vg_virtual_gpu_close(vgpu), VG_BUSY);
	start_listening();
	OK(vg_virtual_gpu_end(vgpu));
	vg_log_set(NULL, NULL);
	CHECK_INT(work_messages, 1);
	// Ending a virtual GPU logs one message about its blocks, with the name of the virtual GPU.
	CHECK_INT(block_messages, 1);
	CHECK_CONTAINS(told, "virtual GPU 1 (vgpu-1)");
	CHECK_INT(pthread_join(waiter, &said), 0);
	CHECK_INT((intptr_t)said, VG_CLOSED);
	CHECK_INT(vg_execution_state(execution), VG_EXECUTION_CANCELLED);
	REFUSED(vg_execution_wait(execution, 0), VG_STATE, "cancelled");
	REFUSED(try_fill(vgpu, 0, block, 4, 1, 1, NULL), VG_CLOSED, "destroyed");
	REFUSED(vg_virtual_gpu_end(NULL), VG_INVALID, "vgpu is NULL");
	vg_execution_destroy(execution);
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

TEST(the_last_release_cancels_work_and_logs_it)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 7, 64 * MIB);
	vg_address block = allocate(vgpu, 4096);

	OK(vg_virtual_gpu_pause(vgpu));
	struct vg_execution *execution = fill(vgpu, 0, block, 4, 1024, 1);
	start_listening();
	vg_virtual_gpu_destroy(vgpu);
	vg_log_set(NULL, NULL);
	CHECK_INT(work_messages, 1);
	CHECK_INT(vg_execution_state(execution), VG_EXECUTION_CANCELLED);
	CHECK_INT(vg_manager_status(manager, 7), VG_VIRTUAL_GPU_DESTROYED);
	vg_execution_destroy(execution);
	vg_manager_destroy(manager);
}

TEST(a_manager_closes_all_of_its_vgpus_or_none)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *idle = new_vgpu(manager, 0, 32 * MIB), *paused = new_vgpu(manager, 0, 32 * MIB),
			      *other = new_vgpu(manager, 0, 32 * MIB);
	vg_address block = allocate(paused, 4096), more = allocate(other, 4096);

	OK(vg_virtual_gpu_pause(paused));
	OK(vg_virtual_gpu_pause(other));
	struct vg_execution *one = fill(paused, 0, block, 1, 1, 1), *two = fill(paused, 1, block, 2, 1, 1),
			    *three = fill(other, 0, more, 3, 1, 1);
	REFUSED(vg_manager_close(manager), VG_BUSY, "work in \"vgpu-2\" and 1 other: 3 queued, 0 running");
	CHECK_CONTAINS(vg_last_error()->text, "vg_manager_end()");
	OK(vg_virtual_gpu_free(idle, allocate(idle, 4096)));
	// The manager can still create virtual GPUs.
	vg_virtual_gpu_destroy(new_vgpu(manager, 0, 8 * MIB));
	CHECK_INT(manager_info(manager).virtual_gpus, 3);
	CHECK_INT(vg_manager_status(manager, 2), VG_VIRTUAL_GPU_PAUSED);
	OK(vg_virtual_gpu_resume(other));
	OK(vg_execution_wait(three, 60));
	REFUSED(vg_manager_close(manager), VG_BUSY, "work in \"vgpu-2\", which is paused: 2 queued, 0 running");
	OK(vg_execution_cancel(one));
	OK(vg_execution_cancel(two));
	OK(vg_manager_close(manager));
	OK(vg_manager_end(manager));
	CHECK_INT(vg_manager_status(manager, 1), VG_VIRTUAL_GPU_DESTROYED);
	REFUSED(vg_manager_end(NULL), VG_INVALID, "manager is NULL");
	vg_execution_destroy(one);
	vg_execution_destroy(two);
	vg_execution_destroy(three);
	vg_virtual_gpu_destroy(other);
	vg_virtual_gpu_destroy(paused);
	vg_virtual_gpu_destroy(idle);
	vg_manager_destroy(manager);
}

TEST(ending_a_manager_cancels_all_work)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 32 * MIB);
	vg_address block = allocate(vgpu, 4096);

	OK(vg_virtual_gpu_pause(vgpu));
	struct vg_execution *execution = fill(vgpu, 0, block, 1, 1, 1);
	OK(vg_manager_end(manager));
	CHECK_INT(vg_execution_state(execution), VG_EXECUTION_CANCELLED);
	REFUSED(try_fill(vgpu, 0, block, 4, 1, 1, NULL), VG_CLOSED, "destroyed");
	vg_execution_destroy(execution);
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

// ---- others submit meanwhile ---------------------------------------------------------------------------

struct submitter {
	struct vg_virtual_gpu *vgpu;
	vg_address block;
	unsigned stream, accepted, completed;
};

// Submits one execution at a time and waits for it, so that there are moments without work in which closing succeeds.
static void *submit_until_closed(void *user)
{
	struct submitter *submitter = user;
	struct vg_execution *execution;
	enum vg_status status;

	while ((status = try_fill(submitter->vgpu, submitter->stream, submitter->block, 1, 16, 1, &execution)) ==
	       VG_OK) {
		submitter->accepted++;
		submitter->completed += vg_execution_wait(execution, 60) == VG_OK;
		vg_execution_destroy(execution);
	}
	CHECK_INT(status, VG_CLOSED);
	return NULL;
}

// Closes a virtual GPU, or the manager if `all`, while threads submit work. All work that was accepted must complete. A
// race in closing would cancel some of it.
static void close_under_submitters(struct vg_manager *manager, bool all)
{
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 16 * MIB);
	struct submitter submitters[2];
	pthread_t threads[2];
	enum vg_status status;

	for (unsigned i = 0; i < 2; i++) {
		submitters[i] = (struct submitter){.vgpu = vgpu, .block = allocate(vgpu, 64), .stream = i};
		CHECK_INT(pthread_create(&threads[i], NULL, submit_until_closed, &submitters[i]), 0);
	}
	while ((status = all ? vg_manager_close(manager) : vg_virtual_gpu_close(vgpu)) == VG_BUSY)
		sched_yield();
	CHECK_INT(status, VG_OK);
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		CHECK_INT(submitters[i].completed, submitters[i].accepted);
	}
	vg_virtual_gpu_destroy(vgpu);
}

TEST(accepted_work_completes_despite_a_close)
{
	struct vg_manager *manager = open_manager(NULL);

	for (int i = 0; i < 20; i++)
		close_under_submitters(manager, false);
	close_under_submitters(manager, true);
	vg_manager_destroy(manager);
}
