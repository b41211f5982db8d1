// Tests the validation of shares, and how many SMs a share gets.
#include "compute/quantum.h"
#include "compute/share.h"
#include "compute_test.h"

#include <math.h>

TEST(shares_are_limited_in_range_and_sum)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit_options options = {.size = sizeof options};
	struct vg_compute_unit *unit = NULL;
	struct vg_compute_info info;

	options.share = 1.5;
	REFUSED(vg_compute_unit_create(rig.compute, &options, &unit), VG_INVALID, "1.5");
	options.share = -0.1;
	REFUSED(vg_compute_unit_create(rig.compute, &options, &unit), VG_INVALID, "-0.1");
	options.share = NAN;
	REFUSED(vg_compute_unit_create(rig.compute, &options, &unit), VG_INVALID, "nan");
	options.share = INFINITY;
	REFUSED(vg_compute_unit_create(rig.compute, &options, &unit), VG_INVALID, "inf");
	CHECK(!unit);
	struct vg_compute_unit *first = unit_of(&rig, "first", 0.7);
	options.share = 0.4;
	REFUSED(vg_compute_unit_create(rig.compute, &options, &unit), VG_LIMIT, "0.7 of 1");
	OK(vg_compute_info(rig.compute, &info));
	CHECK_INT(info.units, 1);
	CHECK(fabs(info.unclaimed_share - 0.3) < 1e-9);
	struct vg_compute_unit *second = unit_of(&rig, "second", 0.3);
	REFUSED(vg_compute_unit_set_share(second, 0.31), VG_LIMIT, "0.7 of 1");
	REFUSED(vg_compute_unit_set_share(second, 0), VG_INVALID, "share of 0");
	REFUSED(vg_compute_unit_set_share(second, NAN), VG_INVALID, "nan");
	CHECK(info_of(second).share == 0.3);
	OK(vg_compute_unit_set_share(first, 0.5));
	OK(vg_compute_unit_set_share(second, 0.5));
	options.share = 0.1;
	REFUSED(vg_compute_unit_create(rig.compute, &options, &unit), VG_LIMIT, "share of 0.1, but nothing is left");
	vg_compute_unit_destroy(first);
	OK(vg_compute_unit_set_share(second, 1));
	vg_compute_unit_destroy(second);
	close_rig(&rig);
}

TEST(ten_shares_of_a_tenth_fit)
{
	struct vg_compute_options options = {.size = sizeof options, .max_units = 10};
	struct rig rig = open_rig(&options);
	struct vg_compute_unit *units[10], *more;
	struct vg_compute_info info;

	for (int i = 0; i < 10; i++)
		units[i] = unit_of(&rig, NULL, 0.1);
	OK(vg_compute_info(rig.compute, &info));
	CHECK(info.unclaimed_share == 0);
	REFUSED(vg_compute_unit_create(rig.compute, NULL, &more), VG_LIMIT, "max_units is 10");
	for (int i = 0; i < 10; i++)
		vg_compute_unit_destroy(units[i]);
	close_rig(&rig);
}

TEST(compute_units_are_converted_to_shares)
{
	struct vg_compute_options options = {.size = sizeof options, .max_units = 8};
	struct rig rig = open_rig(&options);
	struct vg_compute_unit_options of = {.size = sizeof of, .compute_units = 2};
	struct vg_compute_unit *unit, *other;

	OK(vg_compute_unit_create(rig.compute, &of, &unit));
	CHECK(info_of(unit).share == 0.25);
	CHECK_INT(info_of(unit).compute_units, 2);
	CHECK_INT(info_of(unit).max_units, 8);
	OK(vg_compute_unit_scale(unit, 6));
	CHECK(info_of(unit).share == 0.75);
	REFUSED(vg_compute_unit_scale(unit, 9), VG_INVALID, "1 to 8");
	REFUSED(vg_compute_unit_scale(unit, 0), VG_INVALID, "0 compute units");
	of = (struct vg_compute_unit_options){.size = sizeof of, .compute_units = 1, .share = 0.2};
	REFUSED(vg_compute_unit_create(rig.compute, &of, &other), VG_INVALID, "0.125");
	of.share = 0.125;
	OK(vg_compute_unit_create(rig.compute, &of, &other));
	vg_compute_unit_destroy(other);
	// The compute units without a share divide the remaining quarter equally. There are 7 of them now.
	OK(vg_compute_unit_create(rig.compute, NULL, &other));
	CHECK(fabs(info_of(other).share - 0.25 / 7) < 1e-9);
	vg_compute_unit_destroy(other);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}

TEST(options_out_of_range_are_refused)
{
	struct vg_compute_options bad[] = {
		{.size = sizeof bad[0], .policy = (enum vg_compute_policy)3},
		{.size = sizeof bad[0], .placement = (enum vg_compute_placement)7},
		{.size = sizeof bad[0], .group_tolerance = -0.5},
		{.size = sizeof bad[0], .group_tolerance = NAN},
		{.size = sizeof bad[0], .time_slice_ms = 1u << 31},
		{.size = sizeof bad[0], .monitoring_interval_ms = 1u << 31},
	};
	struct vg_compute_options many = {.size = sizeof many, .max_units = 1u << 30};
	struct vg_compute *compute = NULL;
	struct vg_device *device;

	OK(vg_device_get(0, &device));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_INT(vg_compute_create(device, &bad[i], &compute), VG_INVALID);
	REFUSED(vg_compute_create(device, &many, &compute), VG_LIMIT, "max_units");
	REFUSED(vg_compute_create(NULL, NULL, &compute), VG_INVALID, "device is NULL");
	REFUSED(vg_compute_create(device, NULL, NULL), VG_INVALID, "ret_compute is NULL");
	CHECK(!compute);

	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = NULL;
	struct vg_compute_unit_options streams = {.size = sizeof streams, .streams = 5000};
	struct vg_compute_unit_options beside = {.size = sizeof beside, .max_concurrent_kernels = 33};
	struct vg_compute_unit_options name = {.size = sizeof name, .name = ""};
	struct vg_compute_unit_options code = {.size = sizeof code, .unknown_code = (enum vg_unknown_code)9};
	REFUSED(vg_compute_unit_create(rig.compute, &streams, &unit), VG_LIMIT, "5000 streams");
	REFUSED(vg_compute_unit_create(rig.compute, &beside, &unit), VG_LIMIT, "33 kernels");
	REFUSED(vg_compute_unit_create(rig.compute, &name, &unit), VG_INVALID, "name");
	REFUSED(vg_compute_unit_create(rig.compute, &code, &unit), VG_INVALID, "unknown_code");
	REFUSED(vg_compute_unit_create(NULL, NULL, &unit), VG_INVALID, "compute is NULL");
	CHECK(!unit);
	REFUSED(vg_compute_set_time_slice(rig.compute, 0), VG_INVALID, "0 ms");
	REFUSED(vg_compute_set_policy(rig.compute, (enum vg_compute_policy) - 1), VG_INVALID, "policy -1");
	close_rig(&rig);
}

TEST(calls_on_a_closed_scheduler_fail)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, NULL, 0.5), *other;
	struct vg_compute_info info;

	OK(vg_compute_close(rig.compute));
	OK(vg_compute_close(rig.compute));
	REFUSED(vg_compute_info(rig.compute, &info), VG_CLOSED, "closed");
	REFUSED(vg_compute_unit_create(rig.compute, NULL, &other), VG_CLOSED, "closed");
	REFUSED(try_launch(unit, "empty", 0, 1, NULL, 0, NULL), VG_CLOSED, "closed");
	REFUSED(vg_compute_unit_sync_all(unit, 1), VG_CLOSED, "closed");
	REFUSED(vg_compute_unit_pause(unit), VG_CLOSED, "closed");
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
	vg_compute_destroy(NULL);
	vg_compute_unit_destroy(NULL);
	vg_execution_destroy(NULL);
	CHECK_INT(vg_execution_id(NULL), 0);
}

// ---- SMs --------------------------------------------------------------------------------------------

static bool plan(double tolerance, const double *shares, size_t count, unsigned *parts, struct compute_plan *ret_plan)
{
	*ret_plan = (struct compute_plan){.part_sms = 8, .parts = 16, .sms = 132, .tolerance = tolerance};
	return compute_plan_groups(ret_plan, shares, parts, count);
}

TEST(groups_get_the_nearest_size)
{
	struct compute_plan made;
	unsigned parts[8];

	// By their shares, the units should get 52.8, 39.6 and 39.6 SMs. Groups of 48, 40 and 40 SMs leave 4 over.
	// Groups of 56, 40 and 40 need 4 more than there are.
	CHECK(!plan(0.01, (double[]){0.4, 0.3, 0.3}, 3, parts, &made));
	// With a negative tolerance, the nearest sizes are taken. The first compute unit gets 48 SMs, and also the 4
	// SMs that are in no group.
	CHECK(plan(-1, (double[]){0.4, 0.3, 0.3}, 3, parts, &made));
	CHECK_INT(parts[0], 6);
	CHECK_INT(parts[1], 5);
	CHECK_INT(parts[2], 5);
	CHECK_INT(made.extra, 0);
	CHECK_INT(made.taken, 16);
	CHECK(!made.rest);
	// Each compute unit should get 66 SMs. With 64 and 68 SMs, the error is 1.5 percentage points, which is more
	// than the tolerance.
	CHECK(!plan(0.01, (double[]){0.5, 0.5}, 2, parts, &made));
	CHECK(plan(0.016, (double[]){0.5, 0.5}, 2, parts, &made));
	CHECK(made.extra == SIZE_MAX);
	CHECK(plan(0.01, (double[]){0.2424, 0.2424, 0.2424, 0.2424}, 4, parts, &made));
	CHECK_INT(parts[3], 4);
	CHECK(made.extra == SIZE_MAX);
}

TEST(small_shares_use_the_remaining_sms)
{
	struct compute_plan made;
	unsigned parts[8];

	CHECK(plan(-1, (double[]){0.02, 0.49, 0.49}, 3, parts, &made));
	CHECK_INT(parts[0], 0);
	CHECK_INT(parts[1] + parts[2], 16); // this leaves 4 SMs for the first unit, which has no group
	CHECK(made.rest && made.extra == SIZE_MAX);
	CHECK(!plan(0.5, (double[]){0.02, 0.49, 0.49}, 3, parts, &made));
	CHECK(!plan(-1, (double[]){0.01, 0.02, 0.03}, 3, parts, &made)); // these shares are too small for groups
	made = (struct compute_plan){.part_sms = 8, .parts = 16, .sms = 128, .tolerance = -1};
	CHECK(compute_plan_groups(&made, (double[]){0.98, 0.02}, parts, 2));
	// all 128 SMs are in groups, so the first unit gets one group less to leave SMs for the other one
	CHECK_INT(parts[0], 15);
}
