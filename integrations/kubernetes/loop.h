// Waits for descriptors, and calls the function of each one that is ready. Main thread only.
#pragma once
#include <stdint.h>

struct source {
	int fd;
	// Called when the descriptor is ready. May remove and free any source.
	void (*ready)(struct source *source, uint32_t events);
};

struct loop {
	int epoll;
};

// Return 0 or -errno. `events` are those of epoll_ctl(2).
int loop_init(struct loop *loop);
int loop_add(struct loop *loop, struct source *source, uint32_t events);
int loop_change(struct loop *loop, struct source *source, uint32_t events);
// Stops waiting for the descriptor and closes it. Does nothing if the descriptor is -1.
void loop_close(struct loop *loop, struct source *source);
// Waits for an event at most `timeout_ms`, and handles it.
void loop_step(struct loop *loop, int timeout_ms);
// Returns the time of CLOCK_MONOTONIC in milliseconds.
uint64_t loop_now_ms(void);
