// Tests the life of virtual GPUs: ids, statuses, limits, lists, and the use of handles after the end.
#include "manager_test.h"

#include <limits.h>

TEST(a_vgpu_is_found_by_its_id_until_it_is_closed)
{
	struct vg_manager *manager = open_manager(NULL);

	CHECK_INT(vg_manager_status(manager, 1), VG_VIRTUAL_GPU_NOT_FOUND);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 1, 64 * MIB), *same;
	CHECK_INT(vg_manager_status(manager, 1), VG_VIRTUAL_GPU_CREATED);
	OK(vg_manager_find(manager, 1, &same));
	CHECK(same == vgpu);
	vg_address address = allocate(vgpu, 4096);
	CHECK_INT(vg_manager_status(manager, 1), VG_VIRTUAL_GPU_RUNNING);
	OK(vg_virtual_gpu_close(vgpu));
	CHECK_INT(vg_manager_status(manager, 1), VG_VIRTUAL_GPU_DESTROYED);
	REFUSED(vg_manager_find(manager, 1, &same), VG_NOT_FOUND,
		"the virtual GPU 1 was destroyed; existing ids: none");
	REFUSED(vg_virtual_gpu_free(same, address), VG_CLOSED, "virtual GPU 1 (vgpu-1) was destroyed");
	CHECK_INT(info_of(vgpu).status, VG_VIRTUAL_GPU_DESTROYED);
	OK(vg_virtual_gpu_close(vgpu));
	vg_virtual_gpu_destroy(same);
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

TEST(the_last_handle_closes_a_vgpu)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 7, 64 * MIB), *other;

	OK(vg_manager_find(manager, 7, &other));
	vg_virtual_gpu_destroy(vgpu);
	CHECK_INT(vg_manager_status(manager, 7), VG_VIRTUAL_GPU_CREATED);
	vg_virtual_gpu_destroy(other);
	CHECK_INT(vg_manager_status(manager, 7), VG_VIRTUAL_GPU_DESTROYED);
	CHECK_INT(manager_info(manager).memory_promised, 0);
	vg_manager_destroy(manager);
}

TEST(ids_are_unique)
{
	const struct vg_virtual_gpu_options options = {.size = sizeof options, .id = 2, .memory_limit = MIB};
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *two = new_vgpu(manager, 2, MIB), *one = new_vgpu(manager, 0, MIB), *again;

	CHECK_INT(info_of(one).id, 1);
	REFUSED(vg_virtual_gpu_create(manager, &options, &again), VG_EXISTS, "virtual GPU 2 (vgpu-2)");
	struct vg_virtual_gpu *three = new_vgpu(manager, 0, MIB);
	CHECK_INT(info_of(three).id, 3);
	vg_virtual_gpu_destroy(one);
	struct vg_virtual_gpu *last = new_vgpu(manager, INT_MAX, MIB), *four = new_vgpu(manager, 0, MIB);
	// The new virtual GPU must not get the free id 1, because another thread may still use that id for the old
	// virtual GPU.
	CHECK_INT(info_of(four).id, 4);
	one = new_vgpu(manager, 1, MIB);
	struct vg_virtual_gpu *const all[] = {one, two, three, four, last};
	struct vg_virtual_gpu_info infos[5];
	size_t count;
	OK(vg_manager_list(manager, NULL, 0, &count));
	CHECK_INT(count, 5);
	REFUSED(vg_manager_list(manager, infos, 4, &count), VG_LIMIT, "there are 5 virtual GPUs, and room for 4");
	OK(vg_manager_list(manager, infos, 5, &count));
	for (int i = 0; i < 5; i++)
		CHECK_INT(infos[i].id, info_of(all[i]).id);
	for (int i = 0; i < 5; i++)
		vg_virtual_gpu_destroy(all[i]);
	vg_manager_destroy(manager);
}

TEST(creating_a_vgpu_allocates_no_memory)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_device *device = first_device();
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 1, MIB);
	uint64_t total = manager_info(manager).memory_total;
	size_t before = free_on(device), after;

	struct vg_virtual_gpu *all = new_vgpu(manager, 2, total - MIB);
	after = free_on(device);
	// Creating a virtual GPU reserves its limit, but allocates no memory for it. The driver takes some memory for
	// streams.
	CHECK(before - after <= 16 * MIB);
	CHECK_INT(info_of(all).memory_held, 0);
	CHECK_INT(manager_info(manager).memory_available, 0);
	vg_virtual_gpu_destroy(all);
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

TEST(unknown_code_option_is_validated)
{
	struct vg_virtual_gpu_options options = {
		.size = sizeof options, .memory_limit = MIB, .unknown_code = (enum vg_unknown_code)2};
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu;

	REFUSED(vg_virtual_gpu_create(manager, &options, &vgpu), VG_INVALID, "unknown_code");
	CHECK_INT(manager_info(manager).memory_promised, 0);
	options.unknown_code = VG_UNKNOWN_CODE_ALLOW;
	OK(vg_virtual_gpu_create(manager, &options, &vgpu));
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

TEST(limits_of_all_managers_fit_the_device)
{
	struct vg_manager *manager = open_manager(NULL), *other = open_manager(NULL);
	struct vg_virtual_gpu_options options = {.size = sizeof options};
	struct vg_virtual_gpu *vgpu;
	uint64_t total = manager_info(manager).memory_total;

	REFUSED(vg_virtual_gpu_create(manager, &options, &vgpu), VG_INVALID, "needs a memory limit");
	options.memory_limit = total + 1;
	REFUSED(vg_virtual_gpu_create(manager, &options, &vgpu), VG_LIMIT, "asked for a memory limit of");
	options.memory_limit = UINT64_MAX; // the limit must not overflow
	REFUSED(vg_virtual_gpu_create(manager, &options, &vgpu), VG_LIMIT, "18446744073709551615");
	struct vg_virtual_gpu *half = new_vgpu(other, 0, total / 2);
	options.memory_limit = total - total / 2 + 1;
	REFUSED(vg_virtual_gpu_create(manager, &options, &vgpu), VG_LIMIT, "not promised to others");
	options.memory_limit--;
	OK(vg_virtual_gpu_create(manager, &options, &vgpu));
	REFUSED(vg_virtual_gpu_set_memory_limit(vgpu, total), VG_LIMIT, "not promised to others");
	REFUSED(vg_virtual_gpu_set_memory_limit(vgpu, 0), VG_INVALID, "leaves nothing");
	vg_virtual_gpu_destroy(half);
	OK(vg_virtual_gpu_set_memory_limit(vgpu, total));
	CHECK_INT(manager_info(manager).memory_available, 0);
	OK(vg_virtual_gpu_set_memory_limit(vgpu, 4 * MIB));
	allocate(vgpu, 3 * MIB);
	REFUSED(vg_virtual_gpu_set_memory_limit(vgpu, 2 * MIB), VG_BUSY, "are charged");
	CHECK_INT(info_of(vgpu).memory_limit, 4 * MIB);
	CHECK_INT(manager_info(other).memory_available, total - 4 * MIB);
	vg_manager_destroy(manager);
	vg_virtual_gpu_destroy(vgpu);
	CHECK_INT(manager_info(other).memory_available, total);
	vg_manager_destroy(other);
}

TEST(the_number_of_vgpus_is_limited)
{
	const struct vg_manager_options options = {.size = sizeof options, .max_virtual_gpus = 2};
	const struct vg_virtual_gpu_options third = {.size = sizeof third, .memory_limit = MIB};
	struct vg_manager *manager = open_manager(&options);
	struct vg_virtual_gpu *one = new_vgpu(manager, 0, MIB), *two = new_vgpu(manager, 0, MIB), *vgpu;

	REFUSED(vg_virtual_gpu_create(manager, &third, &vgpu), VG_LIMIT, "2 virtual GPUs");
	vg_virtual_gpu_destroy(one);
	OK(vg_virtual_gpu_create(manager, &third, &vgpu));
	vg_virtual_gpu_destroy(vgpu);
	vg_virtual_gpu_destroy(two);
	vg_manager_destroy(manager);
}

TEST(shares_are_between_0_and_1_and_so_is_their_sum)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu_options options = {.size = sizeof options, .memory_limit = MIB, .compute_share = -0.1};
	struct vg_virtual_gpu *vgpus[3], *vgpu;
	const double shares[] = {0.4, 0.3, 0.3};

	REFUSED(vg_virtual_gpu_create(manager, &options, &vgpu), VG_INVALID, "compute_share is -0.1");
	options.compute_share = 1.01;
	REFUSED(vg_virtual_gpu_create(manager, &options, &vgpu), VG_INVALID, "compute_share is 1.01");
	options.compute_share = __builtin_nan("");
	REFUSED(vg_virtual_gpu_create(manager, &options, &vgpu), VG_INVALID, "share");
	for (int i = 0; i < 3; i++) {
		options.compute_share = shares[i];
		OK(vg_virtual_gpu_create(manager, &options, &vgpus[i]));
		CHECK(info_of(vgpus[i]).compute_share == shares[i]);
	}
	options.compute_share = 0.01;
	REFUSED(vg_virtual_gpu_create(manager, &options, &vgpu), VG_LIMIT, "a share of 0.01");
	options.compute_share = 0;
	REFUSED(vg_virtual_gpu_create(manager, &options, &vgpu), VG_LIMIT, "given away");
	CHECK_INT(manager_info(manager).virtual_gpus, 3);
	// The refused call has created nothing.
	CHECK_INT(vg_manager_status(manager, 4), VG_VIRTUAL_GPU_NOT_FOUND);
	for (int i = 0; i < 3; i++)
		vg_virtual_gpu_destroy(vgpus[i]);
	vgpus[0] = new_vgpu(manager, 0, MIB);
	// The share of one of eight virtual GPUs is an eighth.
	CHECK(info_of(vgpus[0]).compute_share > 0.1249 && info_of(vgpus[0]).compute_share < 0.1251);
	vg_virtual_gpu_destroy(vgpus[0]);
	vg_manager_destroy(manager);
}

TEST(names_are_validated)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu_options options = {.size = sizeof options, .memory_limit = MIB, .name = "a b"};
	struct vg_virtual_gpu *vgpu;

	REFUSED(vg_virtual_gpu_create(manager, &options, &vgpu), VG_INVALID, "\"a b\"");
	options.name = "";
	REFUSED(vg_virtual_gpu_create(manager, &options, &vgpu), VG_INVALID, "empty");
	options.name = "0123456789012345678901234567890123456789012345678901234567890123";
	REFUSED(vg_virtual_gpu_create(manager, &options, &vgpu), VG_INVALID, "64 characters");
	options.name = "train.1";
	OK(vg_virtual_gpu_create(manager, &options, &vgpu));
	CHECK_STR(info_of(vgpu).name, "train.1");
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

TEST(pausing_or_resuming_twice_fails)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 1, 8 * MIB);

	REFUSED(vg_virtual_gpu_resume(vgpu), VG_STATE, "not paused");
	OK(vg_virtual_gpu_pause(vgpu));
	CHECK_INT(vg_manager_status(manager, 1), VG_VIRTUAL_GPU_PAUSED);
	REFUSED(vg_virtual_gpu_pause(vgpu), VG_STATE, "paused already");
	// A paused virtual GPU can still allocate and free memory.
	OK(vg_virtual_gpu_free(vgpu, allocate(vgpu, MIB)));
	OK(vg_virtual_gpu_resume(vgpu));
	CHECK_INT(vg_manager_status(manager, 1), VG_VIRTUAL_GPU_RUNNING);
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

TEST(closing_a_manager_closes_its_vgpus)
{
	const struct vg_virtual_gpu_options options = {.size = sizeof options, .memory_limit = MIB};
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *one = new_vgpu(manager, 0, 8 * MIB), *two = new_vgpu(manager, 0, 8 * MIB), *vgpu;
	struct vg_manager_info info;
	vg_address address;

	allocate(two, MIB);
	OK(vg_manager_close(manager));
	REFUSED(vg_virtual_gpu_allocate(one, 1, 0, &address), VG_CLOSED, "virtual GPU 1");
	REFUSED(vg_virtual_gpu_create(manager, &options, &vgpu), VG_CLOSED, "manager");
	REFUSED(vg_manager_info(manager, &info), VG_CLOSED, "manager");
	CHECK_INT(vg_manager_status(manager, 1), VG_VIRTUAL_GPU_DESTROYED);
	OK(vg_manager_close(manager));
	// Handles of virtual GPUs must stay valid after the manager's own handle is destroyed.
	vg_manager_destroy(manager);
	CHECK(vg_virtual_gpu_manager(one) == vg_virtual_gpu_manager(two));
	vg_virtual_gpu_destroy(one);
	vg_virtual_gpu_destroy(two);
}

TEST(missing_arguments_are_refused)
{
	struct vg_manager_options options = {.size = sizeof options, .max_virtual_gpus = 1025};
	struct vg_manager *manager;

	REFUSED(vg_manager_create(NULL, NULL, &manager), VG_INVALID, "device is NULL");
	REFUSED(vg_manager_create(first_device(), &options, &manager), VG_INVALID, "1024 are the most");
	options = (struct vg_manager_options){.size = sizeof options, .virtual_streams = 5000};
	REFUSED(vg_manager_create(first_device(), &options, &manager), VG_INVALID, "4096 are the most");
	REFUSED(vg_virtual_gpu_close(NULL), VG_INVALID, "vgpu is NULL");
	CHECK_INT(vg_manager_status(NULL, 1), VG_VIRTUAL_GPU_NOT_FOUND);
	CHECK_STR(vg_virtual_gpu_status_text(VG_VIRTUAL_GPU_PAUSED), "paused");
	CHECK_STR(vg_virtual_gpu_status_text((enum vg_virtual_gpu_status)99), "unknown");
	vg_virtual_gpu_destroy(NULL);
	vg_manager_destroy(NULL);
}

static void check_child(struct vg_manager *manager, struct vg_virtual_gpu *vgpu)
{
	struct vg_virtual_gpu_info info;
	vg_address address;
	size_t count;

	REFUSED(vg_virtual_gpu_allocate(vgpu, 1, 0, &address), VG_STATE, "forked");
	REFUSED(vg_virtual_gpu_info(vgpu, &info), VG_STATE, "forked");
	REFUSED(vg_manager_list(manager, NULL, 0, &count), VG_STATE, "forked");
	REFUSED(vg_virtual_gpu_close(vgpu), VG_STATE, "forked");
	CHECK_INT(vg_manager_status(manager, 1), VG_VIRTUAL_GPU_NOT_FOUND);
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

TEST(calls_fail_in_a_forked_child)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 1, 64 * MIB);

	vg_address block = allocate(vgpu, MIB);
	pid_t child = fork();
	if (child == 0) {
		alarm(20);
		check_child(manager, vgpu);
		_exit(0);
	}
	CHECK_CHILD(child);
	OK(vg_virtual_gpu_free(vgpu, block));
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}
