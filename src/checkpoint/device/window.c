// The process may be hostile: it can write anything into the window, and truncate it. So the head is read and written
// with pread() and pwrite(), and the places with process_vm_writev(), none of which raises SIGBUS.
#include "checkpoint/device/window.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/size.h"
#include "base/status.h"
#include "checkpoint/data/pool.h"
#include "checkpoint/device/reader.h"
#include "pager/host_file.h"
#include "pager/window.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

_Static_assert((int)WINDOW_BLOCK == (int)DEVICE_BLOCK, "a place has room for a block");

enum { MOST_THREADS = 16, LOOK_US = 50, WAIT_US = 1000 };
static const uint64_t begin_ns = 10000000000, stalled_ns = 60000000000;
static const uint64_t pause_ns = 1000000000; // a longer time between two looks means that this process was stopped

struct device_window {
	struct device_content content;
	int fd;
	uint64_t places, places_at; // number of places, and where they begin in the file
	char *map;		    // the places
	pthread_t allocator;	    // allocates the places while the driver restores the process
	bool is_allocating;
	int allocation_error; // errno; 0: none
	uint32_t *order;      // the blocks that the process needs, in its order
	uint64_t wanted;
	struct phase *phase;
	_Atomic uint64_t next;	  // number in `order` of the block that is read next
	_Atomic uint64_t taken;	  // how many blocks the process has taken, as it was read last
	_Atomic unsigned waiting; // how many threads wait until the process takes a block
	_Atomic unsigned running; // how many threads serve blocks
	uint64_t looked_ns;	  // when look_after() was called last
	uint64_t waits_ns; // since when this process waits for the restored one, and it takes nothing; 0: it does not
	uint64_t taken_before;
	_Atomic bool stop;
	pthread_mutex_t lock; // protects the members below
	enum vg_status status;
	struct vg_kept_error error;
};

static uint64_t count_places(uint64_t blocks)
{
	return blocks < WINDOW_MOST ? blocks : WINDOW_MOST;
}

uint64_t device_window_bytes(uint64_t memory_bytes)
{
	uint64_t blocks = memory_bytes / DEVICE_BLOCK;

	return window_places_at(blocks) + count_places(blocks) * DEVICE_BLOCK;
}

// ---- the head --------------------------------------------------------------------------------------------

static enum vg_status fail_truncated(void)
{
	return vg_fail(VG_INTEGRITY, 0, "the window for the device memory of a process was truncated");
}

// Reads a part of the file. Returns false if the file was truncated.
static bool read_part(const struct device_window *window, uint64_t offset, void *data, size_t size)
{
	return vg_read_all(window->fd, data, size, (off_t)offset) == (ssize_t)size;
}

static bool write_part(const struct device_window *window, uint64_t offset, const void *data, size_t size)
{
	return vg_write_all(window->fd, data, size, (off_t)offset) == 0;
}

#define READ_WORD(window, member, ret) \
	read_part(window, offsetof(struct window_head, member), ret, sizeof((struct window_head *)0)->member)
#define WRITE_WORD(window, member, value) \
	write_part(window, offsetof(struct window_head, member), value, sizeof((struct window_head *)0)->member)

static bool read_state(const struct device_window *window, uint32_t *ret_state)
{
	return READ_WORD(window, state, ret_state);
}

// ---- start -----------------------------------------------------------------------------------------------

static void *allocate_places(void *user)
{
	struct device_window *window = user;
	size_t size = window->places * DEVICE_BLOCK;

	if (madvise(window->map, size, MADV_POPULATE_WRITE) < 0)
		window->allocation_error = errno;
	if (window->allocation_error == EINVAL) // a kernel without MADV_POPULATE_WRITE
		window->allocation_error =
			fallocate(window->fd, 0, (off_t)window->places_at, (off_t)size) < 0 ? errno : 0;
	return NULL;
}

static int make_window(struct device_window *window)
{
	const struct window_head head = {.blocks = window->content.count, .places = window->places};
	size_t size = window->places * DEVICE_BLOCK;
	struct statvfs info;

	if (flock(window->fd, LOCK_EX | LOCK_NB) < 0 || fstatvfs(window->fd, &info) < 0)
		return -errno;
	if (info.f_blocks && (uint64_t)info.f_bavail * info.f_frsize < window->places_at + size)
		return -ENOSPC;
	// Allocate the list of blocks, too: the process would get a SIGBUS otherwise, if the file system is full.
	if (fallocate(window->fd, 0, 0, (off_t)window->places_at) < 0 ||
	    ftruncate(window->fd, (off_t)(window->places_at + size)) < 0)
		return -errno;
	int r = vg_write_all(window->fd, &head, sizeof head, 0);
	if (r)
		return r;
	void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, window->fd, (off_t)window->places_at);
	if (map == MAP_FAILED)
		return -errno;
	madvise(map, size, MADV_HUGEPAGE);
	window->map = map;
	r = -pthread_create(&window->allocator, NULL, allocate_places, window);
	window->is_allocating = r == 0;
	return r;
}

static enum vg_status fail_room(const struct device_window *window, int error)
{
	char text[VG_SIZE_TEXT];

	// EFAULT stands for the SIGBUS that a program would get: the file system is full.
	if (error == EFAULT)
		error = ENOSPC;
	return vg_fail(error == ENOSPC ? VG_INSUFFICIENT : VG_SYSTEM, error,
		       "the window of %s in " PAGER_FILE_DIRECTORY " for the device memory of a process: %s",
		       vg_size_format(window->places_at + window->places * DEVICE_BLOCK, text), strerror(error));
}

enum vg_status device_window_start(const struct device_content *content, int consume_fd,
				   struct device_window **ret_window)
{
	struct device_window *window = calloc(1, sizeof *window);

	if (!window) {
		close(consume_fd);
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a window");
	}
	*window = (struct device_window){.content = *content,
					 .fd = consume_fd,
					 .places = count_places(content->count),
					 .places_at = window_places_at(content->count)};
	pthread_mutex_init(&window->lock, NULL);
	int r = make_window(window);
	if (r == 0) {
		*ret_window = window;
		return VG_OK;
	}
	enum vg_status status = fail_room(window, -r);
	device_window_close(window);
	return status;
}

static void join_allocator(struct device_window *window)
{
	if (window->is_allocating)
		pthread_join(window->allocator, NULL);
	window->is_allocating = false;
}

void device_window_close(struct device_window *window)
{
	if (!window)
		return;
	join_allocator(window);
	if (window->map)
		munmap(window->map, window->places * DEVICE_BLOCK);
	close(window->fd); // also unlocks the file, so a process that still reads notices
	pthread_mutex_destroy(&window->lock);
	free(window->order);
	free(window);
}

// ---- blocks ----------------------------------------------------------------------------------------------

// Keeps the last error of this thread as the error of the service, unless there is an earlier one.
static void keep_error(struct device_window *window, enum vg_status status)
{
	static const uint32_t failed = 1;

	pthread_mutex_lock(&window->lock);
	if (!window->status) {
		window->status = status;
		vg_error_keep(&window->error);
	}
	pthread_mutex_unlock(&window->lock);
	window->stop = true;
	(void)WRITE_WORD(window, failed, &failed); // if this fails, the process notices the end of the lock
}

// Reads how many blocks the process has taken. Believes only values that can be true. Returns false if the file was
// truncated.
static bool read_taken(struct device_window *window)
{
	uint64_t taken;

	if (!READ_WORD(window, taken, &taken))
		return false;
	if (taken > window->taken && taken <= window->wanted)
		window->taken = taken;
	return true;
}

// Waits until the place of the block with this number is free. Returns false if the service ends meanwhile.
static bool wait_for_place(struct device_window *window, uint64_t number)
{
	window->waiting++;
	while (!window->stop && number >= window->taken + window->places) {
		if (!read_taken(window))
			keep_error(window, fail_truncated());
		else if (number >= window->taken + window->places)
			usleep(LOOK_US);
	}
	window->waiting--;
	return !window->stop;
}

// Returns whether the file `have_fd` contains the block.
static bool is_there(const struct device_content *content, size_t block)
{
	return content->have && content->blocks[block].codec != DEVICE_ZERO &&
	       content->have[block].codec != DEVICE_ZERO &&
	       memcmp(content->blocks[block].digest, content->have[block].digest, DIGEST_BYTES) == 0;
}

static enum vg_status load_block(const struct device_window *window, struct device_reader *reader, size_t block,
				 const unsigned char **ret_data)
{
	const struct device_content *content = &window->content;

	if (!is_there(content, block))
		return device_reader_load(reader, &content->blocks[block], ret_data);
	ssize_t length = vg_read_all(content->have_fd, reader->buffer, DEVICE_BLOCK, (off_t)block * DEVICE_BLOCK);
	*ret_data = reader->buffer;
	return length == DEVICE_BLOCK ? VG_OK
				      : vg_fail(VG_SYSTEM, length < 0 ? (int)-length : EIO,
						"the host memory that arrived ahead cannot be read");
}

// Writes a block into its place. Returns false if the file was truncated.
static bool write_place(const struct device_window *window, uint64_t place, const void *data)
{
	struct iovec from = {(void *)data, DEVICE_BLOCK}, to = {window->map + place * DEVICE_BLOCK, DEVICE_BLOCK};
	ssize_t written = process_vm_writev(getpid(), &from, 1, &to, 1, 0);

	if (written >= 0 || errno == EFAULT)
		return written == DEVICE_BLOCK;
	// The call is not allowed here.
	return write_part(window, window->places_at + place * DEVICE_BLOCK, data, DEVICE_BLOCK);
}

static enum vg_status serve_block(struct device_window *window, struct device_reader *reader, uint64_t number)
{
	const uint64_t place = number % window->places, ready = number + 1;
	const unsigned char *data;

	enum vg_status status = load_block(window, reader, window->order[number], &data);
	if (status || !wait_for_place(window, number))
		return status;
	if (!write_place(window, place, data))
		return fail_truncated();
	return write_part(window, offsetof(struct window_head, ready) + place * sizeof ready, &ready, sizeof ready)
		       ? VG_OK
		       : fail_truncated();
}

static void *serve_blocks(void *user)
{
	struct device_window *window = user;
	struct device_reader reader;
	uint64_t number;

	enum vg_status status = device_reader_begin(window->content.dir, &reader);
	if (status)
		keep_error(window, status);
	while (!window->stop && (number = window->next++) < window->wanted) {
		status = serve_block(window, &reader, number);
		if (status)
			keep_error(window, status);
		window->phase->bytes += DEVICE_BLOCK;
	}
	device_reader_end(&reader);
	window->running--;
	return NULL;
}

// ---- the service -----------------------------------------------------------------------------------------

// Waits until the process reads or has declined the window. If it does not begin in time, closes the window.
static enum vg_status wait_for_begin(struct device_window *window, const struct device_taker *taker,
				     uint32_t *ret_state)
{
	static const uint32_t closed = 1;
	uint64_t end_ns = vg_clock_monotonic_ns() + begin_ns;
	bool is_closed = false;

	for (;;) {
		if (!read_state(window, ret_state))
			return fail_truncated();
		if (*ret_state != WINDOW_IDLE || is_closed)
			return VG_OK;
		if (taker->is_gone(taker->user))
			return VG_OK;
		phase_tick(window->phase);
		usleep(WAIT_US);
		if (vg_clock_monotonic_ns() < end_ns)
			continue;
		// Close the window before its state is read for the last time: see pager_window_begin().
		if (!WRITE_WORD(window, closed, &closed))
			return fail_truncated();
		is_closed = true;
	}
}

static enum vg_status read_order(struct device_window *window)
{
	if (!READ_WORD(window, wanted, &window->wanted))
		return fail_truncated();
	if (window->wanted > window->content.count)
		return vg_fail(VG_INTEGRITY, 0, "a process wants more blocks of device memory than the image has");
	window->order = malloc((window->wanted + 1) * sizeof *window->order);
	if (!window->order)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of blocks");
	if (!read_part(window, WINDOW_ORDER, window->order, window->wanted * sizeof *window->order))
		return fail_truncated();
	for (uint64_t i = 0; i < window->wanted; i++)
		if (window->order[i] >= window->content.count)
			return vg_fail(VG_INTEGRITY, 0, "a process wants a block that the image does not have");
	return VG_OK;
}

// Returns whether the process has taken no block for a minute, although all threads wait for it.
static bool is_stalled(struct device_window *window)
{
	uint64_t now_ns = vg_clock_monotonic_ns();
	bool was_stopped = now_ns - window->looked_ns > pause_ns, waits = window->waiting == window->running;

	window->looked_ns = now_ns;
	if (!waits || was_stopped || window->taken != window->taken_before)
		window->waits_ns = 0;
	else if (window->waits_ns == 0)
		window->waits_ns = now_ns;
	window->taken_before = window->taken;
	return window->waits_ns && now_ns - window->waits_ns > stalled_ns;
}

// Sees whether the service must end.
static void look_after(struct device_window *window, const struct device_taker *taker)
{
	uint32_t state;

	phase_tick(window->phase);
	if (!read_taken(window) || !read_state(window, &state))
		keep_error(window, fail_truncated());
	else if (state != WINDOW_READING || taker->is_gone(taker->user))
		window->stop = true;
	else if (is_stalled(window))
		keep_error(window,
			   vg_fail(VG_STATE, 0, "process %d has taken no device memory for a minute", (int)taker->pid));
}

static void serve_all(struct device_window *window, const struct device_taker *taker)
{
	pthread_t threads[MOST_THREADS];
	unsigned wanted = pool_threads(0), count = 0;

	wanted = wanted < MOST_THREADS ? wanted : MOST_THREADS;
	window->running = wanted;
	while (count < wanted && pthread_create(&threads[count], NULL, serve_blocks, window) == 0)
		count++;
	window->running -= wanted - count;
	if (count == 0)
		keep_error(window, vg_fail(VG_NO_MEMORY, 0, "no thread can be started"));
	window->looked_ns = vg_clock_monotonic_ns();
	for (unsigned i = 0; i < count; i++)
		while (!phase_join(threads[i]))
			look_after(window, taker);
	// All blocks are in the window: wait until the process has taken the last ones.
	while (!window->stop) {
		look_after(window, taker);
		usleep(WAIT_US);
	}
}

static enum vg_status judge(const struct device_window *window, const struct device_taker *taker, bool *ret_declined)
{
	uint32_t state;

	if (window->status)
		return vg_fail(window->status, window->error.error.code, "%s", window->error.text);
	// A process that has begun does not become idle again, but a file that was truncated and has grown has zeroes.
	if (!read_state(window, &state) || (window->order && state == WINDOW_IDLE))
		return fail_truncated();
	if (state == WINDOW_DONE)
		return VG_OK;
	// A process that began just too late may not have declined yet.
	bool is_late = state == WINDOW_READING && !window->order;
	*ret_declined = (is_late || state == WINDOW_IDLE || state == WINDOW_DECLINED) && !taker->is_gone(taker->user);
	if (*ret_declined || (state != WINDOW_BROKEN && taker->is_gone(taker->user)))
		return VG_OK;
	return vg_fail(VG_DRIVER, 0, "process %d could not move its device memory to the GPU", (int)taker->pid);
}

enum vg_status device_window_serve(struct device_window *window, const struct device_taker *taker, struct phase *phase,
				   bool *ret_declined)
{
	uint32_t state;

	window->phase = phase;
	join_allocator(window);
	if (window->allocation_error)
		return fail_room(window, window->allocation_error);
	enum vg_status status = wait_for_begin(window, taker, &state);
	if (status == VG_OK && state == WINDOW_READING) {
		status = read_order(window);
		if (status)
			return status;
		serve_all(window, taker);
	}
	return status ? status : judge(window, taker, ret_declined);
}
