#include "ledger/process.h"

#include "base/descriptor.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>

int ledger_process_create(struct ledger_process **ret_process)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return -errno;
	if (madvise(page, size, MADV_WIPEONFORK) < 0) {
		int error = errno;
		munmap(page, size);
		return -error;
	}
	*ret_process = page;
	return 0;
}

void ledger_process_destroy(struct ledger_process *process)
{
	munmap(process, (size_t)sysconf(_SC_PAGESIZE));
}

void ledger_process_lock(struct ledger_process *process)
{
	uint32_t free = 0;

	if (__atomic_compare_exchange_n(&process->lock, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	while (__atomic_exchange_n(&process->lock, 2, __ATOMIC_ACQUIRE) != 0) {
		int error = errno; // a program's errno is its own
		syscall(SYS_futex, &process->lock, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
		errno = error;
	}
}

void ledger_process_unlock(struct ledger_process *process)
{
	if (__atomic_exchange_n(&process->lock, 0, __ATOMIC_RELEASE) == 2) {
		int error = errno;
		syscall(SYS_futex, &process->lock, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
		errno = error;
	}
}

int ledger_start_time_of_self(uint64_t *ret_ticks)
{
	// /proc/self names us whatever pid namespace /proc was mounted in.
	char self[32];
	ssize_t length = readlink("/proc/self", self, sizeof self - 1);

	if (length < 0)
		return -errno;
	self[length] = '\0';
	return vg_process_start_time((pid_t)atoi(self), ret_ticks);
}
