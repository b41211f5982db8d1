#include "core/error.h"

#include "base/mutex.h"

#include <stdarg.h>
#include <stdio.h>

// The driver keeps a log of its last errors; what came since the last look belongs to this failure.
// Another thread's failure may stand in it too: the log is the process's, as its entries say.
static void add_driver_log(void)
{
	static struct vg_mutex lock;
	static CUlogIterator seen;
	char log[4096];
	size_t size = sizeof log;

	vg_mutex_take(&lock);
	if (core_driver->cuLogsDumpToMemory(&seen, log, &size, 0) == CUDA_SUCCESS && size > 0 && size < sizeof log) {
		log[size] = '\0';
		vg_fail_log(log);
	}
	vg_mutex_give(&lock);
}

enum vg_status core_driver_failed(CUresult result, const char *function, const char *call, const char *format, ...)
{
	const char *name, *text;
	char asked[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(asked, sizeof asked, format, arguments);
	va_end(arguments);
	if (core_driver->cuGetErrorName(result, &name) || !name)
		name = "an unknown error";
	if (core_driver->cuGetErrorString(result, &text) || !text)
		text = "the driver has no text for it";
	enum vg_status status = vg_fail(VG_DRIVER, result, function, "%s: %s: %s%s%s", call, name, text,
					asked[0] ? "; " : "", asked);
	if (!core_forked)
		add_driver_log();
	return status;
}
