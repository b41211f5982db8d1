#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct vg_kept_error last;
_Thread_local const char *vg_entry;

const char *vg_status_text(enum vg_status status)
{
	switch (status) {
#define X(name, text)   \
	case VG_##name: \
		return text;
		VG_STATUS_LIST(X)
#undef X
	}
	return "unknown status";
}

int vg_status_is_retriable(enum vg_status status)
{
	switch (status) {
	case VG_INSUFFICIENT:
	case VG_NO_MEMORY:
	case VG_BUSY:
	case VG_NOT_READY:
	case VG_NO_DAEMON:
		return 1;
	default:
		return 0;
	}
}

enum vg_status vg_fail(enum vg_status status, int code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(last.text, sizeof last.text, format, arguments);
	va_end(arguments);
	last.log[0] = '\0';
	last.error = (struct vg_error){status, code, vg_entry ? vg_entry : "", last.text, last.log, 0, 0};
	return status;
}

void vg_fail_amounts(uint64_t need, uint64_t have)
{
	last.error.need = need;
	last.error.have = have;
}

void vg_fail_log(const char *log)
{
	snprintf(last.log, sizeof last.log, "%s", log);
}

static void copy(struct vg_kept_error *to, const struct vg_kept_error *from)
{
	to->error = from->error;
	strcpy(to->text, from->text);
	strcpy(to->log, from->log);
}

void vg_error_keep(struct vg_kept_error *ret_kept)
{
	copy(ret_kept, &last);
}

void vg_error_restore(const struct vg_kept_error *kept)
{
	copy(&last, kept);
}

const struct vg_error *vg_last_error(void)
{
	if (!last.error.function)
		last.error = (struct vg_error){VG_OK, 0, "", last.text, last.log, 0, 0};
	return &last.error;
}

// How many bytes larger than this library's structure the program's options may be, because a later version has more
// fields. A larger size means that the program did not initialize the size.
enum { MOST_UNKNOWN = 4096 };

enum vg_status vg_options_copy(void *copy, size_t size, const void *options)
{
	size_t given;

	memset(copy, 0, size);
	memcpy(copy, &size, sizeof size);
	if (!options)
		return VG_OK;
	memcpy(&given, options, sizeof given);
	if (given < sizeof given || given > size + MOST_UNKNOWN)
		return vg_fail(VG_INVALID, 0, "the options' size is %zu: set it to sizeof the structure", given);
	for (size_t i = size; i < given; i++)
		if (((const unsigned char *)options)[i])
			return vg_fail(VG_UNSUPPORTED, 0,
				       "the options have a field at byte %zu that this library does not know: it knows "
				       "%zu bytes",
				       i, size);
	memcpy((char *)copy + sizeof size, (const char *)options + sizeof size,
	       (given < size ? given : size) - sizeof size);
	return VG_OK;
}
