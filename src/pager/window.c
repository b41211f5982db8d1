#include "pager/window.h"

#include <errno.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "pager/drain.h"
#include "pager/driver.h"
#include "pager/host_file.h"

static const long look_ns = 50000, look_most_ns = 1000000;
static const uint64_t look_at_lock_ns = 100000000; // interval of the checks whether the restore still runs

static struct {
	struct pager_file file;
	int fd;
	struct window_head *head; // the mapped file; NULL: no window is open
	size_t size;
	uint32_t *order;
	char *places;
	uint64_t wanted; // length of `order`
	uint64_t next;	 // number of the block that is read next
	bool is_pinned;
	int error; // errno; 0: none
} window;

static void close_window(void)
{
	munmap(window.head, window.size);
	close(window.fd);
	window.head = NULL;
	window.wanted = window.next = 0;
}

static int map_window(int fd)
{
	struct stat info;

	if (fstat(fd, &info) < 0)
		return -errno;
	if (info.st_size < WINDOW_BLOCK)
		return -EINVAL;
	void *memory = mmap(NULL, (size_t)info.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	madvise(memory, (size_t)info.st_size, MADV_DONTFORK);
	window.fd = fd;
	window.head = memory;
	window.size = (size_t)info.st_size;
	return 0;
}

// Checks the sizes in the head against the size of the file.
static bool is_sound(void)
{
	const struct window_head *head = window.head;
	uint64_t blocks = head->blocks, places = head->places;

	return blocks <= UINT32_MAX && places && places <= WINDOW_MOST &&
	       (places >= WINDOW_LEAST || places >= blocks) &&
	       window_places_at(blocks) + places * WINDOW_BLOCK <= window.size;
}

// Returns whether a process still serves the window: then this process cannot lock the file.
static bool is_served(void)
{
	if (flock(window.fd, LOCK_SH | LOCK_NB) < 0)
		return errno == EWOULDBLOCK;
	flock(window.fd, LOCK_UN);
	return false;
}

int pager_window_open(const struct pager_file *file)
{
	int fd = pager_file_open(file), r = fd < 0 ? fd : map_window(fd);

	if (r < 0) {
		if (fd >= 0)
			close(fd);
		return r;
	}
	r = !is_sound()					      ? -EINVAL
	    : !is_served()				      ? -ECONNRESET
	    : atomic_load(&window.head->state) != WINDOW_IDLE ? -ECANCELED
							      : 0;
	if (r < 0) {
		close_window();
		return r;
	}
	window.file = *file;
	window.order = (uint32_t *)((char *)window.head + WINDOW_ORDER);
	window.places = (char *)window.head + window_places_at(window.head->blocks);
	window.error = 0;
	return 0;
}

void pager_window_want(uint64_t block)
{
	if (window.wanted < window.head->blocks)
		window.order[window.wanted++] = (uint32_t)block;
}

bool pager_window_begin(void)
{
	size_t size = window.head->places * WINDOW_BLOCK;

	// Copies from memory that could not be pinned are slower, but right.
	window.is_pinned = pager_driver.cuMemHostRegister_v2(window.places, size, 0) == CUDA_SUCCESS;
	atomic_store(&window.head->wanted, window.wanted);
	atomic_store(&window.head->state, WINDOW_READING);
	// The restore sets `closed` before it reads `state`. So either it sees that this process has begun, or this
	// process sees that the restore does not wait any longer.
	return !atomic_load(&window.head->closed);
}

// Waits until the block is in its place. Returns an errno, or 0.
static int wait_for_block(const _Atomic uint64_t *ready, uint64_t number)
{
	uint64_t looked_ns = vg_clock_monotonic_ns();
	long pause_ns = look_ns;

	while (atomic_load_explicit(ready, memory_order_acquire) != number + 1) {
		if (atomic_load(&window.head->failed))
			return EIO;
		if (vg_clock_monotonic_ns() - looked_ns > look_at_lock_ns) {
			if (!is_served())
				return ECONNRESET;
			looked_ns = vg_clock_monotonic_ns();
		}
		pager_sleep(pause_ns);
		pause_ns = pause_ns < look_most_ns ? pause_ns + look_ns / 10 : look_most_ns;
	}
	return 0;
}

void *pager_window_next(void)
{
	uint64_t number = window.next;

	if (!window.head || number == window.wanted) {
		window.error = EINVAL;
		return NULL;
	}
	uint64_t place = number % window.head->places;
	window.error = wait_for_block(&window.head->ready[place], number);
	if (window.error)
		return NULL;
	window.next++;
	return window.places + place * WINDOW_BLOCK;
}

uint64_t pager_window_count(void)
{
	return window.next;
}

void pager_window_give(uint64_t count)
{
	if (window.head)
		atomic_store_explicit(&window.head->taken, count, memory_order_release);
}

int pager_window_error(void)
{
	return window.error;
}

void pager_window_unpin(void)
{
	if (window.is_pinned)
		pager_driver.cuMemHostUnregister(window.places);
	window.is_pinned = false;
}

void pager_window_reset(void)
{
	if (window.head)
		close(window.fd);
	window.head = NULL;
	window.wanted = window.next = 0;
	window.is_pinned = false;
}

void pager_window_end(enum window_state outcome)
{
	atomic_store(&window.head->state, outcome);
	if (outcome != WINDOW_DECLINED)
		pager_file_unlink(&window.file);
	close_window();
}
