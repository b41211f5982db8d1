// Serves a window (pager/window.h) to a thread or a child that plays the restored process. It may be hostile. Include
// in exactly one file per program. One test at a time.
#pragma once
#include <pthread.h>
#include <stddef.h>

#include "checkpoint/device/window.h"
#include "checkpoint/image/directory.h"
#include "packs_test.h"
#include "pager/host_file.h"
#include "pager/window.h"

enum { COUNT = 12, MANY = WINDOW_MOST + 4 };

// ---- the image -----------------------------------------------------------------------------------------

// Zeroes, and blocks that LZ4 makes smaller or not.
static const unsigned kinds[COUNT] = {1, 0, 1001, 2, 3, 1002, 0, 4, 5, 1003, 6, 7};

struct opened {
	char path[PATH_MAX];
	struct image_dir dir;
	struct device_index index;
	struct device_content content;
};

// Makes an image and opens it. The caller calls close_image().
static inline struct opened *make_image(const unsigned *of, size_t count)
{
	static unsigned number;
	char name[32];

	struct opened *opened = calloc(1, sizeof *opened);
	struct image_files files = {0};
	json_t *text;

	snprintf(name, sizeof name, "window%u", number++);
	snprintf(opened->path, sizeof opened->path, "%s", path_of(name));
	must_make(opened->path, of, count, NULL, VG_COMPRESSION_LZ4, NULL);
	CHECK_INT(image_open(opened->path, &opened->dir), VG_OK);
	CHECK_INT(inspect_read(&opened->dir, &text, &files), VG_OK);
	CHECK_INT(device_index_read(&opened->dir, &files, &opened->index), VG_OK);
	CHECK_INT(opened->index.block_count, count);
	opened->content = (struct device_content){.dir = &opened->dir, .blocks = opened->index.blocks, .count = count};
	image_files_free(&files);
	json_decref(text);
	return opened;
}

static inline void close_image(struct opened *opened)
{
	device_index_free(&opened->index);
	image_close(&opened->dir);
	image_remove(opened->path);
	free(opened);
}

// Damages the stored bytes of a block.
static inline void damage(const struct opened *opened, size_t block)
{
	int fd = open(pack_of(opened->path, 0), O_RDWR);
	off_t at = (off_t)opened->index.blocks[block].offset + 100;
	unsigned char byte;

	CHECK_INT(pread(fd, &byte, 1, at), 1);
	byte ^= 1;
	CHECK_INT(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

// ---- the process ---------------------------------------------------------------------------------------

// Plays the process. It reads and writes the window by system calls, so that it may truncate it.
static struct client {
	void *(*run)(void *unused);
	int fd;
	uint64_t count, places;
	uint32_t order[MANY];
	uint64_t wanted;
	const unsigned *kinds; // expected contents of the blocks
	_Atomic bool is_over;  // the service has ended
	// Results
	uint64_t arrived; // number of blocks that have arrived
	int wrong;	  // number of a block with other contents; -1: none
	uint32_t failed, closed;
} client;

static inline void put(size_t offset, const void *data, size_t size)
{
	(void)!pwrite(client.fd, data, size, (off_t)offset);
}

static inline void put_state(uint32_t state)
{
	put(offsetof(struct window_head, state), &state, sizeof state);
}

static inline void put_taken(uint64_t taken)
{
	put(offsetof(struct window_head, taken), &taken, sizeof taken);
}

static uint32_t get_word(size_t offset)
{
	uint32_t word = 0;

	(void)!pread(client.fd, &word, sizeof word, (off_t)offset);
	return word;
}

// Begins to read the blocks of client.order.
static inline void begin(void)
{
	put(WINDOW_ORDER, client.order, client.wanted * sizeof *client.order);
	put(offsetof(struct window_head, wanted), &client.wanted, sizeof client.wanted);
	put_state(WINDOW_READING);
}

// Waits until block `number` of the order is in its place. Returns false if the service has failed or ended, or if a
// later block is in that place.
static inline bool await_block(uint64_t number)
{
	size_t at = offsetof(struct window_head, ready) + number % client.places * sizeof(uint64_t);

	while (!client.is_over) {
		uint64_t ready = 0;
		if (pread(client.fd, &ready, sizeof ready, (off_t)at) == sizeof ready && ready > number)
			return ready == number + 1;
		if (get_word(offsetof(struct window_head, failed)))
			return false;
		usleep(100);
	}
	return false;
}

// Takes a block and compares it.
static inline bool take(uint64_t number)
{
	unsigned char *wanted = malloc(BLOCK), *found = malloc(BLOCK);
	uint64_t at = window_places_at(client.count) + number % client.places * BLOCK;

	bool has_arrived = await_block(number);
	if (has_arrived) {
		fill_block(wanted, client.kinds[client.order[number]]);
		if (vg_read_all(client.fd, found, BLOCK, (off_t)at) != BLOCK || memcmp(wanted, found, BLOCK) != 0)
			client.wrong = (int)number;
		client.arrived++;
		put_taken(number + 1);
	}
	free(wanted);
	free(found);
	return has_arrived;
}

static inline void *take_all(void *unused)
{
	uint64_t number = 0;

	begin();
	while (number < client.wanted && take(number))
		number++;
	put_state(number == client.wanted ? WINDOW_DONE : WINDOW_BROKEN);
	return unused;
}

static inline void *take_two(void *unused)
{
	begin();
	take(0);
	take(1);
	return unused;
}

static uint32_t answer;

static inline void *answer_at_once(void *unused)
{
	put_state(answer);
	return unused;
}

static inline void *answer_later(void *unused)
{
	take_two(NULL);
	put_state(answer);
	return unused;
}

// ---- the service ---------------------------------------------------------------------------------------

struct outcome {
	enum vg_status status;
	char text[512];
	bool is_declined;
	uint64_t bytes;
};

static inline int make_file(void)
{
	int fd = open(PAGER_FILE_DIRECTORY, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	return fd;
}

// Prepares a client that wants all blocks, in a scrambled order.
static inline void prepare_client(const struct opened *opened, const unsigned *expected, void *(*run)(void *))
{
	uint64_t count = opened->content.count;

	client = (struct client){.run = run,
				 .count = count,
				 .places = count < WINDOW_MOST ? count : WINDOW_MOST,
				 .wanted = count,
				 .kinds = expected,
				 .wrong = -1};
	for (uint64_t i = 0; i < count; i++)
		client.order[i] = (uint32_t)((i * 7 + 3) % count);
}

struct process {
	pid_t pid;
	uint64_t start_time;
};

static inline bool has_ended(const void *user)
{
	const struct process *process = user;

	return vg_process_is_dead(process->pid, process->start_time);
}

// Serves the window to the client, which is process `pid`. `progress` may be NULL.
static inline struct outcome serve_process(const struct opened *opened, int fd, pid_t pid,
					   vg_checkpoint_progress_fn *progress)
{
	struct vg_checkpoint_result result = {0};
	struct phase phase = {.progress = progress, .result = &result};
	struct device_window *window = NULL;
	struct outcome outcome = {VG_OK};
	struct process process = {.pid = pid};
	const struct device_taker taker = {pid, has_ended, &process};

	CHECK_INT(phase_begin(&phase, VG_CHECKPOINT_DEVICE_IN), VG_OK);
	CHECK_INT(vg_process_start_time(pid, &process.start_time), 0);
	outcome.status = device_window_start(&opened->content, fd, &window);
	if (outcome.status == VG_OK)
		outcome.status = device_window_serve(window, &taker, &phase, &outcome.is_declined);
	snprintf(outcome.text, sizeof outcome.text, "%s", outcome.status ? vg_last_error()->text : "");
	outcome.bytes = phase.bytes;
	device_window_close(window);
	return outcome;
}

// The thread may begin before the window is one.
static inline void *run_client(void *unused)
{
	while (!client.is_over && get_word(offsetof(struct window_head, places)) == 0)
		usleep(100);
	return client.run(unused);
}

static inline struct outcome serve(const struct opened *opened, vg_checkpoint_progress_fn *progress)
{
	int fd = make_file();
	pthread_t thread;

	client.fd = dup(fd);
	client.is_over = false;
	CHECK_INT(pthread_create(&thread, NULL, run_client, NULL), 0);
	struct outcome outcome = serve_process(opened, fd, getpid(), progress);
	client.is_over = true;
	CHECK_INT(pthread_join(thread, NULL), 0);
	client.failed = get_word(offsetof(struct window_head, failed));
	client.closed = get_word(offsetof(struct window_head, closed));
	close(client.fd);
	return outcome;
}

static inline void check_served(struct outcome outcome)
{
	if (outcome.status || outcome.is_declined || client.wrong >= 0)
		FAIL("%d %d: %s; block %d of the order", (int)outcome.status, outcome.is_declined, outcome.text,
		     client.wrong);
	CHECK_INT(client.arrived, client.wanted);
	CHECK_INT(outcome.bytes, client.wanted * BLOCK);
}

static inline void check_fails(struct outcome outcome, enum vg_status status, const char *text)
{
	if (outcome.status != status || outcome.is_declined)
		FAIL("%d %d: %s", (int)outcome.status, outcome.is_declined, outcome.text);
	CHECK_CONTAINS(outcome.text, text);
}

// Skips all tests but one if VIRGATE_TEST_FULL is set.
static inline struct opened *image_for(void *(*run)(void *))
{
	if (getenv("VIRGATE_TEST_FULL"))
		SKIP("runs without VIRGATE_TEST_FULL");
	struct opened *opened = make_image(kinds, COUNT);
	prepare_client(opened, kinds, run);
	return opened;
}
