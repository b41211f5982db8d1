// A pool of threads. Jobs start in the order in which they were given. Any thread may give jobs.
#pragma once

struct pool;
typedef void pool_fn(unsigned worker, void *job);
// Creates `threads` threads, at least 1. Returns 0 or -errno.
int pool_create(unsigned threads, pool_fn *work, struct pool **ret_pool);
// Adds a job. Waits while the number of waiting jobs equals the number of threads.
void pool_give(struct pool *pool, void *job);
// Waits until all jobs are done.
void pool_destroy(struct pool *pool);
// Returns `asked`, or if that is 0 the number of processors, at most 16.
unsigned pool_threads(unsigned asked);
