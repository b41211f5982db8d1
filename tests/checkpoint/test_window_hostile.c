// Tests the restore's side of the window (pager/window.h) with a process that writes false values into the window, or
// truncates it. No such process may stop the restore by SIGBUS, or make it read or write other memory.
#include "window_test.h"

static uint64_t claimed;

// States a length of the list that it does not have.
static void *claim(void *unused)
{
	put(offsetof(struct window_head, wanted), &claimed, sizeof claimed);
	put_state(WINDOW_READING);
	return unused;
}

TEST(a_false_list_is_refused)
{
	static const uint64_t lengths[] = {COUNT + 1, UINT32_MAX, UINT64_MAX, UINT64_MAX / 4 + 1};
	static const uint32_t blocks[] = {COUNT, INT32_MAX, UINT32_MAX};
	struct opened *opened = image_for(claim);

	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		claimed = lengths[i];
		check_fails(serve(opened, NULL), VG_INTEGRITY, "wants more blocks of device memory than the image has");
	}
	for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
		prepare_client(opened, kinds, answer_later);
		answer = WINDOW_READING;
		client.order[COUNT - 1] = blocks[i];
		check_fails(serve(opened, NULL), VG_INTEGRITY, "wants a block that the image does not have");
	}
	close_image(opened);
}

static void *take_more_than_all(void *unused)
{
	put_taken(client.count);
	begin();
	for (uint64_t i = client.count - client.places; i < client.count; i++)
		await_block(i);
	put_taken(UINT64_MAX);
	put_taken(0);
	put_state(WINDOW_DONE);
	return unused;
}

// Such a process gets its own memory wrong, and nothing else.
TEST(a_false_number_of_taken_blocks_does_no_harm)
{
	static const unsigned many[MANY];

	close_image(image_for(NULL));
	struct opened *opened = make_image(many, MANY);
	prepare_client(opened, many, take_more_than_all);
	struct outcome outcome = serve(opened, NULL);
	CHECK_INT(outcome.status, VG_OK);
	CHECK_INT(outcome.bytes, MANY * (uint64_t)BLOCK);
	close_image(opened);
}

static _Atomic bool is_waiting; // the service waits for the process to begin

static int note_waiting(void *user, const struct vg_checkpoint_progress *progress)
{
	(void)user;
	is_waiting = progress->seconds > 0;
	return 0;
}

// Before that, the service allocates the places.
static void await_service(void)
{
	while (!is_waiting && !client.is_over)
		usleep(1000);
}

static void *truncate_at_once(void *unused)
{
	await_service();
	(void)!ftruncate(client.fd, 0);
	return unused;
}

static void *truncate_order(void *unused)
{
	await_service();
	(void)!ftruncate(client.fd, WINDOW_ORDER);
	put(offsetof(struct window_head, wanted), &client.wanted, sizeof client.wanted);
	put_state(WINDOW_READING);
	return unused;
}

static void *truncate_places(void *unused)
{
	await_service();
	(void)!ftruncate(client.fd, (off_t)window_places_at(client.count));
	begin();
	return unused;
}

static void *truncate_later(void *unused)
{
	take_two(NULL);
	(void)!ftruncate(client.fd, 0);
	return unused;
}

// The state is zero as in a file that was truncated and has grown again.
static void *clear_later(void *unused)
{
	take_two(NULL);
	put_state(WINDOW_IDLE);
	return unused;
}

TEST(a_truncated_window_fails_the_service)
{
	static const struct {
		const char *name;
		void *(*run)(void *);
		bool has_many_blocks; // more than places
	} cases[] = {
		{"at once", truncate_at_once, false},	{"the list", truncate_order, false},
		{"the places", truncate_places, false}, {"later", truncate_later, false},
		{"cleared later", clear_later, false},	{"while places are awaited", truncate_later, true},
	};
	static const unsigned many[MANY];
	struct opened *few = image_for(NULL), *large = make_image(many, MANY);

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct opened *opened = cases[i].has_many_blocks ? large : few;
		printf("# %s\n", cases[i].name);
		prepare_client(opened, opened == large ? many : kinds, cases[i].run);
		is_waiting = false;
		check_fails(serve(opened, note_waiting), VG_INTEGRITY, "was truncated");
	}
	close_image(few);
	close_image(large);
}
