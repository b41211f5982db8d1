#include "daemon/path.h"

#include "base/descriptor.h"
#include "daemon/node.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void path_format(const struct node *node, char path[PATH_MAX], const char *format, ...)
{
	va_list arguments;
	int length = snprintf(path, PATH_MAX, "/proc/self/fd/%d/", node->directory);

	va_start(arguments, format);
	vsnprintf(path + length, PATH_MAX - (size_t)length, format, arguments);
	va_end(arguments);
}

int path_write(const char *path, const char *text, mode_t mode)
{
	char temporary[PATH_MAX + 16];
	size_t length = strlen(text);

	snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
	_cleanup_close_ int fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t written = write(fd, text, length);
	if (written == (ssize_t)length && fchmod(fd, mode) == 0 && rename(temporary, path) == 0)
		return 0;
	int r = written >= 0 && written < (ssize_t)length ? -ENOSPC : -errno;
	unlink(temporary);
	return r;
}
