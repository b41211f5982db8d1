#include "daemon/source.h"

#include "daemon/user.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

int source_watch(struct node *node, struct source *source, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = source};
	struct user *user = source->is_users ? user_events(node, source->user) : NULL;
	int epoll_fd = user ? user->events.fd : node->epoll_fd;

	if (source->is_users && !user)
		return -EMFILE;
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, source->fd, &event) == 0) {
		if (user)
			user->watched++;
		return 0;
	}
	if (errno == EEXIST && epoll_ctl(epoll_fd, EPOLL_CTL_MOD, source->fd, &event) == 0)
		return 0;
	return -errno;
}

void source_ignore(struct node *node, struct source *source)
{
	struct user *user = source->is_users ? user_of(source->user) : NULL;

	if (!user)
		epoll_ctl(node->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
	else if (user->events.fd >= 0 && epoll_ctl(user->events.fd, EPOLL_CTL_DEL, source->fd, NULL) == 0)
		user->watched--;
}

void source_close(struct node *node, struct source *source)
{
	if (source->fd < 0)
		return;
	source_ignore(node, source);
	close(source->fd);
	source->fd = -1;
}

int source_keep_descriptor(int fd)
{
	struct rlimit limit;

	if (fd < 0 || getrlimit(RLIMIT_NOFILE, &limit) < 0 || (rlim_t)fd < limit.rlim_cur - limit.rlim_cur / 4)
		return fd;
	close(fd);
	return -EMFILE;
}
