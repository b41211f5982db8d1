// A kernel that faults ends everything, and nothing hangs.
#include "compute_test.h"

TEST(a_fault_fails_all_work_of_the_context)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *bad = unit_of(&rig, "bad", 0.5), *good = unit_of(&rig, "good", 0.5);
	struct vg_execution *queued[20], *one;
	struct vg_compute_info info;

	for (int i = 0; i < 20; i++)
		queued[i] = spin(good, (unsigned)i % 4, 2000000, 50);
	OK(try_launch(bad, "fault", 0, 1, NULL, 0, &one));
	CHECK_INT(vg_execution_wait(one, 60), VG_DRIVER);
	CHECK(vg_last_error()->code != 0);
	int code = vg_last_error()->code;
	for (int i = 0; i < 20; i++) {
		enum vg_status status = vg_execution_wait(queued[i], 60);
		CHECK(status == VG_DRIVER || status == VG_OK);
		if (status)
			CHECK_INT(vg_last_error()->code, code);
	}
	CHECK_INT(vg_execution_state(queued[19]), VG_EXECUTION_FAILED);
	REFUSED(try_launch(good, "empty", 0, 1, NULL, 0, NULL), VG_DRIVER, "ended the device's context");
	CHECK_INT(vg_compute_unit_sync_all(good, 60), VG_DRIVER);
	CHECK_INT(info_of(good).failed, 1);
	CHECK_INT(info_of(good).failure, code);
	OK(vg_compute_info(rig.compute, &info));
	CHECK_INT(info.failure, code);
	CHECK_INT(info.queue_length + info.running, 0);
	for (int i = 0; i < 20; i++)
		vg_execution_destroy(queued[i]);
	vg_execution_destroy(one);
	vg_compute_unit_destroy(good);
	vg_compute_unit_destroy(bad);
	vg_compute_destroy(rig.compute);
	vg_context_destroy(rig.context);
}
