// Waits for descriptors, and calls the function of each one that is ready. Main thread only.
#pragma once
#include <stdint.h>

struct source {
	int fd;
	// May remove and free any source.
	void (*ready)(struct source *source, uint32_t events);
};

struct loop {
	int epoll;
};

// Return 0 or -errno. `events` are those of epoll_ctl(2).
int loop_init(struct loop *loop);
int loop_add(struct loop *loop, struct source *source, uint32_t events);
int loop_change(struct loop *loop, struct source *source, uint32_t events);
// Closes the descriptor, too. A descriptor of -1 is skipped.
void loop_close(struct loop *loop, struct source *source);
// Waits up to `timeout_ms`, and handles one event.
void loop_step(struct loop *loop, int timeout_ms);
// Milliseconds of the clock that never goes back.
uint64_t loop_now_ms(void);
