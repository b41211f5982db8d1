// Kills a publisher and a reader with SIGKILL at each step of their work. The memory must be freed with the last
// process that uses it, and no process may hang. For this test, src/share is built with a call of a hook at each step.
#include "broker_test.h"

#include "share/step.h"

static int steps_left = -1;

void share_step(const char *where)
{
	if (steps_left >= 0 && steps_left-- == 0)
		kill(getpid(), SIGKILL);
}

// Publishes a region. Ignores failures: they are expected when the process is killed.
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

// Runs the role of a publisher or reader in a child that is killed at step `step`. Returns true if the role ended
// before that step, and succeeded.
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

// Starts a child that plays a role. When it is done, the child waits until the caller closes *ret_end.
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

// Queries the driver in a child, because this process must not use the driver: its later children could not use it
// then.
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

TEST(publisher_can_be_killed_at_every_step)
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

TEST(reader_can_be_killed_at_every_step)
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

// A reader keeps the memory of a killed publisher. When the reader ends, the memory must be freed, although the daemon
// still has a descriptor of it.
TEST(memory_is_freed_with_its_last_process)
{
	int publishers_end, readers_end;
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
	CHECK_CHILD(reader); // the reader read the right contents
	await_rows("w", 0);
	await_free(before);
	close(publishers_end);
}

// The publisher and the reader end while no daemon runs. The next daemon finds the page of their publication, and must
// not wait for them.
TEST(publisher_and_reader_can_end_without_a_daemon)
{
	int publishers_end, readers_end;

	open_node();
	size_t before = free_memory();
	pid_t publisher = start(publish_and_wait, &publishers_end);
	pid_t reader = start(read_and_wait, &readers_end);
	kill_broker();
	kill(publisher, SIGKILL);
	waitpid(publisher, NULL, 0);
	close(readers_end);
	CHECK_CHILD(reader);
	await_free(before);
	await_rows("w", 0); // this request starts the next daemon
	publisher = start(publish_and_wait, &readers_end);
	CHECK_INT(listed("w", NULL, NULL), 1);
	kill(publisher, SIGKILL);
	waitpid(publisher, NULL, 0);
	await_rows("w", 0);
	close(publishers_end);
	close(readers_end);
}
