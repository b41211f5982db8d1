// Tests how work is executed, from its submission to its end.
#include "compute_test.h"

TEST(kernels_run_in_the_order_of_their_stream)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, "one", 0.5);
	unsigned ids[64];

	for (unsigned i = 0; i < 50; i++)
		vg_execution_destroy(note(&rig, unit, 1, i, 0));
	OK(vg_compute_unit_sync(unit, 1, 20));
	CHECK_INT(read_log(&rig, ids, 64), 50);
	for (unsigned i = 0; i < 50; i++)
		CHECK_INT(ids[i], i);
	struct vg_compute_unit_info info = info_of(unit);
	CHECK_INT(info.completed, 50);
	CHECK_INT(info.launches, 50);
	CHECK_INT(info.queue_length + info.running, 0);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}

TEST(executions_report_their_state)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, NULL, 1);
	struct vg_execution_info info;

	struct vg_execution *one = spin(unit, 0, 100000, 3);
	OK(vg_execution_wait(one, 30));
	CHECK_INT(vg_execution_state(one), VG_EXECUTION_COMPLETED);
	OK(vg_execution_info(one, &info));
	CHECK_STR(info.kernel, "spin");
	CHECK_INT(info.launches, 3);
	CHECK(info.queued_ns && info.queued_ns <= info.started_ns && info.started_ns <= info.ended_ns);
	CHECK(info.gpu_ns_known && info.gpu_ns > 0);
	CHECK(info.gpu_ns <= info.ended_ns - info.started_ns + 1000000);
	struct vg_compute_unit_info of_unit;
	for (int i = 0; i < 1000 && !(of_unit = info_of(unit)).busy_ns; i++)
		pause_ms(1);
	CHECK(of_unit.busy_ns >= info.gpu_ns);
	CHECK(of_unit.sm_seconds > 0);
	vg_execution_destroy(one);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}

TEST(queued_work_is_cancelled_at_once)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, NULL, 1);
	unsigned ids[8];

	OK(vg_compute_unit_pause(unit));
	struct vg_execution *first = note(&rig, unit, 0, 1, 0), *second = note(&rig, unit, 0, 2, 0);
	REFUSED(vg_execution_wait(first, 0.02), VG_NOT_READY, "queued");
	REFUSED(vg_compute_unit_sync_all(unit, 0.02), VG_NOT_READY, "\"note\"");
	OK(vg_execution_cancel(first));
	CHECK_INT(vg_execution_state(first), VG_EXECUTION_CANCELLED);
	REFUSED(vg_execution_wait(first, 0), VG_STATE, "cancelled");
	REFUSED(vg_execution_cancel(first), VG_STATE, "has ended");
	OK(vg_compute_unit_resume(unit));
	OK(vg_execution_wait(second, 20));
	CHECK_INT(read_log(&rig, ids, 8), 1);
	CHECK_INT(ids[0], 2);
	vg_execution_destroy(first);
	vg_execution_destroy(second);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}

TEST(running_work_is_cancelled_before_the_next_kernel)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, NULL, 1);
	struct vg_execution_info info;

	struct vg_execution *one = spin(unit, 0, 20000, 1000000);
	while (vg_execution_state(one) == VG_EXECUTION_QUEUED)
		pause_ms(1);
	pause_ms(20);
	CHECK_INT(vg_execution_state(one), VG_EXECUTION_RUNNING);
	OK(vg_execution_cancel(one));
	REFUSED(vg_execution_wait(one, 30), VG_STATE, "cancelled");
	OK(vg_execution_info(one, &info));
	CHECK(info.launches > 0 && info.launches < 1000000);
	CHECK_INT(info_of(unit).cancelled, 1);
	vg_execution_destroy(one);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}

TEST(destroying_a_unit_cancels_queued_work)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, NULL, 1);
	struct vg_execution *many[40];

	for (int i = 0; i < 40; i++)
		many[i] = spin(unit, (unsigned)i % 4, 300000, 100);
	vg_compute_unit_destroy(unit);
	for (int i = 0; i < 40; i++) {
		CHECK(vg_execution_state(many[i]) >= VG_EXECUTION_COMPLETED);
		vg_execution_destroy(many[i]);
	}
	close_rig(&rig);
}

// Submits a long kernel to one stream, and then a short one to another. Returns which one ends first.
static unsigned first_to_end(unsigned max_concurrent)
{
	struct vg_compute_unit_options options = {
		.size = sizeof options, .share = 1, .max_concurrent_kernels = max_concurrent};
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit;
	unsigned ids[8], rounds = 4000000, id = 1;
	struct vg_argument arguments[] = {VG_ARGUMENT(rounds), VG_ARGUMENT(id), VG_ARGUMENT(rig.log)};

	OK(vg_compute_unit_create(rig.compute, &options, &unit));
	OK(vg_compute_unit_pause(unit));
	OK(try_launch(unit, "spin_note", 0, 1, arguments, 3, NULL));
	vg_execution_destroy(note(&rig, unit, 1, 2, 0));
	OK(vg_compute_unit_resume(unit));
	OK(vg_compute_unit_sync_all(unit, 60));
	CHECK_INT(read_log(&rig, ids, 8), 2);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
	return ids[0];
}

TEST(the_number_of_concurrent_streams_is_limited)
{
	CHECK_INT(first_to_end(1), 1);
	CHECK_INT(first_to_end(2), 2);
}

TEST(utilization_is_known_after_an_interval)
{
	struct vg_compute_options options = {.size = sizeof options, .monitoring_interval_ms = 200};
	struct rig rig = open_rig(&options);
	struct vg_compute_unit *unit = unit_of(&rig, NULL, 1);
	struct vg_compute_info info;

	CHECK_INT(info_of(unit).utilization_known, 0);
	pause_ms(250);
	CHECK_INT(info_of(unit).utilization_known, 1);
	CHECK(info_of(unit).utilization == 0);
	OK(vg_compute_info(rig.compute, &info));
	struct vg_execution *one = spin(unit, 0, 200000, 1000000);
	// The utilization includes a quantum only after the quantum has ended. So wait until both figures exceed 5%.
	for (int i = 0; i < 1000; i++) {
		pause_ms(30);
		OK(vg_compute_info(rig.compute, &info));
		if (i >= 20 && info_of(unit).utilization > 0.05 && info.utilization > 0.05)
			break;
	}
	struct vg_compute_unit_info of = info_of(unit);
	printf("  under load: %.2f of the unit, %.2f of the device\n", of.utilization, info.utilization);
	CHECK(of.utilization > 0.05 && of.utilization <= 1);
	CHECK(info.utilization_known && info.utilization > 0.05 && info.utilization <= 1);
	CHECK(info.quanta > 0 && info.busy_ns > 0 && info.longest_ns > 0);
	OK(vg_execution_cancel(one));
	CHECK_INT(vg_execution_wait(one, 60), VG_STATE);
	vg_execution_destroy(one);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}

TEST(a_pause_stops_only_queued_work)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, NULL, 1);

	struct vg_execution *running = spin(unit, 0, 20000, 400);
	while (vg_execution_state(running) == VG_EXECUTION_QUEUED)
		pause_ms(1);
	OK(vg_compute_unit_pause(unit));
	OK(vg_compute_unit_pause(unit));
	struct vg_execution *queued = note(&rig, unit, 0, 1, 0);
	OK(vg_execution_wait(running, 60));
	pause_ms(20);
	CHECK_INT(vg_execution_state(queued), VG_EXECUTION_QUEUED);
	CHECK_INT(info_of(unit).paused, 1);
	CHECK_INT(info_of(unit).queue_length, 1);
	OK(vg_compute_unit_resume(unit));
	OK(vg_execution_wait(queued, 60));
	vg_execution_destroy(running);
	vg_execution_destroy(queued);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}
