#include "share/channel.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "share/step.h"

enum { MOST_AT_ONCE = 253 }; // maximum number of descriptors that the kernel passes with one message

enum vg_status share_channel_open(int socket, int timeout_ms, struct share_channel *ret_channel)
{
	uint64_t wait = timeout_ms < 0 ? 0 : (uint64_t)timeout_ms * 1000000;
	socklen_t size = sizeof(int);
	int domain, type;

	if (getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0)
		return vg_fail(VG_INVALID, errno, "descriptor %d is no socket: %s", socket, strerror(errno));
	if (domain != AF_UNIX)
		return vg_fail(VG_INVALID, 0, "descriptor %d is no unix socket: descriptors of memory cross no other",
			       socket);
	size = sizeof type;
	if (getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &size) < 0 ||
	    (type != SOCK_STREAM && type != SOCK_SEQPACKET))
		return vg_fail(VG_INVALID, 0,
			       "descriptor %d is a socket for datagrams: use SOCK_STREAM or SOCK_SEQPACKET", socket);
	*ret_channel = (struct share_channel){.socket = socket,
					      .stream = type == SOCK_STREAM,
					      .timeout_ms = timeout_ms,
					      .deadline = vg_clock_monotonic_ns() + wait};
	return VG_OK;
}

enum vg_status share_channel_check_peer(const struct share_channel *channel)
{
	struct ucred peer;
	socklen_t size = sizeof peer;

	if (getsockopt(channel->socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return vg_fail(VG_SYSTEM, errno, "cannot find out the user of the other end: %s", strerror(errno));
	if (peer.pid == 0 && peer.uid == (uid_t)-1)
		return vg_fail(VG_INVALID, 0, "socket %d is not connected", channel->socket);
	if (peer.uid == geteuid() || peer.uid == 0)
		return VG_OK;
	return vg_fail(VG_DENIED, EPERM,
		       "the other end is process %d of user %u, and this process is user %u's: memory is shared with "
		       "processes of the same user and of root; any_user lifts that",
		       (int)peer.pid, (unsigned)peer.uid, (unsigned)geteuid());
}

static enum vg_status fail_gone(const struct share_channel *channel, size_t done, size_t size, const char *what)
{
	if (done)
		return vg_fail(VG_PROTOCOL, ECONNRESET,
			       "the other end closed the connection after %zu of %zu bytes of %s", done, size, what);
	return vg_fail(VG_SYSTEM, ECONNRESET,
		       "the other end closed the connection before it sent or took %s: did its program end?", what);
}

// Waits until the socket is ready. `done`, `size` and `what` are for the error's text: `done` of the `size` bytes of
// `what` were transferred so far.
static enum vg_status wait_for_socket(const struct share_channel *channel, short events, size_t done, size_t size,
				      const char *what)
{
	struct pollfd ready = {.fd = channel->socket, .events = events};

	for (;;) {
		uint64_t now = vg_clock_monotonic_ns();
		int left = channel->timeout_ms < 0    ? -1
			   : now >= channel->deadline ? 0
						      : (int)((channel->deadline - now + 999999) / 1000000);
		int r = poll(&ready, 1, left);
		if (r > 0)
			return VG_OK;
		if (r < 0 && errno != EINTR)
			return vg_fail(VG_SYSTEM, errno, "waiting for the other end: %s", strerror(errno));
		if (r == 0)
			break;
	}
	if (done)
		return vg_fail(VG_PROTOCOL, ETIMEDOUT,
			       "the other end stopped after %zu of %zu bytes of %s: it did not go on within %d ms",
			       done, size, what, channel->timeout_ms);
	return vg_fail(VG_NOT_READY, ETIMEDOUT,
		       events == POLLIN ? "the other end did not send %s within %d ms"
					: "the other end did not take %s within %d ms",
		       what, channel->timeout_ms);
}

// ---- sending --------------------------------------------------------------------------------------------

// Skips the first `done` bytes of a message in two parts. Returns the number of parts that are left.
static unsigned skip_bytes(const struct iovec from[2], size_t done, struct iovec ret_to[2])
{
	unsigned parts = 0;

	for (int i = 0; i < 2; i++) {
		size_t gone = done < from[i].iov_len ? done : from[i].iov_len;
		if (from[i].iov_len > gone)
			ret_to[parts++] = (struct iovec){(char *)from[i].iov_base + gone, from[i].iov_len - gone};
		done -= gone;
	}
	return parts;
}

static enum vg_status send_all(const struct share_channel *channel, const struct iovec whole[2],
			       const struct share_rights *rights, const char *what)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * SHARE_PACKET_RANGES)] = {0};
	size_t size = whole[0].iov_len + whole[1].iov_len, done = 0;
	struct iovec parts[2];

	while (done < size) {
		struct msghdr message = {.msg_iov = parts, .msg_iovlen = skip_bytes(whole, done, parts)};
		if (rights && done == 0) {
			size_t bytes = sizeof(int) * rights->count;
			message.msg_control = control;
			message.msg_controllen = CMSG_SPACE(bytes);
			*CMSG_FIRSTHDR(&message) = (struct cmsghdr){CMSG_LEN(bytes), SOL_SOCKET, SCM_RIGHTS};
			memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), rights->descriptors, bytes);
		}
		enum vg_status status = wait_for_socket(channel, POLLOUT, done, size, what);
		if (status)
			return status;
		ssize_t sent = sendmsg(channel->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent > 0)
			done += (size_t)sent;
		else if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
			return fail_gone(channel, done, size, what);
		else if (sent < 0 && errno != EINTR && errno != EAGAIN)
			return vg_fail(VG_SYSTEM, errno, "%s cannot be sent: %s", what, strerror(errno));
	}
	return VG_OK;
}

enum vg_status share_packet_send(const struct share_channel *channel, const struct share_packet *packet)
{
	const struct iovec whole[2] = {{(void *)&packet->header, sizeof packet->header},
				       {(void *)packet->body, packet->header.size}};

	return send_all(channel, whole, &packet->rights, "the offer");
}

enum vg_status share_bytes_send(const struct share_channel *channel, const void *bytes, size_t size)
{
	const struct iovec whole[2] = {{(void *)bytes, size}, {NULL, 0}};

	return send_all(channel, whole, NULL, "its answer");
}

// ---- receiving ------------------------------------------------------------------------------------------

void share_rights_close(struct share_rights *rights)
{
	while (rights->count)
		close(rights->descriptors[--rights->count]);
}

static void collect_rights(struct msghdr *message, struct share_rights *rights)
{
	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		unsigned here = (unsigned)((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		for (unsigned i = 0; i < here; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
			if (rights->count < SHARE_PACKET_RANGES)
				rights->descriptors[rights->count++] = fd;
			else
				close(fd);
		}
		rights->came += here;
	}
}

// Receives once, by recvmsg(). Returns 0 bytes if the peer closed the connection.
static enum vg_status receive_some(const struct share_channel *channel, struct iovec *parts, size_t count, size_t done,
				   size_t size, struct share_rights *rights, size_t *ret_got)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * MOST_AT_ONCE)];
	struct msghdr message;
	ssize_t got;

	do {
		enum vg_status status = wait_for_socket(channel, POLLIN, done, size, "its message");
		if (status)
			return status;
		message = (struct msghdr){.msg_iov = parts,
					  .msg_iovlen = count,
					  .msg_control = control,
					  .msg_controllen = sizeof control};
		got = recvmsg(channel->socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	} while (got < 0 && (errno == EINTR || errno == EAGAIN));
	if (got < 0 && errno != ECONNRESET)
		return vg_fail(VG_SYSTEM, errno, "nothing can be received: %s", strerror(errno));
	if (got >= 0)
		collect_rights(&message, rights);
	if (got > 0 && (message.msg_flags & MSG_CTRUNC))
		return vg_fail(VG_SYSTEM, EMFILE,
			       "descriptors that came were lost: this process may open no more of them (ulimit -n)");
	if (got > 0 && (message.msg_flags & MSG_TRUNC))
		return vg_fail(VG_PROTOCOL, 0, "the message is longer than %zu bytes, the most there can be", size);
	*ret_got = got > 0 ? (size_t)got : 0;
	return VG_OK;
}

// Receives exactly `size` bytes of a stream socket. `already` bytes of the same message were received before.
static enum vg_status receive_all(const struct share_channel *channel, void *bytes, size_t already, size_t size,
				  struct share_rights *rights)
{
	for (size_t done = 0, got; done < size; done += got) {
		struct iovec rest = {(char *)bytes + done, size - done};
		enum vg_status status = receive_some(channel, &rest, 1, already + done, already + size, rights, &got);
		if (status == VG_OK && got == 0)
			status = fail_gone(channel, already + done, already + size, "its message");
		if (status)
			return status;
	}
	return VG_OK;
}

static enum vg_status check_header(const struct share_channel *channel, const struct share_packet *packet)
{
	char problem[256];

	return share_header_check(&packet->header, problem, sizeof problem) ? VG_OK
									    : vg_fail(VG_PROTOCOL, 0, "%s", problem);
}

static enum vg_status receive_stream(const struct share_channel *channel, struct share_packet *packet)
{
	enum vg_status status = receive_all(channel, &packet->header, 0, sizeof packet->header, &packet->rights);

	if (status)
		return status;
	status = check_header(channel, packet);
	SHARE_STEP("header received");
	if (status)
		return status;
	return receive_all(channel, packet->body, sizeof packet->header, packet->header.size, &packet->rights);
}

static enum vg_status receive_whole(const struct share_channel *channel, struct share_packet *packet)
{
	struct iovec parts[2] = {{&packet->header, sizeof packet->header}, {packet->body, sizeof packet->body}};
	size_t got;
	enum vg_status status =
		receive_some(channel, parts, 2, 0, sizeof packet->header + SHARE_BODY_MAX, &packet->rights, &got);

	if (status)
		return status;
	if (got == 0)
		return fail_gone(channel, 0, 0, "its message");
	if (got < sizeof packet->header)
		return vg_fail(VG_PROTOCOL, 0, "the message has %zu bytes: an offer begins with %zu", got,
			       sizeof packet->header);
	status = check_header(channel, packet);
	if (status == VG_OK && got - sizeof packet->header != packet->header.size)
		return vg_fail(VG_PROTOCOL, 0,
			       "the message has %zu bytes behind its header, which says %u: it was cut or added to",
			       got - sizeof packet->header, packet->header.size);
	return status;
}

enum vg_status share_packet_receive(const struct share_channel *channel, struct share_packet *packet)
{
	struct share_rights *rights = &packet->rights;
	char problem[256];

	*rights = (struct share_rights){0};
	enum vg_status status = channel->stream ? receive_stream(channel, packet) : receive_whole(channel, packet);
	if (status == VG_OK && rights->came != packet->header.count)
		status = vg_fail(VG_PROTOCOL, 0, "%u descriptors came with %u ranges: there must be one for each",
				 rights->came, packet->header.count);
	if (status == VG_OK && !share_body_check(&packet->header, packet->body, problem, sizeof problem))
		status = vg_fail(VG_PROTOCOL, 0, "%s", problem);
	if (status)
		share_rights_close(rights);
	return status;
}

enum vg_status share_bytes_receive(const struct share_channel *channel, void *ret_bytes, size_t size)
{
	struct share_rights rights = {0};
	enum vg_status status = receive_all(channel, ret_bytes, 0, size, &rights);

	share_rights_close(&rights);
	if (status == VG_OK && rights.came)
		status = vg_fail(VG_PROTOCOL, 0, "%u descriptors came with an answer that has none", rights.came);
	return status;
}
