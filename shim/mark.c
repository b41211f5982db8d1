#include "shim/mark.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

// Marks are numbers in the upper half of the range of file offsets, where programs do not set locks.
static const uint64_t first_mark = 1ull << 62;

uint64_t shim_mark_put(int descriptor, uint64_t mark)
{
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1};
	int error = errno;

	if (!mark && getrandom(&mark, sizeof mark, GRND_NONBLOCK) != sizeof mark)
		return 0;
	mark = first_mark | (mark & (first_mark - 1));
	lock.l_start = (off_t)mark;
	if (mark == INT64_MAX || fcntl(descriptor, F_OFD_SETLK, &lock) != 0)
		mark = 0;
	errno = error;
	return mark;
}

unsigned int shim_mark_read(int descriptor, uint64_t *ret_marks, unsigned int most)
{
	unsigned long long start, end;
	char path[48], line[256];
	unsigned int count = 0;
	int error = errno;

	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", descriptor);
	FILE *file = fopen(path, "re");
	while (file && count < most && fgets(line, sizeof line, file))
		if (sscanf(line, "lock: %*d: OFDLCK ADVISORY READ %*d %*s %llu %llu", &start, &end) == 2 &&
		    start == end && start >= first_mark)
			ret_marks[count++] = start;
	if (file)
		fclose(file);
	errno = error;
	return count;
}
