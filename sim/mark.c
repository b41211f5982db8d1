// Implements marks: objects that threads and processes wait for. A mark is done when all work before it has ended. It
// consists of a futex and a time.
#include <linux/futex.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "context.h"
#include "mark.h"
#include "process.h"

// Sleeps while the word is `value`. `operation` is FUTEX_WAIT, or FUTEX_WAIT_PRIVATE if only this process uses the
// word.
static void futex_wait(const _Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout)
{
	syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}

static void futex_wake(const _Atomic uint32_t *word, int operation)
{
	syscall(SYS_futex, word, operation, INT_MAX, NULL, NULL, 0);
}

struct sim_mark *sim_mark_new(void)
{
	struct sim_mark *mark = calloc(1, sizeof *mark);
	if (!mark)
		abort(); // the host is out of memory
	atomic_init(&mark->references, 1);
	return mark;
}

struct sim_mark *sim_mark_ref(struct sim_mark *mark)
{
	if (mark)
		atomic_fetch_add_explicit(&mark->references, 1, memory_order_relaxed);
	return mark;
}

void sim_mark_unref(struct sim_mark *mark)
{
	if (mark && atomic_fetch_sub_explicit(&mark->references, 1, memory_order_acq_rel) == 1)
		free(mark);
}

// Wakes the threads that wait for the mark. The member `done` is 0 at first, 2 while a thread sleeps, and 1 once the
// mark is done.
void sim_mark_finish(struct sim_mark *mark)
{
	sim_mark_finish_at(mark, sim_device_clock_ns());
}

void sim_mark_finish_at(struct sim_mark *mark, uint64_t time_ns)
{
	atomic_store_explicit(&mark->time_ns, time_ns, memory_order_relaxed);
	// Other processes wait for an interprocess event by its counter in the node's shared state.
	if (mark->event) {
		struct region_event *event = mark->event;
		uint32_t seen = atomic_load(&event->completed);
		atomic_store(&event->time_ns, time_ns);
		while ((int32_t)(mark->event_value - seen) > 0 &&
		       !atomic_compare_exchange_weak(&event->completed, &seen, mark->event_value))
			;
		futex_wake(&event->completed, FUTEX_WAKE);
	}
	if (atomic_exchange_explicit(&mark->done, 1, memory_order_acq_rel) == 2)
		futex_wake(&mark->done, FUTEX_WAKE_PRIVATE);
}

// Returns whether another process has recorded the event and its work has ended. The event's counter in the node's
// shared state says so.
static bool is_foreign_done(const struct sim_mark *mark)
{
	return mark->foreign && (int32_t)(atomic_load(&mark->event->completed) - mark->event_value) >= 0;
}

bool sim_mark_is_done(const struct sim_mark *mark)
{
	return atomic_load_explicit(&mark->done, memory_order_acquire) == 1 || is_foreign_done(mark);
}

void sim_mark_wait(const struct sim_mark *mark_, const atomic_int *cancel)
{
	struct sim_mark *mark = (struct sim_mark *)mark_; // written only to note that a thread sleeps
	const struct timespec slice = {.tv_nsec = 20000000};

	while (!sim_mark_is_done(mark)) {
		int stop = cancel ? atomic_load_explicit(cancel, memory_order_relaxed) : 0;
		if (stop == SIM_CANCEL_WAITS || (stop && mark->foreign))
			return;
		if (mark->foreign) {
			// The process that recorded the event may die before the event completes. So check regularly
			// whether it lives.
			uint32_t seen = atomic_load(&mark->event->completed);
			if (!is_foreign_done(mark))
				futex_wait(&mark->event->completed, FUTEX_WAIT, seen, &slice);
			if (!is_foreign_done(mark) && !region_event_expected(sim_process.region, mark->event))
				return;
			continue;
		}
		uint32_t not_yet = 0;
		if (atomic_compare_exchange_strong(&mark->done, &not_yet, 2) || not_yet == 2)
			futex_wait(&mark->done, FUTEX_WAIT_PRIVATE, 2, cancel ? &slice : NULL);
	}
}
