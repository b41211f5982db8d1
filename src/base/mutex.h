// The library's locks. A child made by fork() does not find one taken by a thread that it does not have, and what is
// logged while one is held is said once the thread holds none: nobody's callback runs under a lock. Zero is unlocked;
// any thread.
#pragma once
#include "base/lock.h"

#include <stdbool.h>

struct vg_mutex {
	struct vg_lock lock;
	uint32_t forks; // how many there had been when it was last taken
	bool orphaned;
};

// False where a thread that this process does not have was at it: it is taken all the same, but what it protects may be
// half changed, for ever.
bool vg_mutex_take(struct vg_mutex *mutex);
void vg_mutex_give(struct vg_mutex *mutex);
