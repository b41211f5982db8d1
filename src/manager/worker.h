// The thread of a monitor or a balancer, and what others and it wait for: it cannot be ended by itself, and by any
// number of others. Its lock is also that of what it works on.
#pragma once
#include "base/status.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct manager_worker {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake; // the thread; on the monotonic clock
	pthread_cond_t told; // the others: what they wait for may have come, or the thread has ended
	bool stopping;	     // under the lock, as the other two
	bool joining, gone;
};
void manager_worker_init(struct manager_worker *worker);
// The program's signals are not for the thread. SYSTEM.
enum vg_status manager_worker_start(struct manager_worker *worker, void *(*run)(void *argument), void *argument,
				    const char *what);
// Whether it is the thread that asks; under the lock.
bool manager_worker_is_self(const struct manager_worker *worker);
// Waits until the thread has ended. STATE: it is the thread that asks.
enum vg_status manager_worker_stop(struct manager_worker *worker, const char *what);
// Until somebody wakes the thread, or `when`; under the lock.
void manager_worker_sleep(struct manager_worker *worker, uint64_t when_ns);
// A condition whose timed waits are on the monotonic clock.
void manager_condition_init(pthread_cond_t *condition);
