#include "checkpoint/criu/streamer.h"

#include "base/descriptor.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct streamer {
	struct streamer_events events;
	char path[sizeof((struct sockaddr_un *)NULL)->sun_path];
	int listener;
	pthread_t thread;
};

// Reads `length` bytes. Returns 1 on success, 0 if the other side has closed the connection, or -errno.
static int read_exactly(int fd, void *data, size_t length)
{
	size_t done = 0;

	while (done < length) {
		ssize_t count = recv(fd, (char *)data + done, length - done, MSG_WAITALL);
		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return -errno;
		if (count == 0)
			return done ? -EPROTO : 0;
		done += (size_t)count;
	}
	return 1;
}

// Reads the name in an img_streamer_request_entry: a length, and one field. Returns 1 on success, 0 if the other side
// has closed the connection, or -errno.
static int read_name(int fd, char ret_name[NAME_MAX + 1])
{
	unsigned char message[NAME_MAX + 3];
	uint32_t length;

	int r = read_exactly(fd, &length, sizeof length);
	if (r <= 0)
		return r;
	if (length < 3 || length > sizeof message)
		return -EPROTO;
	r = read_exactly(fd, message, length);
	if (r <= 0)
		return r ? r : -EPROTO;
	// Reject long names: the length must fit into one byte.
	if (message[0] != 0x0a || message[1] != length - 2 || message[1] >= 0x80)
		return -EPROTO;
	memcpy(ret_name, message + 2, message[1]);
	ret_name[message[1]] = '\0';
	if (strlen(ret_name) != message[1] || strchr(ret_name, '/') || ret_name[0] == '.')
		return -EPROTO;
	return 1;
}

// Sends an img_streamer_reply_entry, which says whether the file exists.
static int send_answer(int fd, bool there)
{
	unsigned char message[6] = {2, 0, 0, 0, 0x08, there};

	return send(fd, message, sizeof message, MSG_NOSIGNAL) == sizeof message ? 0 : -errno;
}

static int receive_pipe(int fd)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	char byte;
	struct iovec part = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	ssize_t count;
	int pipe;

	while ((count = recvmsg(fd, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
		;
	if (count < 0)
		return -errno;
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	if (count == 0 || !header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
	    header->cmsg_len != CMSG_LEN(sizeof pipe))
		return -EPROTO;
	memcpy(&pipe, CMSG_DATA(header), sizeof pipe);
	return pipe;
}

static int serve_requests(const struct streamer *streamer, int fd)
{
	const struct streamer_events *events = &streamer->events;
	char name[NAME_MAX + 1];

	for (;;) {
		int r = read_name(fd, name);
		if (r <= 0)
			return r;
		if (events->serves) {
			bool there = events->has(events->user, name);
			r = send_answer(fd, there);
			if (r)
				return r;
			if (!there)
				continue;
		}
		int pipe = receive_pipe(fd);
		if (pipe < 0)
			return pipe;
		events->file(events->user, name, pipe);
	}
}

static void *run_streamer(void *user)
{
	const struct streamer *streamer = user;
	int r = 0, fd;

	while ((fd = accept4(streamer->listener, NULL, NULL, SOCK_CLOEXEC)) < 0 && errno == EINTR)
		;
	if (fd >= 0) {
		r = serve_requests(streamer, fd);
		close(fd);
	}
	// CRIU exited before it connected. CRIU's own error reports the reason.
	if (r < 0)
		streamer->events.broken(streamer->events.user, r);
	return NULL;
}

static int start_thread(struct streamer *streamer, const char *directory)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	sigset_t all, before;

	int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/streamer-%s.sock", directory,
			      streamer->events.serves ? "serve" : "capture");
	if ((size_t)length >= sizeof address.sun_path)
		return -ENAMETOOLONG;
	memcpy(streamer->path, address.sun_path, sizeof streamer->path);
	streamer->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (streamer->listener < 0)
		return -errno;
	if (bind(streamer->listener, (struct sockaddr *)&address, sizeof address) < 0 ||
	    listen(streamer->listener, 1) < 0)
		return -errno;
	// Block all signals in the new thread: the threads of the program handle them.
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = pthread_create(&streamer->thread, NULL, run_streamer, streamer);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}

int streamer_start(const char *directory, const struct streamer_events *events, struct streamer **ret_streamer)
{
	struct streamer *streamer = calloc(1, sizeof *streamer);

	if (!streamer)
		return -ENOMEM;
	*streamer = (struct streamer){.events = *events, .listener = -1};
	int r = start_thread(streamer, directory);
	if (r == 0) {
		*ret_streamer = streamer;
		return 0;
	}
	if (streamer->listener >= 0)
		close(streamer->listener);
	unlink(streamer->path);
	free(streamer);
	return r;
}

void streamer_stop(struct streamer *streamer)
{
	if (!streamer)
		return;
	// Wake the thread, which may wait for a connection.
	shutdown(streamer->listener, SHUT_RDWR);
	pthread_join(streamer->thread, NULL);
	close(streamer->listener);
	unlink(streamer->path);
	free(streamer);
}
