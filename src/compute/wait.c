#include "compute/wait.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t compute_deadline(double seconds)
{
	if (!(seconds > 0) || seconds > 1e9)
		return UINT64_MAX;
	return vg_clock_monotonic_ns() + (uint64_t)(seconds * 1e9);
}

bool compute_wait(const atomic_uint *word, unsigned value, uint64_t until_ns)
{
	const struct timespec until = {(time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000)};
	int error = errno;

	// FUTEX_WAIT_BITSET takes an absolute time of the monotonic clock.
	long r = syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, until_ns == UINT64_MAX ? NULL : &until,
			 NULL, FUTEX_BITSET_MATCH_ANY);
	bool in_time = r == 0 || errno != ETIMEDOUT;
	errno = error; // the program's errno must not change
	return in_time;
}

void compute_wake(const atomic_uint *word)
{
	int error = errno;

	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	errno = error;
}
