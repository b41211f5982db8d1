// A pool of threads that runs jobs, and starts them in the order in which they were added. Any thread may add jobs.
#pragma once

struct pool;
typedef void pool_fn(unsigned worker, void *job);
// Creates a pool of `threads` threads, at least 1. Returns 0 or -errno.
int pool_create(unsigned threads, pool_fn *work, struct pool **ret_pool);
// Adds a job. If as many jobs wait as there are threads, waits until one of them starts.
void pool_give(struct pool *pool, void *job);
// Waits until all jobs are done, and frees the pool.
void pool_destroy(struct pool *pool);
// Returns `asked`, or, if that is 0, the number of processors, at most 16.
unsigned pool_threads(unsigned asked);
