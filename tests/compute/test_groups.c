// Tests groups of SMs: which compute units get a group, which SMs their kernels use, and which units may use the SMs of
// idle units.
#include "compute_test.h"

#include <math.h>

enum { SMS = 132 }; // SMs of the device; they can be divided in groups of 8, so closely to the shares in these tests

static struct rig rig_of(enum vg_compute_placement placement, int no_lending)
{
	struct vg_compute_options options = {.size = sizeof options,
					     .policy = VG_COMPUTE_WEIGHTED_FAIR,
					     .placement = placement,
					     .no_dynamic_scaling = no_lending};
	struct rig rig = open_rig(&options);
	struct vg_compute_info info;

	OK(vg_compute_info(rig.compute, &info));
	if (info.sms != SMS)
		SKIP("the device has %u SMs: the shares here are for %d", info.sms, SMS);
	return rig;
}

// Waits until the scheduler uses groups of SMs, or until it no longer uses them if `grouped` is 0.
static void wait_grouped(struct rig *rig, int grouped)
{
	struct vg_compute_info info;

	for (int i = 0; i < 5000; i++) {
		OK(vg_compute_info(rig->compute, &info));
		if (info.grouped == grouped)
			return;
		pause_ms(1);
	}
	FAIL("grouped is %d after 5 s", !grouped);
}

// Waits until the compute unit, which must be the last one created, has a group of multiprocessors (SMs): then it has
// fewer SMs than the device. Units get groups in the order of their creation, so all others have one, too.
static void wait_home(struct vg_compute_unit *unit)
{
	for (int i = 0; i < 5000; i++) {
		if (info_of(unit).sms < SMS)
			return;
		pause_ms(1);
	}
	FAIL("no group after 5 s");
}

static void run_some(struct rig *rig, struct vg_compute_unit *unit, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		vg_execution_destroy(spin(unit, i % 4, 2000, 1));
	OK(vg_compute_unit_sync_all(unit, 60));
	(void)rig;
}

TEST(automatic_placement_uses_groups_that_fit)
{
	struct rig rig = rig_of(VG_PLACEMENT_AUTOMATIC, 1);
	const double share = 40.0 / SMS; // five groups of 8; an H200 has 15 groups, and 12 SMs that are in none
	struct vg_compute_unit *units[3];

	for (int i = 0; i < 3; i++)
		units[i] = unit_of(&rig, NULL, share);
	wait_grouped(&rig, 1);
	wait_home(units[2]);
	for (int i = 0; i < 3; i++) {
		struct vg_compute_unit_info info = info_of(units[i]);
		CHECK_INT(info.how, VG_SHARE_BY_GROUP);
		CHECK_INT(info.sms, 40);
		CHECK_INT(info.group, i);
		CHECK(fabs(info.realised_share - share) < 1e-9);
		run_some(&rig, units[i], 20);
		info = info_of(units[i]);
		CHECK_INT(info.completed, 20);
		CHECK(fabs(info.sm_seconds - (double)info.busy_ns / 1e9 * 40) < 1e-6);
	}
	// No number of groups comes near this share. So there are no groups, and all compute units share the time of
	// all SMs.
	OK(vg_compute_unit_set_share(units[0], share / 2));
	wait_grouped(&rig, 0);
	CHECK_INT(info_of(units[1]).how, VG_SHARE_BY_TIME);
	CHECK_INT(info_of(units[1]).sms, SMS);
	run_some(&rig, units[0], 20);
	// With the old share, groups match again, so the compute units get groups.
	OK(vg_compute_unit_set_share(units[0], share));
	wait_grouped(&rig, 1);
	run_some(&rig, units[0], 20);
	CHECK_INT(info_of(units[0]).completed, 60);
	for (int i = 0; i < 3; i++)
		vg_compute_unit_destroy(units[i]);
	close_rig(&rig);
}

TEST(units_without_a_group_share_the_remaining_sms)
{
	struct rig rig = rig_of(VG_PLACEMENT_GROUPS, 1);
	struct vg_compute_unit *large = unit_of(&rig, "large", 0.9), *small[2];

	for (int i = 0; i < 2; i++)
		small[i] = unit_of(&rig, NULL, 0.02);
	wait_grouped(&rig, 1);
	wait_home(small[1]);
	CHECK_INT(info_of(large).how, VG_SHARE_BY_GROUP);
	CHECK_INT(info_of(large).sms, 120);
	for (int i = 0; i < 2; i++) {
		struct vg_compute_unit_info info = info_of(small[i]);
		CHECK_INT(info.how, VG_SHARE_BY_TIME);
		CHECK_INT(info.group, -1);
		CHECK_INT(info.sms, 12); // these are a group of 8 SMs, and the 4 SMs that are in no group
		CHECK(fabs(info.realised_share - 6.0 / SMS) < 1e-9);
		run_some(&rig, small[i], 20);
	}
	run_some(&rig, large, 20);
	vg_compute_unit_destroy(small[0]);
	vg_compute_unit_destroy(small[1]);
	vg_compute_unit_destroy(large);
	close_rig(&rig);
}

TEST(groups_run_concurrently)
{
	struct rig rig = rig_of(VG_PLACEMENT_GROUPS, 1);
	struct vg_compute_unit *units[2] = {unit_of(&rig, "a", 0.5), unit_of(&rig, "b", 0.5)};
	struct vg_execution *one[2];
	struct vg_execution_info info[2];

	wait_grouped(&rig, 1);
	for (int i = 0; i < 2; i++)
		one[i] = spin(units[i], 0, 200000, 20);
	for (int i = 0; i < 2; i++) {
		OK(vg_execution_wait(one[i], 60));
		OK(vg_execution_info(one[i], &info[i]));
		vg_execution_destroy(one[i]);
	}
	// Each execution began before the other one had ended.
	CHECK(info[0].started_ns < info[1].ended_ns && info[1].started_ns < info[0].ended_ns);
	vg_compute_unit_destroy(units[0]);
	vg_compute_unit_destroy(units[1]);
	close_rig(&rig);
}

TEST(sms_of_idle_units_are_lent)
{
	struct rig rig = rig_of(VG_PLACEMENT_GROUPS, 0);
	struct vg_compute_unit *units[2] = {unit_of(&rig, "a", 0.5), unit_of(&rig, "b", 0.5)};
	struct vg_execution *one[2];

	one[0] = spin(units[0], 0, 20000, 1000000);
	while (vg_execution_state(one[0]) == VG_EXECUTION_QUEUED)
		pause_ms(1);
	for (int i = 0; i < 10000 && info_of(units[0]).sms != SMS; i++)
		pause_ms(1);
	CHECK_INT(info_of(units[0]).sms, SMS); // the compute unit uses all SMs, because no other one has work
	one[1] = spin(units[1], 0, 20000, 1000000);
	wait_grouped(&rig, 1);
	CHECK(info_of(units[0]).sms < SMS);
	CHECK(info_of(units[1]).sms < SMS);
	OK(vg_execution_cancel(one[1]));
	CHECK_INT(vg_execution_wait(one[1], 60), VG_STATE);
	wait_grouped(&rig, 0);
	CHECK_INT(vg_execution_state(one[0]), VG_EXECUTION_RUNNING);
	OK(vg_execution_cancel(one[0]));
	CHECK_INT(vg_execution_wait(one[0], 60), VG_STATE);
	for (int i = 0; i < 2; i++) {
		vg_execution_destroy(one[i]);
		vg_compute_unit_destroy(units[i]);
	}
	close_rig(&rig);
}
