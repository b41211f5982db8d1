#include "core_test.h"

#define DRY_RUN (&(struct vg_sm_split_options){.size = sizeof(struct vg_sm_split_options), .dry_run = 1})

static struct vg_sm_resource *get_all_sms(void)
{
	struct vg_sm_resource *all;
	struct vg_device *device;

	OK(vg_device_get(0, &device));
	OK(vg_device_sm_resource(device, &all));
	return all;
}

TEST(sm_resource_has_the_sms_of_the_device)
{
	struct vg_sm_resource *all = get_all_sms(), *of_context;
	struct vg_context *context = first_context();
	int sms;

	OK(vg_device_property(vg_context_device(context), VG_DEVICE_MULTIPROCESSOR_COUNT, &sms));
	CHECK_INT(vg_sm_resource_count(all), sms);
	CHECK(vg_sm_resource_min_partition_size(all) > 0 && vg_sm_resource_coscheduled_alignment(all) > 0);
	CHECK(!vg_sm_resource_is_dry_run(all) && vg_sm_resource_device(all) == vg_context_device(context));
	CHECK(vg_sm_resource_handle(all) != NULL);
	OK(vg_context_sm_resource(context, &of_context));
	CHECK_INT(vg_sm_resource_count(of_context), sms);
	vg_sm_resource_destroy(of_context);
	vg_sm_resource_destroy(all);
	vg_sm_resource_destroy(NULL);
	vg_context_destroy(context);
	CHECK_INT(vg_sm_resource_count(NULL), 0);
}

TEST(split_by_count_returns_groups_and_remainder)
{
	struct vg_sm_resource *all = get_all_sms(), *groups[4], *rest;
	unsigned total = vg_sm_resource_count(all), sum = 0;
	size_t made = 0;

	OK(vg_sm_resource_split_by_count(all, 8, 0, 4, groups, &made, &rest));
	CHECK(made >= 1 && made <= 4);
	for (size_t i = 0; i < made; i++) {
		CHECK_INT(vg_sm_resource_count(groups[i]), 8);
		CHECK_INT(vg_sm_resource_min_partition_size(groups[i]), vg_sm_resource_min_partition_size(all));
		CHECK_INT(vg_sm_resource_coscheduled_alignment(groups[i]), vg_sm_resource_coscheduled_alignment(all));
		sum += vg_sm_resource_count(groups[i]);
		vg_sm_resource_destroy(groups[i]);
	}
	CHECK_INT(sum + vg_sm_resource_count(rest), total);
	CHECK_INT(vg_sm_resource_count(all), total);
	vg_sm_resource_destroy(rest);
	vg_sm_resource_destroy(all);
}

TEST(groups_without_coscheduling_are_smaller)
{
	struct vg_sm_resource *all = get_all_sms(), *group = NULL, *small = NULL;
	size_t made = 0;

	OK(vg_sm_resource_split_by_count(all, 2, 0, 1, &group, &made, NULL));
	OK(vg_sm_resource_split_by_count(all, 2, VG_SM_SPLIT_IGNORE_COSCHEDULING, 1, &small, &made, NULL));
	CHECK_INT(vg_sm_resource_count(group), vg_sm_resource_coscheduled_alignment(all));
	CHECK_INT(vg_sm_resource_count(small), 2);
	vg_sm_resource_destroy(small);
	OK(vg_sm_resource_split_by_count(all, 8, VG_SM_SPLIT_MAX_POTENTIAL_CLUSTER, 1, &small, &made, NULL));
	CHECK(vg_sm_resource_count(small) >= 8);
	vg_sm_resource_destroy(small);
	small = NULL;
	REFUSED(vg_sm_resource_split_by_count(all, 8, 4, 1, &small, &made, NULL), VG_INVALID, "4");
	CHECK(!small);
	vg_sm_resource_destroy(group);
	vg_sm_resource_destroy(all);
}

TEST(equal_groups_work_with_old_drivers)
{
	struct vg_sm_resource *all = get_all_sms(), *groups[2] = {0}, *rest = NULL;
	const struct vg_sm_group wanted[] = {{.sm_count = 16}, {.sm_count = 16}};
	size_t made = 0;

	OK(vg_sm_resource_split(all, wanted, 2, NULL, groups, &made, &rest));
	CHECK_INT(made, 2);
	CHECK_INT(vg_sm_resource_count(groups[0]), 16);
	CHECK_INT(vg_sm_resource_count(groups[1]), 16);
	CHECK(!vg_sm_resource_is_dry_run(groups[0]));
	CHECK_INT(vg_sm_resource_count(rest), vg_sm_resource_count(all) - 32);
	for (int i = 0; i < 2; i++)
		vg_sm_resource_destroy(groups[i]);
	vg_sm_resource_destroy(rest);
	vg_sm_resource_destroy(all);
}

TEST(a_dry_run_returns_sizes)
{
	struct vg_sm_resource *all = get_all_sms(), *group, *part;
	const struct vg_sm_group wanted = {.sm_count = 16}, discover = {0};
	size_t made;

	OK(vg_sm_resource_split(all, &wanted, 1, DRY_RUN, &group, &made, NULL));
	CHECK_INT(vg_sm_resource_count(group), 16);
	CHECK(vg_sm_resource_is_dry_run(group));
	REFUSED(vg_sm_resource_split(group, &wanted, 1, NULL, &part, &made, NULL), VG_INVALID,
		"a dry run has sizes only");
	vg_sm_resource_destroy(group);
	OK(vg_sm_resource_split(all, &discover, 1, DRY_RUN, &group, &made, NULL));
	CHECK(vg_sm_resource_count(group) > 0);
	vg_sm_resource_destroy(group);
	vg_sm_resource_destroy(all);
}

TEST(invalid_splits_are_refused)
{
	struct vg_sm_resource *all = get_all_sms(), *groups[2] = {0}, *rest = (void *)1;
	struct vg_sm_group negative[] = {{.sm_count = 8}, {.sm_count = -8}}, huge = {.sm_count = 100000};
	size_t made = 42;

	REFUSED(vg_sm_resource_split(all, negative, 2, NULL, groups, &made, &rest), VG_INVALID,
		"group 1: counts must be non-negative, but are -8");
	REFUSED(vg_sm_resource_split(all, negative, 0, NULL, groups, &made, &rest), VG_INVALID,
		"a split into 0 groups");
	REFUSED(vg_sm_resource_split(all, negative, 100000, NULL, groups, &made, &rest), VG_INVALID, "100000 groups");
	REFUSED(vg_sm_resource_split(all, NULL, 1, NULL, groups, &made, &rest), VG_INVALID, "groups is NULL");
	REFUSED(vg_sm_resource_split(NULL, &huge, 1, NULL, groups, &made, &rest), VG_INVALID, "resource is NULL");
	REFUSED(vg_sm_resource_split(all, &huge, 1, NULL, groups, &made, &rest), VG_DRIVER, "100000 SMs");
	REFUSED(vg_sm_resource_split_by_count(all, -1, 0, 1, groups, &made, &rest), VG_INVALID, "groups of -1 SMs");
	REFUSED(vg_sm_resource_split_by_count(all, 8, 64, 1, groups, &made, &rest), VG_INVALID, "flags 0x40");
	REFUSED(vg_sm_resource_split_by_count(all, 100000, 0, 1, groups, &made, &rest), VG_DRIVER,
		"groups of at least");
	CHECK(!groups[0] && !groups[1] && rest == (void *)1 && made == 42);
	vg_sm_resource_destroy(all);
}

static int lacks_workqueues(void)
{
	struct vg_workqueue_resource *queues;
	struct vg_device *device;

	OK(vg_device_get(0, &device));
	enum vg_status status = vg_device_workqueue_resource(device, &queues);
	if (status == VG_OK)
		vg_workqueue_resource_destroy(queues);
	return status == VG_UNSUPPORTED;
}

TEST(features_of_driver_13_1_are_unsupported_before)
{
	struct vg_sm_resource *all, *groups[2] = {0};
	const struct vg_sm_group sizes[] = {{.sm_count = 8}, {.sm_count = 16}};
	const struct vg_sm_group together = {.sm_count = 16, .coscheduled_sm_count = 16};
	const struct vg_sm_group preferred = {.sm_count = 16, .preferred_coscheduled_sm_count = 16};
	const struct vg_sm_group backfill = {.sm_count = 16, .backfill = 1};
	struct vg_workqueue_resource *queues = NULL;
	struct vg_context *context;
	size_t made = 42;

	if (!lacks_workqueues())
		SKIP("the driver is 13.1 or later");
	all = get_all_sms();
	context = first_context();
	REFUSED(vg_sm_resource_split(all, sizes, 2, NULL, groups, &made, NULL), VG_UNSUPPORTED,
		"groups of different sizes: unsupported: needs driver 13.1, have 1");
	REFUSED(vg_sm_resource_split(all, &together, 1, NULL, groups, &made, NULL), VG_UNSUPPORTED,
		"needs driver 13.1");
	REFUSED(vg_sm_resource_split(all, &preferred, 1, NULL, groups, &made, NULL), VG_UNSUPPORTED,
		"needs driver 13.1");
	REFUSED(vg_sm_resource_split(all, &backfill, 1, NULL, groups, &made, NULL), VG_UNSUPPORTED,
		"needs driver 13.1");
	REFUSED(vg_context_workqueue_resource(context, &queues), VG_UNSUPPORTED,
		"work queues: unsupported: needs driver 13.1, have 1");
	CHECK(!groups[0] && !queues && made == 42);
	vg_sm_resource_destroy(all);
	vg_context_destroy(context);
}

TEST(a_group_is_split_again_in_a_green_context)
{
	struct vg_sm_resource *all = get_all_sms(), *group, *again, *part = NULL;
	struct vg_device *device = vg_sm_resource_device(all);
	struct vg_context *context;
	size_t made;

	OK(vg_sm_resource_split_by_count(all, 16, 0, 1, &group, &made, NULL));
	REFUSED(vg_sm_resource_split_by_count(group, 8, 0, 1, &part, &made, NULL), VG_DRIVER,
		"a group can be split again once it is a green context's");
	OK(vg_context_create(
		device,
		&(struct vg_context_options){.size = sizeof(struct vg_context_options), .sms = &group, .sm_count = 1},
		&context));
	OK(vg_context_sm_resource(context, &again));
	OK(vg_sm_resource_split_by_count(again, 8, 0, 1, &part, &made, NULL));
	CHECK_INT(vg_sm_resource_count(part), 8);
	vg_context_destroy(context);
	vg_sm_resource_destroy(part);
	vg_sm_resource_destroy(again);
	vg_sm_resource_destroy(group);
	vg_sm_resource_destroy(all);
}

TEST(groups_of_different_sizes)
{
	const struct vg_sm_group wanted[] = {
		{.sm_count = 16, .coscheduled_sm_count = 8, .preferred_coscheduled_sm_count = 16},
		{.sm_count = 32},
		{.sm_count = 2, .backfill = 1}};
	struct vg_sm_resource *all, *groups[3], *rest;
	size_t made;

	if (lacks_workqueues())
		SKIP("needs driver 13.1");
	all = get_all_sms();
	unsigned total = vg_sm_resource_count(all);
	for (int dry = 1; dry >= 0; dry--) {
		OK(vg_sm_resource_split(all, wanted, 3, dry ? DRY_RUN : NULL, groups, &made, &rest));
		CHECK_INT(made, 3);
		for (int i = 0; i < 3; i++) {
			CHECK_INT(vg_sm_resource_count(groups[i]), wanted[i].sm_count);
			CHECK_INT(vg_sm_resource_is_dry_run(groups[i]), dry);
			CHECK(vg_sm_resource_min_partition_size(groups[i]) > 0);
		}
		CHECK_INT(vg_sm_resource_count(rest), total - 50);
		for (int i = 0; i < 3; i++)
			vg_sm_resource_destroy(groups[i]);
		vg_sm_resource_destroy(rest);
	}
	REFUSED(vg_sm_resource_split(all, &(struct vg_sm_group){.sm_count = 3}, 1, NULL, groups, &made, &rest),
		VG_DRIVER, "cuDevSmResourceSplit: ");
	OK(vg_sm_resource_split(all, &(struct vg_sm_group){0}, 1, NULL, groups, &made,
				&rest)); // this asks for all SMs of the device
	CHECK(made == 1 && vg_sm_resource_count(groups[0]) + vg_sm_resource_count(rest) == total);
	vg_sm_resource_destroy(groups[0]);
	vg_sm_resource_destroy(rest);
	vg_sm_resource_destroy(all);
}

TEST(a_context_with_work_queues)
{
	struct vg_workqueue_options options = {sizeof options, VG_WORKQUEUE_SCOPE_GREEN_BALANCED, 4};
	struct vg_workqueue_resource *queues, *seen;
	struct vg_sm_resource *all, *group;
	struct vg_device *device;
	struct vg_context *context;
	struct vg_stream *stream;
	size_t made;

	if (lacks_workqueues())
		SKIP("needs driver 13.1");
	all = get_all_sms();
	device = vg_sm_resource_device(all);
	OK(vg_device_workqueue_resource(device, &queues));
	OK(vg_workqueue_resource_configure(queues, &options));
	OK(vg_sm_resource_split_by_count(all, 16, 0, 1, &group, &made, NULL));
	OK(vg_context_create(
		device,
		&(struct vg_context_options){
			.size = sizeof(struct vg_context_options), .sms = &group, .sm_count = 1, .workqueue = queues},
		&context));
	OK(vg_stream_create(context, NULL, &stream));
	OK(vg_stream_workqueue_resource(stream, &seen));
	CHECK_INT(vg_workqueue_resource_concurrency_limit(seen), 4);
	CHECK_INT(vg_workqueue_resource_scope(seen), VG_WORKQUEUE_SCOPE_GREEN_BALANCED);
	vg_workqueue_resource_destroy(seen);
	vg_workqueue_resource_destroy(queues);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
	vg_sm_resource_destroy(group);
	vg_sm_resource_destroy(all);
}

TEST(work_queues)
{
	struct vg_workqueue_resource *queues;
	struct vg_context *context;

	if (lacks_workqueues())
		SKIP("needs driver 13.1");
	context = first_context();
	OK(vg_context_workqueue_resource(context, &queues));
	CHECK(vg_workqueue_resource_device(queues) == vg_context_device(context));
	unsigned limit = vg_workqueue_resource_concurrency_limit(queues);
	enum vg_workqueue_scope scope = vg_workqueue_resource_scope(queues);
	CHECK(scope == VG_WORKQUEUE_SCOPE_DEVICE || scope == VG_WORKQUEUE_SCOPE_GREEN_BALANCED);
	OK(vg_workqueue_resource_configure(queues, NULL));
	CHECK_INT(vg_workqueue_resource_concurrency_limit(queues), limit);
	struct vg_workqueue_options options = {sizeof options, VG_WORKQUEUE_SCOPE_GREEN_BALANCED, 3};
	OK(vg_workqueue_resource_configure(queues, &options));
	CHECK_INT(vg_workqueue_resource_concurrency_limit(queues), 3);
	CHECK_INT(vg_workqueue_resource_scope(queues), VG_WORKQUEUE_SCOPE_GREEN_BALANCED);
	options.concurrency_limit = -1;
	REFUSED(vg_workqueue_resource_configure(queues, &options), VG_INVALID, "must be at least 1");
	options = (struct vg_workqueue_options){sizeof options, (enum vg_workqueue_scope)9, 0};
	REFUSED(vg_workqueue_resource_configure(queues, &options), VG_INVALID, "sharing scope 9");
	vg_workqueue_resource_destroy(queues);
	vg_context_destroy(context);
}
