#include "pager/gate.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "pager/drain.h"
#include "pager/page.h"

__thread PAGER_TLS struct pager_mark *pager_mark;
_Atomic uint32_t pager_gate;
static _Atomic(struct pager_mark *) marks;
static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;
// The slot in which waiting threads are counted; NULL: none. count_lock protects this variable and the next one.
static struct pager_slot *counted_in;
static uint32_t waiting;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // held while a thread adds or reuses a struct pager_mark
static void (*report_waiting)(uint64_t waited_ns);

enum { REPORT_FIRST_S = 5, REPORT_AGAIN_S = 60 };

static int register_membarrier(void)
{
	return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 ? 0 : -errno;
}

int pager_gate_start(void (*report)(uint64_t waited_ns))
{
	report_waiting = report;
	return register_membarrier();
}

void pager_gate_bar(void)
{
	atomic_store(&pager_gate, PAGER_GATE_CLOSED);
}

void pager_gate_count_in(struct pager_slot *slot)
{
	pthread_mutex_lock(&count_lock);
	counted_in = slot;
	if (slot)
		atomic_store(&slot->waiting, waiting);
	pthread_mutex_unlock(&count_lock);
}

// Adds `change` to the number of waiting threads, and `waited_ns` to their waiting time. The numbers are stored in the
// present slot: after a restore, the process has another slot than when the wait began.
static void count_waiting(int change, uint64_t waited_ns)
{
	pthread_mutex_lock(&count_lock);
	waiting += (uint32_t)change;
	if (counted_in) {
		atomic_store(&counted_in->waiting, waiting);
		atomic_fetch_add(&counted_in->waited_ns, waited_ns);
	}
	pthread_mutex_unlock(&count_lock);
}

static pid_t thread_id(void)
{
	return (pid_t)syscall(SYS_gettid);
}

static bool has_ended(const struct pager_mark *mark)
{
	pid_t thread = atomic_load(&mark->thread);

	return syscall(SYS_tgkill, getpid(), thread, 0) != 0 && errno == ESRCH;
}

// Returns a mark (struct pager_mark) whose thread has ended; NULL: there is no such mark.
static struct pager_mark *find_unused_mark(void)
{
	for (struct pager_mark *mark = atomic_load(&marks); mark; mark = mark->next)
		if (has_ended(mark)) {
			atomic_store(&mark->inside, 0);
			return mark;
		}
	return NULL;
}

// Gives this thread a mark. A thread may not enter the gate without a mark, so this waits until one can be allocated.
static void add_mark(void)
{
	struct pager_mark *mark;

	pthread_mutex_lock(&lock);
	mark = find_unused_mark();
	while (!mark) {
		mark = calloc(1, sizeof *mark);
		if (!mark) {
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
			continue;
		}
		mark->next = atomic_load(&marks);
		atomic_store(&mark->thread, thread_id());
		atomic_store(&marks, mark);
	}
	atomic_store(&mark->thread, thread_id());
	pthread_mutex_unlock(&lock);
	pager_mark = mark;
}

static void wait_while_closed(void)
{
	struct timespec patience = {.tv_sec = REPORT_FIRST_S};
	uint64_t began_ns = vg_clock_monotonic_ns();

	count_waiting(1, 0);
	while (atomic_load(&pager_gate) == PAGER_GATE_CLOSED) {
		if (syscall(SYS_futex, &pager_gate, FUTEX_WAIT_PRIVATE, PAGER_GATE_CLOSED, &patience, NULL, 0) == 0 ||
		    errno != ETIMEDOUT)
			continue;
		patience.tv_sec = REPORT_AGAIN_S;
		report_waiting(vg_clock_monotonic_ns() - began_ns);
	}
	count_waiting(-1, vg_clock_monotonic_ns() - began_ns);
}

void pager_gate_wait(void)
{
	int saved = errno;

	if (!pager_mark)
		add_mark();
	atomic_compare_exchange_strong(&pager_gate, &(uint32_t){PAGER_GATE_ASKS}, PAGER_GATE_OPEN);
	if (atomic_load(&pager_gate) == PAGER_GATE_CLOSED)
		wait_while_closed();
	errno = saved;
}

void pager_gate_open(void)
{
	atomic_store(&pager_gate, PAGER_GATE_OPEN);
	syscall(SYS_futex, &pager_gate, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

// Makes all threads of the process pass a memory barrier. Registers for membarrier() again if necessary, because CRIU
// before 4.2 loses the registration. Returns false if the kernel refuses both.
static bool pass_memory_barriers(void)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0)
		return true;
	return errno == EPERM && register_membarrier() == 0 &&
	       syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

static const struct pager_mark *find_thread_inside(void)
{
	for (const struct pager_mark *mark = atomic_load(&marks); mark; mark = mark->next)
		if (atomic_load_explicit(&mark->inside, memory_order_acquire) != 0 && !has_ended(mark))
			return mark;
	return NULL;
}

bool pager_gate_was_used(void)
{
	return atomic_exchange(&pager_gate, PAGER_GATE_ASKS) == PAGER_GATE_OPEN || find_thread_inside() != NULL;
}

bool pager_gate_close(uint64_t deadline_ns, uint32_t *ret_row)
{
	const struct pager_mark *inside;
	long pause_ns = PAGER_POLL_LEAST_NS;

	*ret_row = 0;
	pager_gate_bar();
	if (!pass_memory_barriers()) {
		pager_gate_open();
		return false;
	}
	while ((inside = find_thread_inside()) != NULL) {
		if (vg_clock_monotonic_ns() >= deadline_ns) {
			*ret_row = atomic_load(&inside->row);
			pager_gate_open();
			return false;
		}
		pager_sleep(pause_ns);
		pause_ns = pager_longer(pause_ns, PAGER_POLL_MOST_NS);
	}
	return true;
}

void pager_gate_reset(void)
{
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	lock = fresh;
	count_lock = fresh;
	atomic_store(&marks, NULL);
	counted_in = NULL;
	waiting = 0;
	atomic_store(&pager_gate, PAGER_GATE_OPEN);
	pager_mark = NULL;
}
