// Plays the restore of a parked process: passes its memory to it through a window (pager/window.h). The process and its
// restore are the same process here; the kernel still tells their locks apart, because each opens the file itself.
// Include once.
#pragma once
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>

#include "pager/window.h"
#include "parked.h"

// The restore. One at a time.
static struct {
	char *contents; // of the file into which the memory was parked
	uint64_t blocks;
	struct pager_file file;	  // the window
	int fd;			  // holds the lock of the window; -1: closed
	struct window_head *head; // the mapped head, and after it the list of blocks
	pthread_t thread;
	bool is_serving;
	uint64_t most; // the thread serves at most so many blocks
	_Atomic uint64_t served;
	_Atomic bool stop;
} restore = {.fd = -1};

// Reads the memory of the parked process from its file, and removes the file.
static inline void take_contents(void)
{
	struct pager_file file = read_file();
	struct stat info;
	int fd = open(format_path(&file), O_RDONLY);

	CHECK(fd >= 0);
	CHECK_INT(fstat(fd, &info), 0);
	free(restore.contents);
	restore.contents = malloc((size_t)info.st_size);
	restore.blocks = (uint64_t)info.st_size / BLOCK;
	for (off_t at = 0; at < info.st_size; at += BLOCK)
		CHECK_INT(pread(fd, restore.contents + at, BLOCK, at), BLOCK);
	close(fd);
	CHECK_INT(unlink(format_path(&file)), 0);
}

static inline int make_named_file(struct pager_file *ret_file, uint64_t size)
{
	CHECK_INT(pager_file_choose(0, ret_file), 0);
	int fd = open(format_path(ret_file), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	CHECK_INT(ftruncate(fd, (off_t)size), 0);
	return fd;
}

// Makes a window with a lock.
static inline void make_window(uint64_t places)
{
	uint64_t places_at = window_places_at(restore.blocks);

	restore.fd = make_named_file(&restore.file, places_at + places * BLOCK);
	CHECK_INT(flock(restore.fd, LOCK_EX | LOCK_NB), 0);
	restore.head = mmap(NULL, places_at, PROT_READ | PROT_WRITE, MAP_SHARED, restore.fd, 0);
	CHECK(restore.head != MAP_FAILED);
	restore.head->blocks = restore.blocks;
	restore.head->places = places;
	restore.most = UINT64_MAX;
	restore.stop = false;
	restore.served = 0;
}

// Makes a window with as many places as a restore makes.
static inline void make_usual_window(void)
{
	make_window(restore.blocks < WINDOW_MOST ? restore.blocks : WINDOW_MOST);
}

// Stores in the slot which file has the memory of the process, and whether that file is a window.
static inline void offer(const struct pager_file *file, enum pager_source source)
{
	atomic_store(&slot->source, PAGER_EXCHANGE);
	slot->file[0] = file->process;
	slot->file[1] = file->start_time;
	slot->file[2] = file->number;
	atomic_store(&slot->source, source);
}

// Lets the process run after the restore. It finds the window in its slot.
static inline void let_run(void)
{
	offer(&restore.file, PAGER_WINDOW);
	atomic_store(&slot->park, 0);
	ring_bell();
}

// Waits until the process reads the window, if it is IDLE, or until it has ended that.
static inline void wait_while(enum window_state state)
{
	for (int i = 0; i < 20000 && atomic_load(&restore.head->state) == state; i++)
		pause_ms(1);
	CHECK(atomic_load(&restore.head->state) != state);
}

static inline bool may_fill_place(uint64_t number)
{
	while (!restore.stop && number >= atomic_load(&restore.head->taken) + restore.head->places)
		pause_ms(1);
	return !restore.stop;
}

static inline void *serve_blocks(void *unused)
{
	const uint32_t *order = (const uint32_t *)((const char *)restore.head + WINDOW_ORDER);
	uint64_t places = restore.head->places, places_at = window_places_at(restore.blocks);

	while (!restore.stop && atomic_load(&restore.head->state) == WINDOW_IDLE)
		pause_ms(1);
	for (uint64_t i = restore.served;
	     i < atomic_load(&restore.head->wanted) && i < restore.most && may_fill_place(i); i++) {
		off_t at = (off_t)(places_at + i % places * BLOCK);
		CHECK_INT(pwrite(restore.fd, restore.contents + (size_t)order[i] * BLOCK, BLOCK, at), BLOCK);
		atomic_store(&restore.head->ready[i % places], i + 1);
		restore.served = i + 1;
	}
	return unused;
}

static inline void join_service(void)
{
	if (restore.is_serving)
		pthread_join(restore.thread, NULL);
	restore.is_serving = false;
}

// Starts to serve the window, or goes on. `most`: how many blocks to serve in all.
static inline void serve(uint64_t most)
{
	join_service();
	restore.most = most;
	CHECK_INT(pthread_create(&restore.thread, NULL, serve_blocks, NULL), 0);
	restore.is_serving = true;
}

static inline void wait_until_served(uint64_t count)
{
	for (int i = 0; i < 20000 && restore.served < count; i++)
		pause_ms(1);
	CHECK_INT(restore.served, count);
}

// Ends the restore: closes the window, which also unlocks it.
static inline void close_window(void)
{
	restore.stop = true;
	join_service();
	munmap(restore.head, window_places_at(restore.blocks));
	close(restore.fd);
	restore.fd = -1;
}

// Parks the process, and makes the window from which it will get its memory.
static inline void park_for_window(uint32_t request_number)
{
	park(request_number);
	take_contents();
	make_usual_window();
}

static inline void check_no_host_memory(void)
{
	CHECK_INT(slot->host, 0);
	CHECK_INT(slot->file[2], 0);
	CHECK_INT(slot->source, PAGER_WHOLE_FILE);
	CHECK_INT(access(format_path(&restore.file), F_OK), -1);
	CHECK_INT(count_mappings(), 0);
	CHECK_INT(count_descriptors(), 0);
}

// Serves the rest of the window. Afterwards the process runs.
static inline void complete_restore(void)
{
	serve(UINT64_MAX);
	wait_for_answer();
	check_state(PAGER_RUNNING, PAGER_DONE);
	CHECK_INT(restore.head->state, WINDOW_DONE);
	CHECK_INT(restore.head->taken, restore.head->wanted);
	CHECK(slot->moved_ns > 0);
	close_window();
	check_no_host_memory();
}

// Gives the process its memory through the window.
static inline void restore_through_window(void)
{
	let_run();
	complete_restore();
}

// Exchanges a declined window for a file that has all of the memory.
static inline void exchange(void)
{
	struct pager_file file;

	wait_while(WINDOW_IDLE);
	wait_while(WINDOW_READING);
	CHECK_INT(restore.head->state, WINDOW_DECLINED);
	CHECK_INT(access(format_path(&restore.file), F_OK), 0);
	int fd = make_named_file(&file, restore.blocks * BLOCK);
	for (uint64_t i = 0; i < restore.blocks; i++)
		CHECK_INT(pwrite(fd, restore.contents + i * BLOCK, BLOCK, (off_t)(i * BLOCK)), BLOCK);
	close(fd);
	offer(&file, PAGER_WHOLE_FILE);
	ring_bell();
	close_window();
	CHECK_INT(unlink(format_path(&restore.file)), 0);
}
