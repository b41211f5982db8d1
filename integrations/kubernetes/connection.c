#include "connection.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PIECE = 16384 };

// Sends what the session has to send, until nothing is left or the socket's buffer is full. Returns 0 or -errno.
static int send_all(struct connection *connection)
{
	for (;;) {
		if (!connection->unsent_length) {
			ssize_t length = nghttp2_session_mem_send(connection->session, &connection->unsent);
			if (length <= 0)
				return length < 0 ? -EPROTO : 0;
			connection->unsent_length = (size_t)length;
		}
		ssize_t sent = send(connection->source.fd, connection->unsent, connection->unsent_length,
				    MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return errno == EAGAIN ? 0 : -errno;
		connection->unsent += sent;
		connection->unsent_length -= (size_t)sent;
	}
}

static int receive(struct connection *connection)
{
	uint8_t piece[PIECE];
	ssize_t length = recv(connection->source.fd, piece, sizeof piece, MSG_DONTWAIT);

	if (length < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (length == 0)
		return -ECONNRESET;
	return nghttp2_session_mem_recv(connection->session, piece, (size_t)length) < 0 ? -EPROTO : 0;
}

static bool is_complete(const struct connection *connection)
{
	return !connection->unsent_length && !nghttp2_session_want_read(connection->session) &&
	       !nghttp2_session_want_write(connection->session);
}

// Sends first. Reads nothing from a peer that does not read its answers, so that the answers do not pile up.
static void ready(struct source *source, uint32_t events)
{
	struct connection *connection = (struct connection *)source;
	int r = send_all(connection);

	if (r == 0 && !connection->unsent_length && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		r = receive(connection);
	if (r == 0)
		r = send_all(connection);
	if (r < 0 || is_complete(connection) || (events & EPOLLERR)) {
		connection->ended(connection);
		return;
	}
	loop_change(connection->loop, source, connection->unsent_length ? EPOLLOUT : EPOLLIN);
}

int connection_init(struct connection *connection, struct loop *loop, int socket, nghttp2_session *session,
		    void (*ended)(struct connection *connection))
{
	*connection = (struct connection){.source = {socket, ready}, .loop = loop, .session = session, .ended = ended};
	int r = loop_add(loop, &connection->source, EPOLLIN | EPOLLOUT);
	if (r < 0)
		close(socket);
	return r;
}

void connection_finish(struct connection *connection)
{
	nghttp2_session_del(connection->session);
	loop_close(connection->loop, &connection->source);
}

void connection_wake(struct connection *connection)
{
	loop_change(connection->loop, &connection->source, EPOLLIN | EPOLLOUT);
}
