#include "base/mutex.h"

#include "base/log.h"

#include <pthread.h>

static uint32_t forks;		// 0 in the process that loaded the library, 1 in its children, 2 in their children, …
static struct vg_lock renewing; // locked while a thread resets a mutex that the parent process may have left locked

// Runs in the child, where only the thread that called fork() exists.
static void note_fork(void)
{
	forks++;
	renewing.word = 0;
}

__attribute__((constructor)) static void follow_forks(void)
{
	pthread_atfork(NULL, NULL, note_fork);
}

static void reset_after_fork(struct vg_mutex *mutex)
{
	vg_lock_acquire(&renewing);
	if (mutex->forks != forks) {
		mutex->orphaned |= mutex->lock.word != 0;
		mutex->lock.word = 0;
		__atomic_store_n(&mutex->forks, forks, __ATOMIC_RELEASE);
	}
	vg_lock_release(&renewing);
}

bool vg_mutex_lock(struct vg_mutex *mutex)
{
	vg_log_hold();
	if (__builtin_expect(__atomic_load_n(&mutex->forks, __ATOMIC_ACQUIRE) != forks, 0))
		reset_after_fork(mutex);
	vg_lock_acquire(&mutex->lock);
	return !mutex->orphaned;
}

void vg_mutex_unlock(struct vg_mutex *mutex)
{
	vg_lock_release(&mutex->lock);
	vg_log_go_on();
}
