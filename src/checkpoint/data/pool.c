#include "checkpoint/data/pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

enum { MOST_THREADS = 16 };

struct pool {
	pthread_mutex_t lock;
	pthread_cond_t given, taken;
	pool_fn *work;
	unsigned threads, numbered;
	unsigned first, count, capacity; // position, length and capacity of the ring buffer with the waiting jobs
	bool closed;
	pthread_t *ids;
	void *jobs[];
};

unsigned pool_threads(unsigned asked)
{
	cpu_set_t set;
	int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;

	return asked ? asked : count < MOST_THREADS ? (unsigned)count : MOST_THREADS;
}

static void *run_worker(void *user)
{
	struct pool *pool = user;

	pthread_mutex_lock(&pool->lock);
	unsigned number = pool->numbered++;
	for (;;) {
		while (pool->count == 0 && !pool->closed)
			pthread_cond_wait(&pool->given, &pool->lock);
		if (pool->count == 0)
			break;
		void *job = pool->jobs[pool->first];
		pool->first = (pool->first + 1) % pool->capacity;
		pool->count--;
		pthread_cond_signal(&pool->taken);
		pthread_mutex_unlock(&pool->lock);
		pool->work(number, job);
		pthread_mutex_lock(&pool->lock);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

int pool_create(unsigned threads, pool_fn *work, struct pool **ret_pool)
{
	struct pool *pool = calloc(1, sizeof *pool + threads * sizeof *pool->jobs);
	pthread_t *ids = calloc(threads, sizeof *ids);
	sigset_t all, before;
	int r = 0;

	if (!pool || !ids) {
		free(pool);
		free(ids);
		return -ENOMEM;
	}
	*pool = (struct pool){.work = work, .capacity = threads, .ids = ids};
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->given, NULL);
	pthread_cond_init(&pool->taken, NULL);
	// Block all signals in the workers: the threads of the program handle them.
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (pool->threads < threads && (r = pthread_create(&ids[pool->threads], NULL, run_worker, pool)) == 0)
		pool->threads++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	// A pool with fewer threads still works, so fail only if no thread could be created.
	if (pool->threads == 0) {
		pool_destroy(pool);
		return -r;
	}
	*ret_pool = pool;
	return 0;
}

void pool_give(struct pool *pool, void *job)
{
	pthread_mutex_lock(&pool->lock);
	while (pool->count == pool->capacity)
		pthread_cond_wait(&pool->taken, &pool->lock);
	pool->jobs[(pool->first + pool->count++) % pool->capacity] = job;
	pthread_cond_signal(&pool->given);
	pthread_mutex_unlock(&pool->lock);
}

void pool_destroy(struct pool *pool)
{
	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->closed = true;
	pthread_cond_broadcast(&pool->given);
	pthread_mutex_unlock(&pool->lock);
	for (unsigned i = 0; i < pool->threads; i++)
		pthread_join(pool->ids[i], NULL);
	pthread_cond_destroy(&pool->given);
	pthread_cond_destroy(&pool->taken);
	pthread_mutex_destroy(&pool->lock);
	free(pool->ids);
	free(pool);
}
