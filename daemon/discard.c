// Closing what a peer sent, and connections, in whose queues more may wait. The last close of a file may take as long as
// its owner likes: a socket that lingers, a file system that a user serves, an epoll instance with many items. So the
// user's thread does it.
#include "daemon/node.h"
#include "daemon/user.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct closing {
	struct work work;
	int descriptor;
};

static uid_t sender;

static void close_it(struct work *work)
{
	close(((struct closing *)work)->descriptor);
}

static void free_it(struct node *node, struct work *work)
{
	free(work);
}

void discard_from(uid_t uid)
{
	sender = uid;
}

bool discard_is_full(const struct node *node, uid_t uid)
{
	return user_is_limited(node, uid) && work_is_full(uid, WORK_ANY);
}

static void close_in(enum work_lane lane, int descriptor)
{
	struct closing *closing = malloc(sizeof *closing);

	if (closing)
		*closing = (struct closing){{.lane = lane, .run = close_it, .done = free_it}, descriptor};
	if (closing && work_post(sender, &closing->work))
		return;
	free(closing);
	// The user has hundreds that do not close, or there is no memory. To keep it would cost all users a descriptor.
	work_hurry(true);
	close(descriptor);
	work_hurry(false);
}

void discard(int descriptor)
{
	close_in(WORK_ANY, descriptor);
}

void discard_socket(struct node *node, struct source *source, uid_t uid)
{
	if (source->fd < 0)
		return;
	node_leave(node, source);
	discard_from(uid);
	discard_unread(source->fd);
	source->fd = -1;
}

void discard_unread(int socket)
{
	shutdown(socket, SHUT_RDWR); // its peer need not wait for the close
	close_in(WORK_UNREAD, socket);
}
