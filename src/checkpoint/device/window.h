// Serves a window (pager/window.h), through which a restored process gets its device memory. Threads read blocks of an
// image into the window; the pager of the process copies them from there to the GPU. For one thread.
#pragma once
#include "checkpoint/image/device_index.h"
#include "checkpoint/process/phase.h"

struct device_window;
// Where the blocks come from.
struct device_content {
	const struct image_dir *dir;
	const struct device_block *blocks;
	size_t count;
	// The blocks that the file `have_fd` contains already, at their places; NULL: there is no such file
	const struct device_block *have;
	int have_fd;
};
// The process that takes the memory. is_gone() returns whether it has no use for the memory any more, because it ended
// or executed another program.
struct device_taker {
	pid_t pid; // for messages
	bool (*is_gone)(const void *user);
	const void *user;
};
// Returns the size of the window for a memory of so many bytes.
uint64_t device_window_bytes(uint64_t memory_bytes);
// Makes an empty file a window, and locks it. The content must outlive the window. Takes ownership of the descriptor,
// also on failure. INSUFFICIENT (no room for the window), SYSTEM, NO_MEMORY.
enum vg_status device_window_start(const struct device_content *content, int consume_fd,
				   struct device_window **ret_window);
// Serves the window until the process has all of its memory, or is gone. Calls phase_tick(), and adds the size of
// each block to phase->bytes; does not stop if the progress function asks to. *ret_declined: true: the process cannot
// move its memory to the GPU now, or has not begun within 10 seconds. INTEGRITY (a pack is damaged, or the window was
// truncated), INSUFFICIENT (no room for the window), STATE (the process has taken no block for a minute), DRIVER (the
// process could not move the memory), SYSTEM, NO_MEMORY.
enum vg_status device_window_serve(struct device_window *window, const struct device_taker *taker, struct phase *phase,
				   bool *ret_declined);
// Ends the service and frees the window, which may be NULL. If the process still reads, its memory is lost.
void device_window_close(struct device_window *window);
