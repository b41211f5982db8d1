// Preloaded into a daemon: a disk that holds or fails, as files in the directory SLOW_SYSTEM say: `hold-disk` and
// `fail-disk`. `waits-disk` is there from the first time that something waits.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool is_there(const char *word, const char *what)
{
	char path[512];

	snprintf(path, sizeof path, "%s/%s-%s", getenv("SLOW_SYSTEM"), word, what);
	return access(path, F_OK) == 0;
}

static void wait_while_held(const char *what)
{
	char path[512];

	if (!is_there("hold", what))
		return;
	snprintf(path, sizeof path, "%s/waits-%s", getenv("SLOW_SYSTEM"), what);
	close(open(path, O_WRONLY | O_CREAT, 0600));
	while (is_there("hold", what))
		poll(NULL, 0, 5);
}

int fsync(int fd)
{
	wait_while_held("disk");
	if (!is_there("fail", "disk"))
		return 0;
	errno = EIO;
	return -1;
}
