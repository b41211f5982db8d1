// A kernel that faults ends everything, and nothing hangs. What the driver refuses fails alone.
#include "compute_test.h"

#include <sys/wait.h>

// In a process of its own, since the simulated driver is told of its faults before it is loaded.
static void no_stream_for_the_second(void)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *first = unit_of(&rig, "first", 0.4), *second = unit_of(&rig, "second", 0.3),
			       *third = unit_of(&rig, "third", 0.3);
	struct vg_execution *before = spin(first, 0, 20000000, 1);

	while (vg_execution_state(before) == VG_EXECUTION_QUEUED)
		nap_ms(1);
	struct vg_execution *refused = spin(second, 0, 1000, 1);
	while (vg_execution_state(refused) == VG_EXECUTION_QUEUED)
		nap_ms(1);
	struct vg_execution *behind = spin(third, 0, 1000, 1);
	OK(vg_execution_wait(before, 60));
	CHECK(vg_execution_wait(refused, 60) != VG_OK);
	CHECK_INT(vg_execution_state(refused), VG_EXECUTION_FAILED);
	CHECK_CONTAINS(vg_last_error()->text, "OUT_OF_MEMORY");
	OK(vg_execution_wait(behind, 60));
	CHECK_INT(info_of(second).failed, 0);
	vg_execution_destroy(refused);
	refused = spin(second, 0, 1000, 1);
	OK(vg_execution_wait(refused, 60));
	vg_execution_destroy(before);
	vg_execution_destroy(refused);
	vg_execution_destroy(behind);
	vg_compute_unit_destroy(first);
	vg_compute_unit_destroy(second);
	vg_compute_unit_destroy(third);
	close_rig(&rig);
}

TEST(a_stream_that_cannot_be_made_fails_what_needs_it_alone)
{
	int status;

	if (!getenv("VIRGATE_SIM"))
		SKIP("faults are injected by the simulated driver");
	pid_t child = fork();
	if (child == 0) {
		setenv("VIRGATE_SIM_FAULT", "cuStreamCreateWithPriority:2=CUDA_ERROR_OUT_OF_MEMORY", 1);
		no_stream_for_the_second();
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK_INT(status, 0);
}

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
