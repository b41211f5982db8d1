// kill -9 of a publisher and of a reader at every step: the memory goes with its last holder, and nobody hangs. This
// room's sources are built here with a hook at each step.
#include "broker_test.h"

#include "share/step.h"

static int steps_left = -1;

void share_step(const char *where)
{
	if (steps_left >= 0 && steps_left-- == 0)
		kill(getpid(), SIGKILL);
}

// A region that is published, by hand: nothing in it fails the test.
static bool play_publisher(void)
{
	struct vg_publication *publication;
	struct vg_vram_handle handle;
	struct vg_share_offer *offer = offer_of(1, 8 * MIB, 1, &handle);

	if (vg_share_publish(node, "w", offer, NULL, &publication))
		return false;
	vg_share_offer_destroy(offer);
	vg_publication_withdraw(publication, NULL);
	vg_publication_destroy(publication);
	return vg_vram_free(handle) == VG_OK;
}

static bool play_reader(void)
{
	struct vg_vram_handle handle;
	struct vg_share_lease *lease;
	uint32_t word = 1;

	open_vram();
	if (vg_share_open(node, "w", NULL, &lease))
		return false;
	bool fine = vg_share_import(vram, vg_share_lease_offer(lease), 0, NULL, &handle) == VG_OK &&
		    vg_vram_read_at(handle, 0, &word, 4) == VG_OK && vg_vram_free(handle) == VG_OK;
	vg_share_lease_close(lease);
	return fine && word == 0;
}

// The role in a process of its own, killed at the step. True where there was no such step, and the role went well.
static bool play_to(bool (*role)(void), int step)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		alarm(TEST_CHILD_SECONDS);
		steps_left = step;
		_exit(!role());
	}
	CHECK_INT(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
	return WIFEXITED(status);
}

static struct vg_vram_handle held;

// A role that has done its part and waits until the pipe's end is closed; then it reads what it holds.
static pid_t start(void (*role)(void), int *ret_end)
{
	uint32_t word = 1;
	int ready[2], go[2];
	char byte;

	CHECK(pipe(ready) == 0 && pipe(go) == 0);
	pid_t child = fork();
	if (child == 0) {
		alarm(120);
		close(go[1]);
		role();
		if (write(ready[1], "1", 1) != 1 || read(go[0], &byte, 1) < 0)
			_exit(1);
		_exit(vg_vram_read_at(held, 0, &word, 4) != VG_OK || word != 0);
	}
	close(ready[1]);
	close(go[0]);
	CHECK_INT(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	*ret_end = go[1];
	return child;
}

static void publish_and_wait(void)
{
	publish("w", &held);
}

static void read_and_wait(void)
{
	OK(vg_share_import(open_vram(), vg_share_lease_offer(open_lease("w", 0)), 0, NULL, &held));
}

// In a process of its own, since this one must be forked from again.
static size_t free_memory(void)
{
	size_t free = 0;
	int result[2];

	CHECK_INT(pipe(result), 0);
	pid_t child = fork();
	if (child == 0) {
		free = free_on(vg_vram_device(open_vram()));
		_exit(write(result[1], &free, sizeof free) != sizeof free);
	}
	close(result[1]);
	CHECK_INT(read(result[0], &free, sizeof free), sizeof free);
	close(result[0]);
	waitpid(child, NULL, 0);
	return free;
}

static void await_free(size_t wanted)
{
	size_t free = free_memory();

	for (int i = 0; i < 50 && free < wanted; i++) {
		poll(NULL, 0, 20);
		free = free_memory();
	}
	CHECK(free >= wanted);
}

TEST(a_publisher_is_killed_at_every_step)
{
	open_node();
	size_t before = free_memory();
	int step = 0;
	while (!play_to(play_publisher, step)) {
		await_rows("w", 0);
		await_free(before);
		step++;
	}
	await_rows("w", 0);
	await_free(before);
	printf("%d steps of a publisher\n", step);
	CHECK(step >= 7);
}

TEST(a_reader_is_killed_at_every_step)
{
	int end, step = 0;

	open_node();
	size_t before = free_memory();
	pid_t publisher = start(publish_and_wait, &end);
	while (!play_to(play_reader, step)) {
		await_leases("w", 0);
		step++;
	}
	await_leases("w", 0);
	close(end);
	waitpid(publisher, NULL, 0);
	await_rows("w", 0);
	await_free(before);
	printf("%d steps of a reader\n", step);
	CHECK(step >= 4);
}

// A reader whose publisher was killed has the memory, and takes it along; the daemon's descriptor does not keep it.
TEST(the_last_holder_takes_the_memory_along)
{
	int publishers_end, readers_end, status;
	char state[16];

	open_node();
	size_t before = free_memory();
	pid_t publisher = start(publish_and_wait, &publishers_end);
	pid_t reader = start(read_and_wait, &readers_end);
	kill(publisher, SIGKILL);
	waitpid(publisher, NULL, 0);
	for (int i = 0; i < 500; i++) {
		listed("w", NULL, state);
		if (strcmp(state, "orphaned") == 0)
			break;
		poll(NULL, 0, 2);
	}
	CHECK_STR(state, "orphaned");
	close(readers_end);
	CHECK_INT(waitpid(reader, &status, 0), reader);
	CHECK_INT(status, 0); // it had its contents
	await_rows("w", 0);
	await_free(before);
	close(publishers_end);
}

// Both go while no daemon runs: the next one finds the page, and nobody to wait for.
TEST(both_are_killed_without_a_daemon)
{
	int publishers_end, readers_end, status;

	open_node();
	size_t before = free_memory();
	pid_t publisher = start(publish_and_wait, &publishers_end);
	pid_t reader = start(read_and_wait, &readers_end);
	kill_broker();
	kill(publisher, SIGKILL);
	waitpid(publisher, NULL, 0);
	close(readers_end);
	CHECK_INT(waitpid(reader, &status, 0), reader);
	CHECK_INT(status, 0);
	await_free(before);
	await_rows("w", 0); // asks, and so starts the next
	publisher = start(publish_and_wait, &readers_end);
	CHECK_INT(listed("w", NULL, NULL), 1);
	kill(publisher, SIGKILL);
	waitpid(publisher, NULL, 0);
	await_rows("w", 0);
	close(publishers_end);
	close(readers_end);
}
