#include "core/error.h"

#include "base/mutex.h"

#include <stdarg.h>
#include <stdio.h>

// Protects the reading of the driver's log, which all threads of the process have in common. The entries since the last
// read describe the current failure, but may also include another thread's failure at the same time.
static struct vg_mutex lock;
static CUlogIterator seen;

static void read_driver_log(char *ret_log, size_t capacity)
{
	size_t size = capacity;

	ret_log[0] = '\0';
	if (core_forked)
		return;
	vg_mutex_lock(&lock);
	if (core_driver->cuLogsDumpToMemory(&seen, ret_log, &size, 0) != CUDA_SUCCESS || size >= capacity)
		size = 0;
	ret_log[size] = '\0';
	vg_mutex_unlock(&lock);
}

void core_log_skip(void)
{
	if (core_forked)
		return;
	vg_mutex_lock(&lock);
	(void)core_driver->cuLogsCurrent(&seen, 0); // a driver without a log does not change `seen`
	vg_mutex_unlock(&lock);
}

enum vg_status core_driver_failed(CUresult result, const char *call, const char *format, ...)
{
	const char *name, *text;
	char asked[512], log[4096];
	va_list arguments;

	read_driver_log(log, sizeof log); // read the log first, since the driver may log failures of the calls below
	va_start(arguments, format);
	vsnprintf(asked, sizeof asked, format, arguments);
	va_end(arguments);
	if (core_asked(core_driver->cuGetErrorName(result, &name)) || !name)
		name = "an unknown error";
	if (core_asked(core_driver->cuGetErrorString(result, &text)) || !text)
		text = "the driver has no text for it";
	enum vg_status status =
		vg_fail(VG_DRIVER, result, "%s: %s: %s%s%s", call, name, text, asked[0] ? "; " : "", asked);
	vg_fail_log(log);
	return status;
}
