// A lock of one word, for critical sections of a few instructions. A zeroed lock is unlocked. Any thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct vg_lock {
	uint32_t word; // 0: unlocked; 1: locked; 2: locked, and a thread waits
};

void vg_lock_wait(struct vg_lock *lock);
void vg_lock_wake(struct vg_lock *lock);

static inline void vg_lock_acquire(struct vg_lock *lock)
{
	uint32_t free = 0;

	if (!__atomic_compare_exchange_n(&lock->word, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		vg_lock_wait(lock);
}

static inline void vg_lock_release(struct vg_lock *lock)
{
	if (__builtin_expect(__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) == 2, 0))
		vg_lock_wake(lock);
}
