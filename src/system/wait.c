#include "system/wait.h"

#include "base/status.h"

#include <time.h>
#include <unistd.h>

enum { SLICE_MS = 60000 };

static unsigned long long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned long long)now.tv_sec * 1000 + (unsigned long long)now.tv_nsec / 1000000;
}

nvmlReturn_t system_wait(unsigned timeout_ms, nvmlReturn_t (*wait)(void *context, unsigned slice_ms), void *context)
{
	unsigned long long end = now_ms() + timeout_ms, now;
	nvmlReturn_t result;

	do {
		now = now_ms();
		unsigned long long left = timeout_ms == 0 ? SLICE_MS : end > now ? end - now : 1;
		result = wait(context, left < SLICE_MS ? (unsigned)left : SLICE_MS);
	} while (result == NVML_ERROR_TIMEOUT && (timeout_ms == 0 || now_ms() < end));
	return result;
}

enum vg_status system_check_creator(pid_t creator)
{
	if (creator != getpid())
		return vg_fail(VG_STATE, 0, "process %d created this set of events: after fork, create another",
			       (int)creator);
	return VG_OK;
}
