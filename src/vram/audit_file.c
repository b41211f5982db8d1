#include "vram/audit_file.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <time.h>

bool audit_head_path(const char *path, char *ret_path)
{
	return snprintf(ret_path, PATH_MAX, "%s.head", path) < PATH_MAX;
}

int audit_lock(int fd, bool exclusive)
{
	uint64_t until = vg_clock_monotonic_ns() + AUDIT_LOCK_MS * 1000000ull;
	struct timespec pause = {0, 20000};

	// Give up after AUDIT_LOCK_MS, because the process that has the lock may be stopped.
	while (flock(fd, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (vg_clock_monotonic_ns() > until)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < 5000000)
			pause.tv_nsec *= 2;
	}
	return 0;
}
