// The thread of a monitor or a balancer. Any number of other threads can stop it, but not the thread itself. Its lock
// also protects the data of its owner.
#pragma once
#include "base/status.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct manager_worker {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;	// wakes the thread; monotonic clock
	pthread_cond_t changed; // wakes other threads: their condition may hold, or the thread has ended
	bool stopping;		// this and the next two: under the lock
	bool joining, gone;
};
void manager_worker_init(struct manager_worker *worker);
// Starts the thread with all signals blocked. SYSTEM.
enum vg_status manager_worker_start(struct manager_worker *worker, void *(*run)(void *argument), void *argument,
				    const char *what);
// Returns whether the caller is the thread. Call with the lock.
bool manager_worker_is_self(const struct manager_worker *worker);
// Waits until the thread has ended. STATE: the caller is the thread.
enum vg_status manager_worker_stop(struct manager_worker *worker, const char *what);
// Waits until the thread is woken, or until `when`. Call with the lock.
void manager_worker_sleep(struct manager_worker *worker, uint64_t when_ns);
// Initializes a condition variable whose timed waits use the monotonic clock.
void manager_condition_init(pthread_cond_t *condition);
