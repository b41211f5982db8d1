#include "loop.h"

#include <errno.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

int loop_init(struct loop *loop)
{
	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	return loop->epoll < 0 ? -errno : 0;
}

static int control(struct loop *loop, int operation, struct source *source, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = source};

	return epoll_ctl(loop->epoll, operation, source->fd, &event) < 0 ? -errno : 0;
}

int loop_add(struct loop *loop, struct source *source, uint32_t events)
{
	return control(loop, EPOLL_CTL_ADD, source, events);
}

int loop_change(struct loop *loop, struct source *source, uint32_t events)
{
	return control(loop, EPOLL_CTL_MOD, source, events);
}

void loop_close(struct loop *loop, struct source *source)
{
	if (source->fd < 0)
		return;
	control(loop, EPOLL_CTL_DEL, source, 0);
	close(source->fd);
	source->fd = -1;
}

// Handles one event at a time. The function of one source may free other sources, for which a batch could have events,
// too.
void loop_step(struct loop *loop, int timeout_ms)
{
	struct epoll_event event;

	if (epoll_wait(loop->epoll, &event, 1, timeout_ms) != 1)
		return;
	struct source *source = event.data.ptr;
	source->ready(source, event.events);
}

uint64_t loop_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}
