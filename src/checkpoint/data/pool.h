// Threads that work jobs off, which they begin in the order in which they were given. Any thread may give some.
#pragma once

struct pool;
typedef void pool_fn(unsigned worker, void *job);
// `threads`: from 1 on. 0 or -errno.
int pool_create(unsigned threads, pool_fn *work, struct pool **ret_pool);
// Waits while there are as many more jobs than workers as there are workers.
void pool_give(struct pool *pool, void *job);
// When all jobs are done.
void pool_destroy(struct pool *pool);
// As many as there are processors, but 16 at most; `asked`, where that is not 0.
unsigned pool_threads(unsigned asked);
