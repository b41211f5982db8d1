// Mutexes of the library. If another thread of the parent had a mutex locked at fork(), the mutex is unlocked in the
// child. If a thread logs messages while it has mutexes locked, the callback gets them after the thread has unlocked
// all of them. A zeroed mutex is unlocked. Any thread.
#pragma once
#include "base/lock.h"

#include <stdbool.h>

struct vg_mutex {
	struct vg_lock lock;
	uint32_t forks; // value of `forks` (mutex.c) in the process that last locked the mutex; 0 at first
	bool orphaned;	// another thread had the mutex locked at the fork
};

// Locks the mutex. Returns false if a fork orphaned it: the mutex is locked all the same, but the data that it protects
// may be inconsistent from then on.
bool vg_mutex_lock(struct vg_mutex *mutex);
void vg_mutex_unlock(struct vg_mutex *mutex);
