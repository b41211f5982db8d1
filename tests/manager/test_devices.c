// Tests managers of two devices in one program, which are independent of each other except for faults.
#include "work_test.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>

struct pair {
	struct vg_manager *managers[2];
	struct vg_virtual_gpu *vgpus[2];
};

static bool open_pair(struct pair *pair, uint64_t limit)
{
	struct vg_device *device;
	int count;

	OK(vg_device_count(&count));
	for (int i = 0; i < 2 && count > 1; i++) {
		OK(vg_device_get(i, &device));
		OK(vg_manager_create(device, NULL, &pair->managers[i]));
		pair->vgpus[i] = new_vgpu(pair->managers[i], 0, limit);
	}
	return count > 1;
}
#define NEEDS_TWO(pair, limit)                               \
	do {                                                 \
		if (!open_pair(pair, limit))                 \
			SKIP("this machine has one device"); \
	} while (0)

static void close_pair(struct pair *pair)
{
	for (int i = 0; i < 2; i++) {
		vg_virtual_gpu_destroy(pair->vgpus[i]);
		vg_manager_destroy(pair->managers[i]);
	}
}

// ---- a fault of the second device, in a child process, before this process uses the driver -------------------

// Checks that the call fails with an error that names the cause and says what to do, also on the device without the
// fault.
#define IS_LOST(call, status) REFUSED(call, status, "executions were running on device 1; restart the process")

static void fault_while_the_first_is_paused(void)
{
	struct vg_execution *queued;
	struct vg_compute_info info;
	struct pair pair;
	vg_address block, more;
	float value;

	NEEDS_TWO(&pair, 64 * MIB);
	block = allocate(pair.vgpus[0], 4096);
	OK(vg_virtual_gpu_pause(pair.vgpus[0]));
	// The virtual GPU is paused, so this work is not submitted to the device and does not notice the fault by
	// itself.
	queued = fill(pair.vgpus[0], 1, block, 1, 1024, 1);
	struct vg_execution *bad = fill(pair.vgpus[1], 0, 8, 1, 1, 1);
	IS_LOST(vg_execution_wait(bad, 10), VG_DRIVER);
	int code = vg_last_error()->code;
	for (int i = 0; i < 2; i++)
		CHECK_INT(vg_manager_status(pair.managers[i], 1), VG_VIRTUAL_GPU_ERROR);
	IS_LOST(vg_execution_wait(queued, 10), VG_DRIVER);
	CHECK_INT(vg_last_error()->code, code);
	IS_LOST(try_fill(pair.vgpus[0], 0, block, 5, 1024, 1, NULL), VG_DRIVER);
	IS_LOST(vg_virtual_gpu_read(pair.vgpus[0], &value, block, sizeof value), VG_DRIVER);
	IS_LOST(vg_virtual_gpu_sync_all(pair.vgpus[0], 10), VG_DRIVER);
	IS_LOST(vg_virtual_gpu_allocate(pair.vgpus[0], 4096, 0, &more), VG_STATE);
	IS_LOST(vg_virtual_gpu_resume(pair.vgpus[0]), VG_STATE);
	for (int i = 0; i < 2; i++) {
		OK(vg_compute_info(vg_manager_compute(pair.managers[i]), &info));
		CHECK_INT(info.failure, code);
		CHECK_INT(info.queue_length + info.running, 0);
		// Closing may return an error of the driver, but it closes the virtual GPU in any case.
		(void)vg_virtual_gpu_close(pair.vgpus[i]);
		CHECK_INT(vg_manager_status(pair.managers[i], 1), VG_VIRTUAL_GPU_DESTROYED);
	}
	vg_execution_destroy(queued);
	vg_execution_destroy(bad);
	close_pair(&pair);
}

// Causes a fault on the second device, while the first one has work if `busy`. Without work, no driver call tells the
// first device's virtual GPU of the fault. It must notice the fault in another way.
static void fault_of_the_second(bool busy)
{
	struct vg_execution *first[4], *late;
	struct pair pair;
	vg_address block;

	NEEDS_TWO(&pair, 64 * MIB);
	block = allocate(pair.vgpus[0], 4 * 4096);
	for (unsigned i = 0; i < 4 && busy; i++)
		first[i] = fill(pair.vgpus[0], i, block + i * 4096, 1, 1024, 2000);
	struct vg_execution *bad = fill(pair.vgpus[1], 0, 8, 1, 1, 1);
	REFUSED(vg_execution_wait(bad, 10), VG_DRIVER, "restart the process");
	CHECK_CONTAINS(vg_last_error()->text, "on device ");
	for (unsigned i = 0; i < 4 && busy; i++) { // this work may have ended before the fault
		enum vg_status status = vg_execution_wait(first[i], 60);
		CHECK(status == VG_OK || status == VG_DRIVER);
		vg_execution_destroy(first[i]);
	}
	if (try_fill(pair.vgpus[0], 0, block, 5, 1024, 1, &late) == VG_OK) {
		REFUSED(vg_execution_wait(late, 10), VG_DRIVER, "restart the process");
		vg_execution_destroy(late);
	}
	CHECK_CONTAINS(vg_last_error()->text, busy ? "on device " : "executions were running on device 1;");
	vg_execution_destroy(bad);
	close_pair(&pair);
}

static void fault_while_the_first_is_busy(void)
{
	fault_of_the_second(true);
}

static void fault_while_the_first_is_idle(void)
{
	fault_of_the_second(false);
}

static void in_child(void (*run)(void))
{
	int status;

	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		run();
		_exit(0);
	}
	CHECK_INT(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		SKIP("this machine has one device");
	CHECK_INT(status, 0);
}

TEST(a_fault_fails_all_devices)
{
	in_child(fault_while_the_first_is_paused);
}

TEST(a_fault_fails_running_work_of_another_device)
{
	in_child(fault_while_the_first_is_busy);
}

TEST(a_fault_fails_the_next_work_on_another_device)
{
	in_child(fault_while_the_first_is_idle);
}

// ---- memory and work ---------------------------------------------------------------------------------------

TEST(limits_reserve_memory_of_one_device_only)
{
	struct pair pair;
	struct vg_virtual_gpu *large, *more;

	NEEDS_TWO(&pair, 16 * MIB);
	uint64_t left = manager_info(pair.managers[0]).memory_available, other;
	const struct vg_virtual_gpu_options all = {.size = sizeof all, .memory_limit = left};
	other = manager_info(pair.managers[1]).memory_available;
	OK(vg_virtual_gpu_create(pair.managers[0], &all, &large));
	CHECK_INT(manager_info(pair.managers[0]).memory_available, 0);
	CHECK_INT(manager_info(pair.managers[1]).memory_available, other);
	const struct vg_virtual_gpu_options one = {.size = sizeof one, .memory_limit = 16 * MIB};
	CHECK_INT(vg_virtual_gpu_create(pair.managers[0], &one, &more), VG_LIMIT);
	OK(vg_virtual_gpu_create(pair.managers[1], &one, &more));
	vg_virtual_gpu_destroy(more);
	vg_virtual_gpu_destroy(large);
	close_pair(&pair);
}

// Neither device may wait for the other one: each must complete work while the other is paused or synchronized.
TEST(work_runs_on_two_devices_at_once)
{
	struct vg_execution *executions[2][8];
	vg_address blocks[2];
	struct pair pair;

	NEEDS_TWO(&pair, 64 * MIB);
	for (int i = 0; i < 2; i++)
		blocks[i] = allocate(pair.vgpus[i], 8 * 4096);
	for (unsigned k = 0; k < 8; k++)
		for (int i = 0; i < 2; i++)
			executions[i][k] =
				fill(pair.vgpus[i], k % 4, blocks[i] + k * 4096, (float)(10 * i + (int)k), 1024, 20);
	OK(vg_virtual_gpu_pause(pair.vgpus[0]));
	OK(vg_virtual_gpu_sync_all(pair.vgpus[1], 60));
	OK(vg_virtual_gpu_resume(pair.vgpus[0]));
	OK(vg_virtual_gpu_sync_all(pair.vgpus[0], 60));
	for (unsigned k = 0; k < 8; k++)
		for (int i = 0; i < 2; i++) {
			OK(vg_execution_wait(executions[i][k], 60));
			CHECK(float_at(pair.vgpus[i], blocks[i] + k * 4096 + 4092) == (float)(10 * i + (int)k));
			vg_execution_destroy(executions[i][k]);
		}
	// Addresses of one device are invalid on the other.
	REFUSED(vg_virtual_gpu_set(pair.vgpus[1], blocks[0], 1, 4), VG_BOUNDS, "to");
	REFUSED(vg_virtual_gpu_free(pair.vgpus[0], blocks[1]), VG_BOUNDS, "");
	OK(vg_virtual_gpu_close(pair.vgpus[0]));
	CHECK(float_at(pair.vgpus[1], blocks[1]) == 10);
	close_pair(&pair);
}

// ---- copies ----------------------------------------------------------------------------------------------

enum { BYTES = 24 << 20, ROUNDS = 8 };

struct courier {
	struct vg_virtual_gpu *from, *to;
	vg_address source, target;
	unsigned char base;
};

static void *carry(void *user)
{
	struct courier *courier = user;
	unsigned char *seen = malloc(BYTES);

	for (unsigned round = 0; round < ROUNDS; round++) {
		// Each third has a different byte, so that missing parts of a copy are noticed.
		for (size_t part = 0; part < 3; part++)
			OK(vg_virtual_gpu_set(courier->from, courier->source + part * (BYTES / 3),
					      (int)(courier->base + 3 * round + part), BYTES / 3));
		OK(vg_virtual_gpu_copy_peer(courier->to, courier->target, courier->from, courier->source, BYTES));
		OK(vg_virtual_gpu_read(courier->to, seen, courier->target, BYTES));
		for (size_t part = 0; part < 3; part++) {
			unsigned char byte = (unsigned char)(courier->base + 3 * round + part);
			const unsigned char *at = seen + part * (BYTES / 3);
			CHECK(at[0] == byte && !memcmp(at, at + 1, BYTES / 3 - 1));
		}
	}
	free(seen);
	return NULL;
}

TEST(copies_run_in_both_directions_at_once)
{
	struct courier couriers[2];
	pthread_t threads[2];
	struct pair pair;

	NEEDS_TWO(&pair, 64 * MIB);
	for (int i = 0; i < 2; i++)
		couriers[i] = (struct courier){.from = pair.vgpus[i],
					       .to = pair.vgpus[!i],
					       .source = allocate(pair.vgpus[i], BYTES),
					       .target = allocate(pair.vgpus[!i], BYTES),
					       .base = (unsigned char)(1 + 100 * i)};
	for (int i = 0; i < 2; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, carry, &couriers[i]), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	REFUSED(vg_virtual_gpu_copy_peer(pair.vgpus[1], couriers[0].target, pair.vgpus[0], couriers[0].source + 1,
					 BYTES),
		VG_BOUNDS, "from");
	REFUSED(vg_virtual_gpu_copy_peer(pair.vgpus[0], couriers[0].target, pair.vgpus[1], couriers[0].source, 1),
		VG_BOUNDS, "");
	close_pair(&pair);
}
