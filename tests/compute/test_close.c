// Checks that closing compute units and schedulers fails while they have work, and changes nothing then. Ending them
// instead cancels the work.
#include "compute_test.h"

TEST(closing_a_unit_fails_while_it_has_work)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, "busy", 0.5), *other = unit_of(&rig, "other", 0.25);
	struct vg_execution *notes[4];
	unsigned ids[8];

	OK(vg_compute_unit_pause(unit));
	for (unsigned i = 0; i < 4; i++)
		notes[i] = note(&rig, unit, 0, i + 1, 0);
	REFUSED(vg_compute_unit_close(unit), VG_BUSY, "work in \"busy\", which is paused: 4 queued, 0 running");
	CHECK_CONTAINS(vg_last_error()->text, "vg_compute_unit_end()");
	REFUSED(vg_compute_close(rig.compute), VG_BUSY, "work in \"busy\", which is paused: 4 queued, 0 running");
	CHECK_CONTAINS(vg_last_error()->text, "vg_compute_end()");
	CHECK(info_of(unit).share == 0.5 && info_of(unit).queue_length == 4 && info_of(unit).cancelled == 0);
	OK(vg_compute_unit_close(other)); // this compute unit has no work
	struct vg_compute_unit *next = unit_of(&rig, "next", 0.25);
	OK(vg_compute_unit_resume(unit));
	OK(vg_compute_unit_sync_all(unit, 60));
	CHECK_INT(read_log(&rig, ids, 8), 4);
	for (unsigned i = 0; i < 4; i++) {
		CHECK_INT(ids[i], i + 1);
		OK(vg_execution_wait(notes[i], 0));
		vg_execution_destroy(notes[i]);
	}
	OK(vg_compute_unit_close(unit));
	OK(vg_compute_unit_close(unit));
	OK(vg_compute_close(rig.compute));
	vg_compute_unit_destroy(next);
	vg_compute_unit_destroy(other);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}

TEST(busy_errors_count_running_and_queued_work)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, "busy", 1);
	struct vg_execution *runs = spin(unit, 0, 1000000, 5), *waits;

	while (vg_execution_state(runs) == VG_EXECUTION_QUEUED)
		pause_ms(1);
	OK(vg_compute_unit_pause(unit)); // running work continues
	waits = note(&rig, unit, 1, 1, 0);
	if (vg_execution_state(runs) == VG_EXECUTION_RUNNING) {
		enum vg_status status = vg_compute_unit_close(unit);
		CHECK_INT(status, VG_BUSY);
		if (vg_execution_state(runs) == VG_EXECUTION_RUNNING)
			CHECK_CONTAINS(vg_last_error()->text, ": 1 queued, 1 running");
	}
	OK(vg_execution_wait(runs, 60));
	REFUSED(vg_compute_unit_close(unit), VG_BUSY, ": 1 queued, 0 running");
	OK(vg_compute_unit_end(unit));
	CHECK_INT(vg_execution_state(waits), VG_EXECUTION_CANCELLED);
	vg_execution_destroy(waits);
	vg_execution_destroy(runs);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}

TEST(ending_a_scheduler_cancels_all_work)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *one = unit_of(&rig, "one", 0.5), *two = unit_of(&rig, "two", 0.5);

	OK(vg_compute_unit_pause(one));
	OK(vg_compute_unit_pause(two));
	struct vg_execution *first = note(&rig, one, 0, 1, 0), *second = note(&rig, two, 0, 2, 0);
	REFUSED(vg_compute_close(rig.compute), VG_BUSY, "work in \"one\" and 1 other: 2 queued, 0 running");
	CHECK_INT(info_of(two).queue_length, 1);
	OK(vg_compute_end(rig.compute));
	CHECK_INT(vg_execution_state(first), VG_EXECUTION_CANCELLED);
	CHECK_INT(vg_execution_state(second), VG_EXECUTION_CANCELLED);
	OK(vg_compute_close(rig.compute));
	REFUSED(vg_compute_end(NULL), VG_INVALID, "compute is NULL");
	REFUSED(vg_compute_unit_end(NULL), VG_INVALID, "unit is NULL");
	REFUSED(vg_compute_unit_close(NULL), VG_INVALID, "unit is NULL");
	vg_execution_destroy(first);
	vg_execution_destroy(second);
	vg_compute_unit_destroy(two);
	vg_compute_unit_destroy(one);
	close_rig(&rig);
}

// A thread that waits for work must return when the work is ended, and must not prevent a close afterwards.
TEST(ended_work_does_not_prevent_a_close)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, "unit", 1);

	for (int i = 0; i < 200; i++) {
		struct vg_execution *one = note(&rig, unit, (unsigned)i % 4, 1, 0);
		OK(vg_execution_wait(one, 60));
		if (i == 199)
			OK(vg_compute_unit_close(unit)); // closes the unit at once after its last work has ended
		vg_execution_destroy(one);
	}
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}
