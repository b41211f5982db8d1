#include "base/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

// Keeps errno unchanged, because the program that called the interposer does not expect a change.
static void call_futex(struct vg_lock *lock, int operation, uint32_t value)
{
	int error = errno;

	syscall(SYS_futex, &lock->word, operation, value, NULL, NULL, 0);
	errno = error;
}

void vg_lock_wait(struct vg_lock *lock)
{
	while (__atomic_exchange_n(&lock->word, 2, __ATOMIC_ACQUIRE) != 0)
		call_futex(lock, FUTEX_WAIT_PRIVATE, 2);
}

void vg_lock_wake(struct vg_lock *lock)
{
	call_futex(lock, FUTEX_WAKE_PRIVATE, 1);
}
