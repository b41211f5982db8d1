// Moves a virtual GPU's memory to the host and back, and checks contents, the use of the device meanwhile, and refused
// calls.
#include "work_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static const struct vg_manager_options plain = {.size = sizeof plain, .no_memory_virtualization = 1};

static void fill_bytes(unsigned char *bytes, size_t size, unsigned seed)
{
	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)(i * 31 + seed + i / 4096);
}

static uint64_t free_on_device(void)
{
	return free_on(first_device());
}

static void move_out(struct vg_virtual_gpu *vgpu)
{
	OK(vg_virtual_gpu_pause(vgpu));
	OK(vg_virtual_gpu_move_out(vgpu, NULL));
}

static void move_in(struct vg_virtual_gpu *vgpu)
{
	OK(vg_virtual_gpu_move_in(vgpu, NULL));
	OK(vg_virtual_gpu_resume(vgpu));
}

TEST(a_move_keeps_contents_and_addresses)
{
	enum { BLOCKS = 40 };
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 256 * MIB);
	static unsigned char in[3 * MIB], out[3 * MIB];
	vg_address block[BLOCKS];
	size_t size[BLOCKS];

	for (unsigned i = 0; i < BLOCKS; i++) {
		size[i] = i % 3 == 0 ? 300 : i % 3 == 1 ? 70000 : 3 * MIB;
		block[i] = allocate(vgpu, size[i]);
		fill_bytes(in, size[i], i);
		OK(vg_virtual_gpu_write(vgpu, block[i], in, size[i]));
	}
	uint64_t held = info_of(vgpu).memory_held, before = free_on_device();
	for (int round = 0; round < 3; round++) {
		move_out(vgpu);
		CHECK_INT(info_of(vgpu).memory_in_host, held);
		// The memory stays charged.
		CHECK_INT(info_of(vgpu).memory_held, held);
		CHECK_INT(free_on_device(), before + held);
		move_in(vgpu);
		CHECK_INT(info_of(vgpu).memory_in_host, 0);
		CHECK_INT(free_on_device(), before);
		for (unsigned i = 0; i < BLOCKS; i++) {
			fill_bytes(in, size[i], i);
			OK(vg_virtual_gpu_read(vgpu, out, block[i], size[i]));
			CHECK_INT(memcmp(in, out, size[i]), 0);
		}
	}
	// The virtual GPU can be used as before the move.
	vg_address more = allocate(vgpu, 5 * MIB);
	OK(vg_virtual_gpu_write(vgpu, more, in, sizeof in));
	for (unsigned i = 0; i < BLOCKS; i++)
		OK(vg_virtual_gpu_free(vgpu, block[i]));
	OK(vg_virtual_gpu_free(vgpu, more));
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

// Running work ends before the move. Waiting work runs when the memory is back on the device.
TEST(waiting_work_runs_after_the_move_back)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 64 * MIB), *other = new_vgpu(manager, 0, 64 * MIB);
	vg_address block = allocate(vgpu, MIB), others = allocate(other, MIB);
	struct vg_execution *running = fill(vgpu, 0, block, 1, 1024, 100);
	OK(vg_virtual_gpu_pause(vgpu));
	struct vg_execution *waiting = fill(vgpu, 0, block + 65536, 2, 1024, 1);
	OK(vg_virtual_gpu_move_out(vgpu, NULL));
	// Another virtual GPU is not affected.
	vg_execution_destroy(fill(other, 0, others, 3, 1024, 1));
	OK(vg_virtual_gpu_sync_all(other, 10));
	CHECK(float_at(other, others) == 3);
	move_in(vgpu);
	OK(vg_virtual_gpu_sync_all(vgpu, 10));
	CHECK(float_at(vgpu, block) == 1);
	CHECK(float_at(vgpu, block + 65536) == 2);
	vg_execution_destroy(running);
	vg_execution_destroy(waiting);
	vg_virtual_gpu_destroy(vgpu);
	vg_virtual_gpu_destroy(other);
	vg_manager_destroy(manager);
}

TEST(memory_calls_fail_while_memory_is_in_the_host)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 64 * MIB), *other = new_vgpu(manager, 0, 64 * MIB);
	vg_address block = allocate(vgpu, MIB), others = allocate(other, MIB), address;
	struct vg_movable_block *movable;
	char byte = 1;

	OK(vg_movable_block_create(vg_virtual_gpu_memory(vgpu), 4096, &movable));
	REFUSED(vg_virtual_gpu_move_out(vgpu, NULL), VG_STATE, "is not paused: pause it first");
	REFUSED(vg_virtual_gpu_move_in(vgpu, NULL), VG_STATE, "is not paused");
	OK(vg_virtual_gpu_pause(vgpu));
	REFUSED(vg_virtual_gpu_move_in(vgpu, NULL), VG_STATE, "the memory is on the device already");
	OK(vg_virtual_gpu_move_out(vgpu, NULL));
	REFUSED(vg_virtual_gpu_move_out(vgpu, NULL), VG_STATE, "the memory is in the host already");
	REFUSED(vg_virtual_gpu_resume(vgpu), VG_STATE, "is in the host: vg_virtual_gpu_move_in() brings it back");
	REFUSED(vg_virtual_gpu_read(vgpu, &byte, block, 1), VG_STATE, "the memory is in the host");
	REFUSED(vg_virtual_gpu_write(vgpu, block, &byte, 1), VG_STATE, "the memory is in the host");
	REFUSED(vg_virtual_gpu_set(vgpu, block, 0, 1), VG_STATE, "the memory is in the host");
	REFUSED(vg_virtual_gpu_copy_peer(other, others, vgpu, block, 1), VG_STATE, "the memory is in the host");
	REFUSED(vg_virtual_gpu_copy_peer(vgpu, block, other, others, 1), VG_STATE, "the memory is in the host");
	REFUSED(vg_virtual_gpu_allocate(vgpu, MIB, 0, &address), VG_STATE, "the memory is in the host");
	REFUSED(vg_virtual_gpu_free(vgpu, block), VG_STATE, "the memory is in the host");
	REFUSED(vg_virtual_gpu_set_memory_limit(vgpu, 32 * MIB), VG_STATE, "the memory is in the host");
	REFUSED(vg_memory_space_compact(vg_virtual_gpu_memory(vgpu), NULL, NULL), VG_STATE,
		"the memory is in the host");
	REFUSED(vg_memory_space_defragment(vg_virtual_gpu_memory(vgpu), NULL), VG_STATE, "the memory is in the host");
	REFUSED(vg_movable_block_pin(movable, &address), VG_STATE, "the memory is in the host");
	OK(vg_virtual_gpu_read(other, &byte, others, 1));
	move_in(vgpu);
	OK(vg_virtual_gpu_free(vgpu, block));
	vg_movable_block_destroy(movable);
	vg_virtual_gpu_destroy(vgpu);
	vg_virtual_gpu_destroy(other);
	vg_manager_destroy(manager);
}

TEST(plain_memory_cannot_move)
{
	struct vg_manager *manager = open_manager(&plain);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 64 * MIB);

	OK(vg_virtual_gpu_pause(vgpu));
	REFUSED(vg_virtual_gpu_move_out(vgpu, NULL), VG_UNSUPPORTED, "does not keep its addresses");
	REFUSED(vg_virtual_gpu_move_in(vgpu, NULL), VG_UNSUPPORTED, "does not keep its addresses");
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

// A virtual GPU without memory can be moved out and in, too.
TEST(a_vgpu_without_memory_can_move)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 64 * MIB);
	vg_address block;

	move_out(vgpu);
	REFUSED(vg_virtual_gpu_resume(vgpu), VG_STATE, "is in the host");
	REFUSED(vg_virtual_gpu_allocate(vgpu, MIB, 0, &block), VG_STATE, "the memory is in the host");
	move_in(vgpu);
	block = allocate(vgpu, MIB);
	OK(vg_virtual_gpu_free(vgpu, block));
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

TEST(a_vgpu_can_be_closed_while_its_memory_is_in_the_host)
{
	struct vg_manager *manager = open_manager(NULL);
	uint64_t before = free_on_device();
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 64 * MIB);

	allocate(vgpu, 9 * MIB);
	move_out(vgpu);
	OK(vg_virtual_gpu_close(vgpu));
	CHECK_INT(manager_info(manager).memory_held, 0);
	CHECK(before - free_on_device() <= 4 * MIB); // the driver may keep 2 MiB that it used for the copies
	REFUSED(vg_virtual_gpu_move_in(vgpu, NULL), VG_CLOSED, "was destroyed");
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

// If the device has no room, the memory stays in the host.
TEST(moving_in_fails_on_a_full_device)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 256 * MIB);
	static unsigned char in[MIB], out[MIB];
	struct vg_context *context = first_context();
	vg_address block = allocate(vgpu, 100 * MIB), taken;
	const struct vg_memory_space_options options = {.size = sizeof options,
							.limit = manager_info(manager).memory_total};
	struct vg_memory_space *others;

	fill_bytes(in, sizeof in, 5);
	OK(vg_virtual_gpu_write(vgpu, block + 99 * MIB, in, sizeof in));
	move_out(vgpu);
	OK(vg_memory_space_create(context, &options, &others));
	OK(vg_memory_space_allocate(others, (free_on_device() / MIB - 50) * MIB, 0, &taken));
	for (int i = 0; i < 2; i++) {
		REFUSED(vg_virtual_gpu_move_in(vgpu, NULL), VG_INSUFFICIENT, "");
		CHECK_INT(info_of(vgpu).memory_in_host, info_of(vgpu).memory_held);
		REFUSED(vg_virtual_gpu_resume(vgpu), VG_STATE, "is in the host");
	}
	vg_memory_space_destroy(others);
	move_in(vgpu);
	OK(vg_virtual_gpu_read(vgpu, out, block + 99 * MIB, sizeof out));
	CHECK_INT(memcmp(in, out, sizeof in), 0);
	vg_virtual_gpu_destroy(vgpu);
	vg_context_destroy(context);
	vg_manager_destroy(manager);
}

struct watch {
	uint64_t bytes, total;
	unsigned calls, stop_at;
};

static int watch(void *user, uint64_t bytes, uint64_t total)
{
	struct watch *watch = user;

	CHECK(bytes > watch->bytes && bytes <= total);
	watch->bytes = bytes;
	watch->total = total;
	return ++watch->calls == watch->stop_at;
}

static int count_meanwhile(void *user, uint64_t bytes, uint64_t total)
{
	uint64_t in_host = info_of(user).memory_in_host;

	// Bytes that are being copied do not count as in the host yet.
	CHECK(in_host <= bytes);
	CHECK_INT(total, info_of(user).memory_held);
	return 0;
}

static atomic_bool has_moved;

static void *ask_often(void *user)
{
	struct vg_virtual_gpu *vgpu = user;
	uint64_t held = info_of(vgpu).memory_held;

	while (!atomic_load(&has_moved))
		CHECK(info_of(vgpu).memory_in_host <= held);
	return NULL;
}

TEST(figures_can_be_read_during_a_move)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 256 * MIB);
	const struct vg_virtual_gpu_move_options options = {
		.size = sizeof options, .progress = count_meanwhile, .user = vgpu};
	pthread_t thread;

	for (int i = 0; i < 3; i++)
		allocate(vgpu, 70 * MIB);
	OK(vg_virtual_gpu_pause(vgpu));
	CHECK_INT(pthread_create(&thread, NULL, ask_often, vgpu), 0);
	OK(vg_virtual_gpu_move_out(vgpu, &options));
	CHECK_INT(info_of(vgpu).memory_in_host, info_of(vgpu).memory_held);
	OK(vg_virtual_gpu_move_in(vgpu, NULL));
	atomic_store(&has_moved, 1);
	CHECK_INT(pthread_join(thread, NULL), 0);
	CHECK_INT(info_of(vgpu).memory_in_host, 0);
	OK(vg_virtual_gpu_resume(vgpu));
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

static int change_meanwhile(void *user, uint64_t bytes, uint64_t total)
{
	struct vg_virtual_gpu *vgpu = user;

	CHECK(bytes <= total);
	REFUSED(vg_virtual_gpu_pause(vgpu), VG_STATE, "is moving");
	REFUSED(vg_virtual_gpu_resume(vgpu), VG_STATE, "is moving");
	REFUSED(vg_virtual_gpu_move_out(vgpu, NULL), VG_STATE, "is moving");
	REFUSED(vg_virtual_gpu_move_in(vgpu, NULL), VG_STATE, "is moving");
	REFUSED(vg_virtual_gpu_set_memory_limit(vgpu, 128 * MIB), VG_STATE, "is moving");
	REFUSED(vg_virtual_gpu_set_compute_share(vgpu, 0.5), VG_STATE, "is moving");
	REFUSED(vg_virtual_gpu_scale_compute_units(vgpu, 1), VG_STATE, "is moving");
	return 0;
}

TEST(a_move_callback_cannot_change_the_vgpu)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 64 * MIB);
	const struct vg_virtual_gpu_move_options options = {
		.size = sizeof options, .progress = change_meanwhile, .user = vgpu};

	allocate(vgpu, 3 * MIB);
	OK(vg_virtual_gpu_pause(vgpu));
	OK(vg_virtual_gpu_move_out(vgpu, &options));
	OK(vg_virtual_gpu_move_in(vgpu, &options));
	OK(vg_virtual_gpu_resume(vgpu));
	OK(vg_virtual_gpu_set_memory_limit(vgpu, 128 * MIB));
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

TEST(a_progress_callback_can_stop_a_move)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 512 * MIB);
	static unsigned char in[MIB], out[MIB];
	vg_address block = allocate(vgpu, 200 * MIB);

	fill_bytes(in, sizeof in, 8);
	OK(vg_virtual_gpu_write(vgpu, block + 100 * MIB, in, sizeof in));
	OK(vg_virtual_gpu_pause(vgpu));
	for (unsigned stop_at = 0; stop_at < 3; stop_at++) {
		struct watch seen = {.stop_at = stop_at};
		const struct vg_virtual_gpu_move_options options = {
			.size = sizeof options, .progress = watch, .user = &seen};
		if (stop_at) {
			REFUSED(vg_virtual_gpu_move_out(vgpu, &options), VG_STATE, "stopped");
			CHECK_INT(info_of(vgpu).memory_in_host, 0);
			OK(vg_virtual_gpu_move_out(vgpu, NULL));
			seen = (struct watch){.stop_at = stop_at};
			REFUSED(vg_virtual_gpu_move_in(vgpu, &options), VG_STATE, "stopped");
			CHECK_INT(info_of(vgpu).memory_in_host, info_of(vgpu).memory_held);
		} else {
			OK(vg_virtual_gpu_move_out(vgpu, &options));
			CHECK(seen.calls >= 4); // the function was called for each 64 MiB that were copied
			CHECK_INT(seen.bytes, seen.total);
			CHECK_INT(seen.total, info_of(vgpu).memory_held);
		}
		OK(vg_virtual_gpu_move_in(vgpu, NULL));
		OK(vg_virtual_gpu_read(vgpu, out, block + 100 * MIB, sizeof out));
		CHECK_INT(memcmp(in, out, sizeof in), 0);
	}
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}
