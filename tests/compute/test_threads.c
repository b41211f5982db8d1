// Tests many threads at once, and forked children.
#include "compute_test.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

enum { UNITS = 8, THREADS = 8, ROUNDS = 60 };

static struct vg_compute_unit *units[UNITS];
static atomic_uint completed, cancelled, other;

static void count_end(struct vg_execution *one)
{
	enum vg_execution_state state = vg_execution_state(one);

	atomic_fetch_add(state == VG_EXECUTION_COMPLETED   ? &completed
			 : state == VG_EXECUTION_CANCELLED ? &cancelled
							   : &other,
			 1);
}

static void *mix(void *argument)
{
	unsigned number = (unsigned)(size_t)argument, seed = number * 2654435761u + 1;
	struct vg_compute_unit *unit = units[number / THREADS];
	struct vg_compute_unit_info info;

	for (int i = 0; i < ROUNDS; i++) {
		seed = seed * 1664525 + 1013904223;
		struct vg_execution *one = spin(unit, seed >> 8 & 3, 200, 1 + (seed >> 12 & 3));
		switch (seed >> 16 & 7) {
		case 0:
			vg_execution_cancel(one); // the execution may have ended
			break;
		case 1:
			vg_compute_unit_info(unit, &info);
			break;
		case 2:
			OK(vg_compute_unit_sync(unit, seed >> 8 & 3, 60));
			break;
		case 3:
			vg_compute_unit_set_share(unit, 0.02 + (seed >> 20 & 7) / 100.0);
			break;
		case 4:
			vg_compute_unit_set_priority(unit, (int)(seed >> 20 & 3));
			break;
		}
		vg_execution_wait(one, 60);
		count_end(one);
		vg_execution_destroy(one);
	}
	return NULL;
}

static void run_mix(const struct vg_compute_options *options)
{
	struct rig rig = open_rig(options);
	pthread_t threads[UNITS * THREADS];
	struct vg_compute_info info;

	atomic_store(&completed, 0);
	atomic_store(&cancelled, 0);
	atomic_store(&other, 0);
	for (int i = 0; i < UNITS; i++)
		units[i] = unit_of(&rig, NULL, 0.05);
	for (size_t i = 0; i < UNITS * THREADS; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, mix, (void *)i), 0);
	for (size_t i = 0; i < UNITS * THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK_INT(atomic_load(&completed) + atomic_load(&cancelled), UNITS * THREADS * ROUNDS);
	CHECK_INT(atomic_load(&other), 0);
	OK(vg_compute_info(rig.compute, &info));
	CHECK_INT(info.queue_length + info.running, 0);
	uint64_t ended = 0;
	for (int i = 0; i < UNITS; i++) {
		struct vg_compute_unit_info of = info_of(units[i]);
		ended += of.completed + of.cancelled;
		vg_compute_unit_destroy(units[i]);
	}
	CHECK_INT(ended, UNITS * THREADS * ROUNDS);
	close_rig(&rig);
}

TEST(eight_threads_use_each_of_eight_units)
{
	struct vg_compute_options options = {.size = sizeof options, .policy = VG_COMPUTE_WEIGHTED_FAIR};

	run_mix(&options);
}

TEST(eight_threads_use_units_with_preemption)
{
	struct vg_compute_options options = {.size = sizeof options, .policy = VG_COMPUTE_PRIORITY, .preemption = 1};

	run_mix(&options);
}

static void *submit_until_closed(void *argument)
{
	struct vg_compute_unit *unit = argument;
	enum vg_status status;

	while ((status = try_launch(unit, "empty", 0, 1, NULL, 0, NULL)) == VG_OK)
		;
	return (void *)(size_t)status;
}

static void *sync_until_closed(void *argument)
{
	enum vg_status status;

	while ((status = vg_compute_unit_sync_all(argument, 0)) == VG_OK)
		;
	return (void *)(size_t)status;
}

TEST(a_unit_can_end_while_threads_use_it)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, NULL, 1);
	pthread_t threads[4];
	void *status;

	for (int i = 0; i < 4; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, i < 2 ? submit_until_closed : sync_until_closed, unit), 0);
	pause_ms(50);
	OK(vg_compute_unit_end(unit));
	OK(vg_compute_unit_end(unit));
	OK(vg_compute_unit_close(unit));
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &status);
		CHECK_INT((size_t)status, VG_CLOSED);
	}
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}

TEST(a_paused_unit_can_end_while_a_thread_waits)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, NULL, 1);
	pthread_t thread;
	void *status;

	OK(vg_compute_unit_pause(unit));
	struct vg_execution *one = note(&rig, unit, 0, 1, 0);
	CHECK_INT(pthread_create(&thread, NULL, sync_until_closed, unit), 0);
	pause_ms(20);
	REFUSED(vg_compute_unit_close(unit), VG_BUSY, "work in \"unit-1\", which is paused: 1 queued, 0 running");
	CHECK_INT(vg_execution_state(one), VG_EXECUTION_QUEUED);
	OK(vg_compute_unit_end(unit));
	pthread_join(thread, &status);
	CHECK_INT((size_t)status, VG_CLOSED);
	CHECK_INT(vg_execution_state(one), VG_EXECUTION_CANCELLED);
	vg_execution_destroy(one);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}

TEST(calls_fail_in_a_forked_child)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, NULL, 1);

	struct vg_execution *one = spin(unit, 0, 1000, 2000);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		alarm(TEST_CHILD_SECONDS);
		bool good = try_launch(unit, "empty", 0, 1, NULL, 0, NULL) == VG_STATE &&
			    vg_compute_unit_sync_all(unit, 0) == VG_STATE && vg_execution_wait(one, 0) == VG_STATE &&
			    vg_execution_cancel(one) == VG_STATE && vg_compute_close(rig.compute) == VG_STATE;
		vg_execution_destroy(one);
		vg_compute_unit_destroy(unit);
		vg_compute_destroy(rig.compute);
		_exit(good ? 0 : 1);
	}
	CHECK_CHILD(child);
	OK(vg_execution_wait(one, 60));
	vg_execution_destroy(one);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}
