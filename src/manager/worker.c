#include "manager/worker.h"

#include <signal.h>
#include <string.h>
#include <time.h>

void manager_condition_init(pthread_cond_t *condition)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

void manager_worker_init(struct manager_worker *worker)
{
	pthread_mutex_init(&worker->lock, NULL);
	manager_condition_init(&worker->wake);
	pthread_cond_init(&worker->changed, NULL);
}

enum vg_status manager_worker_start(struct manager_worker *worker, void *(*run)(void *argument), void *argument,
				    const char *what)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = pthread_create(&worker->thread, NULL, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r ? vg_fail(VG_SYSTEM, r, "no thread for a %s: %s", what, strerror(r)) : VG_OK;
}

bool manager_worker_is_self(const struct manager_worker *worker)
{
	return !worker->gone && pthread_equal(worker->thread, pthread_self());
}

enum vg_status manager_worker_stop(struct manager_worker *worker, const char *what)
{
	pthread_mutex_lock(&worker->lock);
	if (manager_worker_is_self(worker)) {
		pthread_mutex_unlock(&worker->lock);
		return vg_fail(VG_STATE, 0,
			       "a %s cannot be closed by its own callback, which it would wait for: close it from "
			       "another thread, or after the callback",
			       what);
	}
	worker->stopping = true;
	pthread_cond_signal(&worker->wake);
	if (!worker->joining) {
		worker->joining = true;
		pthread_mutex_unlock(&worker->lock);
		pthread_join(worker->thread, NULL);
		pthread_mutex_lock(&worker->lock);
		worker->gone = true;
		pthread_cond_broadcast(&worker->changed);
	}
	while (!worker->gone)
		pthread_cond_wait(&worker->changed, &worker->lock);
	pthread_mutex_unlock(&worker->lock);
	return VG_OK;
}

void manager_worker_sleep(struct manager_worker *worker, uint64_t when_ns)
{
	const struct timespec until = {(time_t)(when_ns / 1000000000), (long)(when_ns % 1000000000)};

	pthread_cond_timedwait(&worker->wake, &worker->lock, &until);
}
