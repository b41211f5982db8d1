// The mutexes of the library. After fork(), a mutex that another thread of the parent had locked is unlocked in the
// child. Messages logged while a thread has a mutex are delivered when it has none, so that no callback runs under a
// mutex. Zero is unlocked. Any thread.
#pragma once
#include "base/lock.h"

#include <stdbool.h>

struct vg_mutex {
	struct vg_lock lock;
	uint32_t forks; // number of forks above the process that last locked it
	bool orphaned; // another thread had it locked at the fork
};

// Locks the mutex. Returns false if it was orphaned by a fork: then it is locked all the same, but the data that it
// protects may be inconsistent from then on.
bool vg_mutex_take(struct vg_mutex *mutex);
void vg_mutex_give(struct vg_mutex *mutex);
