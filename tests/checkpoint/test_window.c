// Tests the restore's side of the window (pager/window.h), through which a restored process gets its device memory.
// With VIRGATE_TEST_FULL, the only test is the one that waits 10 seconds.
#include <sched.h>
#include <sys/mount.h>

#include "window_test.h"

// ---- contents ------------------------------------------------------------------------------------------

TEST(all_kinds_of_blocks_arrive)
{
	struct opened *opened = image_for(take_all);
	bool has[DEVICE_CODECS] = {false};

	for (size_t i = 0; i < COUNT; i++)
		has[opened->index.blocks[i].codec] = true;
	CHECK(has[DEVICE_ZERO] && has[DEVICE_RAW] && has[DEVICE_LZ4]);
	CHECK_INT(device_window_bytes(COUNT * (uint64_t)BLOCK), (COUNT + 1) * BLOCK);
	check_served(serve(opened, NULL));
	client.wanted = 5; // the process may want fewer blocks
	client.arrived = 0;
	check_served(serve(opened, NULL));
	client.wanted = client.arrived = 0;
	check_served(serve(opened, NULL));
	close_image(opened);
}

// Takes the first block late, when all places are filled.
static void *take_all_late(void *unused)
{
	begin();
	for (uint64_t i = 0; i < client.places; i++)
		await_block(i);
	pause_ms(20); // the service must not fill a place again in this time
	return take_all(unused);
}

TEST(places_are_used_again)
{
	static unsigned many[MANY];

	close_image(image_for(NULL));
	for (unsigned i = 0; i < MANY; i++)
		many[i] = i % 16 ? 0 : i + 1;
	struct opened *opened = make_image(many, MANY);
	prepare_client(opened, many, take_all_late);
	CHECK_INT(device_window_bytes(MANY * (uint64_t)BLOCK), (WINDOW_MOST + 1) * (uint64_t)BLOCK);
	check_served(serve(opened, NULL));
	close_image(opened);
}

// Some blocks are in a file already. That file has other contents here, which shows where a block came from.
TEST(blocks_that_are_there_are_not_read_from_the_image)
{
	struct opened *opened = image_for(take_all);
	struct device_block have[COUNT];
	unsigned there[COUNT];

	for (unsigned i = 0; i < COUNT; i++) {
		have[i] = opened->index.blocks[i];
		there[i] = 100 + i;
		if (i % 2)
			memset(&have[i], 0, sizeof have[i]); // the file has zeroes there
	}
	have[4].digest[0] ^= 1; // an older block
	opened->content.have = have;
	opened->content.have_fd = memory_of(there, COUNT);
	for (unsigned i = 0; i < COUNT; i++)
		if (i % 2 || i == 4 || kinds[i] == 0)
			there[i] = kinds[i];
	client.kinds = there;
	check_served(serve(opened, NULL));
	CHECK_INT(ftruncate(opened->content.have_fd, 0), 0);
	check_fails(serve(opened, NULL), VG_SYSTEM, "the host memory that arrived ahead cannot be read");
	CHECK_INT(client.failed, 1);
	close(opened->content.have_fd);
	close_image(opened);
}

// ---- failures ------------------------------------------------------------------------------------------

TEST(a_damaged_pack_fails_the_service)
{
	struct opened *opened = image_for(take_all);

	damage(opened, 2); // compressed
	check_fails(serve(opened, NULL), VG_INTEGRITY, "device/pack-0000 is damaged");
	CHECK_INT(client.failed, 1);
	CHECK_INT(client.wrong, -1);
	damage(opened, 2);
	damage(opened, 11);
	check_fails(serve(opened, NULL), VG_INTEGRITY, "device/pack-0000 is damaged");
	CHECK_INT(client.failed, 1);
	CHECK_INT(client.wrong, -1);
	close_image(opened);
}

static void *end_at_once(void *unused)
{
	return unused;
}

static struct outcome serve_dying(const struct opened *opened, void *(*run)(void *))
{
	int fd = make_file(), go[2];

	client.run = run;
	client.fd = dup(fd);
	CHECK_INT(pipe(go), 0);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		run_client(NULL);
		_exit(0);
	}
	struct outcome outcome = serve_process(opened, fd, child, NULL);
	CHECK_CHILD(child);
	close(client.fd);
	return outcome;
}

TEST(the_service_ends_with_the_process)
{
	struct opened *opened = image_for(NULL);

	// A process that has ended needs no memory, so this is no failure.
	for (int i = 0; i < 2; i++) {
		struct outcome outcome = serve_dying(opened, i ? take_two : end_at_once);
		CHECK_INT(outcome.status, VG_OK);
		CHECK_INT(outcome.is_declined, 0);
	}
	close_image(opened);
}

// Asks to stop at the second call.
static int stop_later(void *user, const struct vg_checkpoint_progress *progress)
{
	(void)user;
	return progress->seconds > 0;
}

// The processes run already, so the service ends as usual.
TEST(the_service_ignores_a_request_to_stop)
{
	struct opened *opened = image_for(take_all_late);

	check_served(serve(opened, stop_later));
	close_image(opened);
}

static int mount_small(void)
{
	return unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	       mount("tmpfs", PAGER_FILE_DIRECTORY, "tmpfs", 0, "size=8m") < 0;
}

TEST(a_window_without_room_is_refused)
{
	struct opened *opened = image_for(end_at_once);
	int status;

	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		if (mount_small())
			_exit(77);
		check_fails(serve(opened, NULL), VG_INSUFFICIENT, "the window of 26.0 MiB in /dev/shm");
		_exit(0);
	}
	CHECK_INT(waitpid(child, &status, 0), child);
	close_image(opened);
	if (WEXITSTATUS(status) == 77)
		SKIP("no rights to mount a file system");
	CHECK_INT(status, 0);
}

// ---- answers of the process ----------------------------------------------------------------------------

TEST(a_process_may_decline)
{
	struct opened *opened = image_for(answer_at_once);

	answer = WINDOW_DECLINED;
	for (int i = 0; i < 2; i++) {
		struct outcome outcome = serve(opened, NULL);
		CHECK_INT(outcome.status, VG_OK);
		CHECK(outcome.is_declined);
		CHECK_INT(client.closed, 0);
		client.run = answer_later;
	}
	close_image(opened);
}

TEST(a_process_may_need_no_memory)
{
	struct opened *opened = image_for(answer_at_once);

	answer = WINDOW_DONE;
	struct outcome outcome = serve(opened, NULL);
	CHECK_INT(outcome.status, VG_OK);
	CHECK(!outcome.is_declined);
	CHECK_INT(outcome.bytes, 0);
	close_image(opened);
}

TEST(a_process_that_fails_fails_the_service)
{
	static const uint32_t answers[] = {WINDOW_BROKEN, 77, UINT32_MAX};
	struct opened *opened = image_for(NULL);

	for (int i = 0; i < 6; i++) {
		answer = answers[i / 2];
		client.run = i % 2 ? answer_later : answer_at_once;
		check_fails(serve(opened, NULL), VG_DRIVER, "could not move its device memory to the GPU");
	}
	close_image(opened);
}

TEST(a_process_that_does_not_begin_has_declined)
{
	if (!getenv("VIRGATE_TEST_FULL"))
		SKIP("waits 10 seconds; set VIRGATE_TEST_FULL=1");
	struct opened *opened = make_image(kinds, COUNT);
	prepare_client(opened, kinds, end_at_once);
	struct outcome outcome = serve(opened, NULL);
	CHECK_INT(outcome.status, VG_OK);
	CHECK(outcome.is_declined);
	CHECK_INT(client.closed, 1);
	close_image(opened);
}
