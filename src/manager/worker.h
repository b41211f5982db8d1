// Runs the thread of a monitor or a balancer. Several other threads may stop it at once; the thread cannot stop itself.
// The worker's lock also protects data of the monitor or balancer.
#pragma once
#include "base/status.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct manager_worker {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake; // wakes the worker's thread; uses the monotonic clock
	// Signalled for other threads when data under the lock has changed or the worker's thread has ended.
	pthread_cond_t changed;
	bool stopping; // the lock protects this and the next two members
	bool joining, gone;
};
void manager_worker_init(struct manager_worker *worker);
// Starts the thread with all signals blocked. Fails with SYSTEM.
enum vg_status manager_worker_start(struct manager_worker *worker, void *(*run)(void *argument), void *argument,
				    const char *what);
// Returns whether the caller is the worker's thread. Call with the lock held.
bool manager_worker_is_self(const struct manager_worker *worker);
// Waits until the worker's thread has ended. Fails with STATE if the caller is that thread.
enum vg_status manager_worker_stop(struct manager_worker *worker, const char *what);
// Waits until the worker's thread is woken, or until `when`. Call with the lock held.
void manager_worker_sleep(struct manager_worker *worker, uint64_t when_ns);
// Initializes a condition variable whose timed waits use the monotonic clock.
void manager_condition_init(pthread_cond_t *condition);
