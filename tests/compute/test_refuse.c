// Checks that invalid work is refused at its submission, with helpful messages.
#include "compute/compute.h"
#include "compute_test.h"

TEST(unknown_kernels_are_refused_by_name)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, "u", 1);

	REFUSED(try_launch(unit, "spim", 0, 1, NULL, 0, NULL), VG_NOT_FOUND, "spin");
	REFUSED(try_launch(unit, NULL, 0, 1, NULL, 0, NULL), VG_INVALID, "NULL");
	CHECK(try_launch(unit, "", 0, 1, NULL, 0, NULL) != VG_OK);
	OK(vg_compute_unregister(rig.compute, "spin"));
	unsigned rounds = 1;
	vg_address nowhere = 0;
	CHECK_INT(try_launch(unit, "spin", 0, 1, (struct vg_argument[]){VG_ARGUMENT(rounds), VG_ARGUMENT(nowhere)}, 2,
			     NULL),
		  VG_NOT_FOUND);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}

TEST(arguments_and_shapes_are_checked_at_submission)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, "u", 1);
	unsigned rounds = 1;
	vg_address nowhere = 0;
	struct vg_argument good[] = {VG_ARGUMENT(rounds), VG_ARGUMENT(nowhere)};
	struct vg_argument swapped[] = {VG_ARGUMENT(nowhere), VG_ARGUMENT(rounds)};
	struct vg_argument lacking[] = {VG_ARGUMENT(rounds), {NULL, 8}};
	struct vg_work work = {.size = sizeof work,
			       .kernel = "spin",
			       .config = {.grid = {1}, .block = {1}},
			       .arguments = good,
			       .argument_count = 2};

	REFUSED(try_launch(unit, "spin", 0, 1, good, 1, NULL), VG_INVALID, "takes 2");
	REFUSED(try_launch(unit, "spin", 0, 1, swapped, 2, NULL), VG_INVALID, "argument 0");
	REFUSED(try_launch(unit, "spin", 0, 1, lacking, 2, NULL), VG_INVALID, "NULL");
	REFUSED(try_launch(unit, "spin", 0, 1, NULL, 2, NULL), VG_INVALID, "NULL");
	REFUSED(try_launch(unit, "spin", 4, 1, good, 2, NULL), VG_INVALID, "stream 4");
	REFUSED(try_launch(unit, "spin", ~0u, 1, good, 2, NULL), VG_INVALID, "counted from 0");
	work.config.block[0] = 2048;
	REFUSED(vg_compute_unit_execute(unit, &work, NULL), VG_INVALID, "2048");
	work.config.block[0] = 0;
	REFUSED(vg_compute_unit_execute(unit, &work, NULL), VG_INVALID, "block");
	work.config.block[0] = 1;
	work.config.grid[1] = 1u << 20;
	REFUSED(vg_compute_unit_execute(unit, &work, NULL), VG_INVALID, "grid");
	work.config.grid[1] = 1;
	work.config.shared_memory = 1u << 30;
	CHECK(vg_compute_unit_execute(unit, &work, NULL) != VG_OK);
	work.config.shared_memory = 0;
	work.config.cooperative = 1;
	work.config.grid[0] = 1u << 30;
	REFUSED(vg_compute_unit_execute(unit, &work, NULL), VG_LIMIT, "cooperative");
	REFUSED(vg_compute_unit_execute(unit, NULL, NULL), VG_INVALID, "work is NULL");
	REFUSED(vg_compute_unit_execute(NULL, &work, NULL), VG_INVALID, "unit is NULL");
	work.size = 3;
	REFUSED(vg_compute_unit_execute(unit, &work, NULL), VG_INVALID, "size");
	CHECK_INT(info_of(unit).launches + info_of(unit).failures + info_of(unit).queue_length, 0);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}

TEST(kernel_names_are_listed)
{
	struct rig rig = open_rig(NULL);
	char name[128];
	int found = 0;

	size_t count = vg_compute_kernel_count(rig.compute);
	for (size_t i = 0; i < count; i++) {
		OK(vg_compute_kernel_name(rig.compute, i, name, sizeof name));
		found += strcmp(name, "spin") == 0 || strcmp(name, "matrix_multiply") == 0;
	}
	CHECK_INT(found, 2);
	REFUSED(vg_compute_kernel_name(rig.compute, count, name, sizeof name), VG_NOT_FOUND, "counted from 0");
	REFUSED(vg_compute_kernel_name(rig.compute, 0, name, 1), VG_LIMIT, "room for 1");
	CHECK_INT(vg_compute_kernel_count(NULL), 0);
	close_rig(&rig);
}

TEST(executions_are_found_until_they_end)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, "u", 1);
	struct vg_execution *found;

	OK(vg_compute_unit_pause(unit));
	struct vg_execution *one = note(&rig, unit, 2, 1, 0);
	OK(vg_compute_unit_find(unit, vg_execution_id(one), &found));
	CHECK(found == one);
	vg_execution_destroy(found);
	REFUSED(vg_compute_unit_find(unit, 12345, &found), VG_NOT_FOUND, "12345");
	OK(vg_compute_unit_resume(unit));
	OK(vg_execution_wait(one, 20));
	REFUSED(vg_compute_unit_find(unit, vg_execution_id(one), &found), VG_NOT_FOUND, "not ended");
	vg_execution_destroy(one);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}
