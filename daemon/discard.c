// Closing what a peer sent and nobody wants. The last close of a file may take as long as its owner likes: a socket
// that lingers, a file system that a user serves. The loop must not be there for it.
#include "daemon/node.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_WAITING = 64 };

static atomic_int waiting;

static void *close_alone(void *descriptor)
{
	close((int)(intptr_t)descriptor);
	waiting--;
	return NULL;
}

static bool close_elsewhere(int descriptor)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	waiting++;
	bool started = pthread_create(&thread, &attributes, close_alone, (void *)(intptr_t)descriptor) == 0;
	waiting -= !started;
	pthread_attr_destroy(&attributes);
	return started;
}

void discard(int descriptor)
{
	struct statx status = {0};

	// Asks no file system, which might let us wait too.
	if (statx(descriptor, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) < 0)
		status.stx_mode = S_IFREG;
	if (S_ISSOCK(status.stx_mode))
		setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &(struct linger){0}, sizeof(struct linger));
	bool slow = S_ISREG(status.stx_mode) || S_ISDIR(status.stx_mode) || S_ISCHR(status.stx_mode) ||
		    S_ISBLK(status.stx_mode);
	if (!slow)
		close(descriptor); // a socket, a pipe, or the kernel's own
	else if (waiting >= MOST_WAITING)
		say("descriptor %d is left open: %d that peers sent do not close", descriptor, MOST_WAITING);
	else if (!close_elsewhere(descriptor))
		say("descriptor %d is left open: no thread to close it", descriptor);
}
