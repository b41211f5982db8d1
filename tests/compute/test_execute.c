// Work from its submission to its end.
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

TEST(an_execution_says_where_it_is)
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
		nap_ms(1);
	CHECK(of_unit.busy_ns >= info.gpu_ns);
	CHECK(of_unit.sm_seconds > 0);
	vg_execution_destroy(one);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}

TEST(what_is_queued_is_cancelled_at_once)
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

TEST(what_runs_is_cancelled_at_the_next_kernel)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, NULL, 1);
	struct vg_execution_info info;

	struct vg_execution *one = spin(unit, 0, 20000, 1000000);
	while (vg_execution_state(one) == VG_EXECUTION_QUEUED)
		nap_ms(1);
	nap_ms(20);
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

TEST(destroying_a_unit_cancels_what_is_queued)
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
