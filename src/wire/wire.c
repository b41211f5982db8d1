#include "wire/wire.h"

#include "base/descriptor.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

enum { MOST_PASSED = 253 }; // SCM_MAX_FD: the most descriptors that the kernel passes in one packet

static int check_text(const char *text, size_t size)
{
	return size == 0 || size > VG_WIRE_TEXT_MAX || memchr(text, '\0', size) ? -EPROTO : 0;
}

static int check_registration(const void *payload, size_t size)
{
	struct vg_wire_registration registration;

	if (size != sizeof registration)
		return -EPROTO;
	memcpy(&registration, payload, sizeof registration);
	return registration.pid == 0 || !memchr(registration.ledger, '\0', sizeof registration.ledger) ? -EPROTO : 0;
}

static int check_event(const void *payload, size_t size)
{
	struct vg_wire_event event;

	if (size != sizeof event)
		return -EPROTO;
	memcpy(&event, payload, sizeof event);
	return event.kind < VG_WIRE_ASKED_BACK || event.kind > VG_WIRE_SUPERSEDED || event.zero ? -EPROTO : 0;
}

static int check_guest(const void *payload, size_t size)
{
	struct vg_wire_guest guest;

	if (size != sizeof guest || check_registration(payload, sizeof guest.self) < 0)
		return -EPROTO;
	memcpy(&guest, payload, sizeof guest);
	return guest.zero || !memchr(guest.vgpu, '\0', sizeof guest.vgpu) || !guest.vgpu[0] != !guest.share ? -EPROTO
													    : 0;
}

static int check_message(const struct vg_wire_header *header, const void *payload, size_t length)
{
	if (header->magic != VG_WIRE_MAGIC || header->version != VG_WIRE_VERSION || header->size != length)
		return -EPROTO;
	if (header->flags & ~(uint32_t)(header->type == VG_WIRE_REPLY ? VG_WIRE_MORE : 0))
		return -EPROTO;
	switch (header->type) {
	case VG_WIRE_REGISTRATION:
		return check_registration(payload, length);
	case VG_WIRE_ADMIN:
	case VG_WIRE_REPLY:
	case VG_WIRE_SHARE:
		return check_text(payload, length);
	case VG_WIRE_EVENT:
		return check_event(payload, length);
	case VG_WIRE_GUEST:
		return check_guest(payload, length);
	default:
		return -EPROTO;
	}
}

int vg_wire_check(const void *packet, size_t length, struct vg_wire_header *ret_header)
{
	struct vg_wire_header header;

	if (length < sizeof header)
		return -EPROTO;
	memcpy(&header, packet, sizeof header);
	int r = check_message(&header, (const char *)packet + sizeof header, length - sizeof header);
	if (r == 0)
		*ret_header = header;
	return r;
}

int vg_wire_address(const char *path, struct sockaddr_un *ret_address)
{
	size_t length = strlen(path);

	if (length >= sizeof ret_address->sun_path)
		return -ENAMETOOLONG;
	memset(ret_address, 0, sizeof *ret_address);
	ret_address->sun_family = AF_UNIX;
	memcpy(ret_address->sun_path, path, length);
	return 0;
}

// Returns the user id by which the kernel shows users that this process's user namespace does not have.
static uid_t unmapped_user(void)
{
	unsigned int first = 0, count = 0, uid = 65534;
	FILE *map = fopen("/proc/self/uid_map", "re"), *overflow = fopen("/proc/sys/kernel/overflowuid", "re");

	if (!map || fscanf(map, "%u %*u %u", &first, &count) != 2 || (first == 0 && count == UINT32_MAX))
		uid = (uid_t)-1; // this namespace has all users
	else if (overflow && fscanf(overflow, "%u", &uid) != 1)
		uid = (uid_t)-1;
	if (map)
		fclose(map);
	if (overflow)
		fclose(overflow);
	return uid;
}

// Returns whether only the owners of the directories above a file can have created it: no group and no others may write
// to one of them.
static bool is_path_protected(const char *path)
{
	char real[PATH_MAX];
	struct stat info;

	if (!realpath(path, real))
		return false;
	for (char *slash = strrchr(real, '/'); slash; slash = strrchr(real, '/')) {
		slash[slash == real] = '\0';
		if (stat(real, &info) < 0 || info.st_mode & (S_IWGRP | S_IWOTH))
			return false;
		if (slash == real)
			return true;
	}
	return false;
}

// Checks the user of the listening process. Any user can listen at the path of a daemon that has ended, so only daemons
// of root and of this user are trusted. In a user namespace, as of a container without root, the kernel does not say
// whether a process is root's. There the path counts: only the owners of its directories may be able to listen there.
static int check_peer(int fd, const char *path)
{
	struct ucred peer;
	socklen_t size = sizeof peer;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -errno;
	if (peer.uid == 0 || peer.uid == geteuid())
		return 0;
	return peer.uid == unmapped_user() && is_path_protected(path) ? 0 : -EPERM;
}

static int connect_to(const char *path, int flags, int timeout_ms)
{
	struct sockaddr_un address;
	struct timeval timeout = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
	int r = vg_wire_address(path, &address);

	if (r < 0)
		return r;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
	if (fd < 0)
		return -errno;
	if (timeout_ms > 0) {
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
	}
	while (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
		if (errno == EINTR)
			continue;
		r = -errno;
		close(fd);
		return r;
	}
	r = check_peer(fd, path);
	if (r < 0)
		close(fd);
	return r < 0 ? r : fd;
}

int vg_wire_connect(const char *path, int timeout_ms)
{
	return connect_to(path, 0, timeout_ms);
}

int vg_wire_send_raw(int fd, const void *head, size_t head_size, const void *body, size_t body_size,
		     const int *descriptors, unsigned int descriptor_count)
{
	struct iovec parts[2] = {{(void *)head, head_size}, {(void *)body, body_size}};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * VG_WIRE_DESCRIPTORS_MAX)] = {0};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

	if (descriptor_count > VG_WIRE_DESCRIPTORS_MAX)
		return -EINVAL;
	if (descriptor_count) {
		message.msg_control = control;
		message.msg_controllen = CMSG_SPACE(sizeof(int) * descriptor_count);
		struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(sizeof(int) * descriptor_count);
		memcpy(CMSG_DATA(rights), descriptors, sizeof(int) * descriptor_count);
	}
	ssize_t sent;
	do
		sent = sendmsg(fd, &message, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : 0; // a packet is sent completely or not at all
}

int vg_wire_send(int fd, enum vg_wire_type type, uint32_t flags, const void *payload, size_t size,
		 const int *descriptors, unsigned int descriptor_count)
{
	struct vg_wire_header header = {.magic = VG_WIRE_MAGIC,
					.version = VG_WIRE_VERSION,
					.type = (uint16_t)type,
					.size = (uint32_t)size,
					.flags = flags};

	if (size > VG_WIRE_TEXT_MAX)
		return -EMSGSIZE;
	return vg_wire_send_raw(fd, &header, sizeof header, payload, size, descriptors, descriptor_count);
}

static void close_descriptor(int fd)
{
	close(fd);
}

void (*vg_wire_discard)(int fd) = close_descriptor;

// Stores the received descriptors, and closes those for which there is no room. *ret_all: how many were received,
// including the closed ones.
static unsigned int store_descriptors(struct msghdr *message, int *ret_descriptors, unsigned int *ret_all)
{
	unsigned int count = 0;

	*ret_all = 0;
	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		unsigned int here = (unsigned int)((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		for (unsigned int i = 0; i < here; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
			++*ret_all;
			if (count < VG_WIRE_DESCRIPTORS_MAX)
				ret_descriptors[count++] = fd;
			else
				vg_wire_discard(fd);
		}
	}
	return count;
}

static void close_all(const int *descriptors, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		vg_wire_discard(descriptors[i]);
}

ssize_t vg_wire_receive_raw(int fd, struct iovec parts[2], int *ret_descriptors, unsigned int *ret_count)
{
	// The buffer has room for all descriptors of a packet. If it were smaller, the kernel would close the other
	// descriptors in recvmsg(), and such a close may block this thread.
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * MOST_PASSED)];
	unsigned int all;
	struct msghdr message = {
		.msg_iov = parts, .msg_iovlen = 2, .msg_control = control, .msg_controllen = sizeof control};
	ssize_t got;

	do
		got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	*ret_count = store_descriptors(&message, ret_descriptors, &all);
	if (got > 0 && all == *ret_count && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return got;
	close_all(ret_descriptors, *ret_count);
	*ret_count = 0;
	return got == 0 ? -ECONNRESET : -EPROTO;
}

int vg_wire_receive(int fd, struct vg_wire_message *ret_message)
{
	struct vg_wire_header header;
	// The payload is received directly into the message. The buffer has one more byte, to detect a payload that is
	// too long.
	struct iovec parts[2] = {{&header, sizeof header}, {ret_message->text, sizeof ret_message->text}};
	ssize_t got = vg_wire_receive_raw(fd, parts, ret_message->descriptors, &ret_message->descriptor_count);

	if (got < 0)
		return (int)got;
	int r = (size_t)got < sizeof header ? -EPROTO
					    : check_message(&header, ret_message->text, (size_t)got - sizeof header);
	if (r < 0) {
		close_all(ret_message->descriptors, ret_message->descriptor_count);
		return r;
	}
	ret_message->type = (enum vg_wire_type)header.type;
	ret_message->flags = header.flags;
	ret_message->size = header.size;
	if (header.type != VG_WIRE_REGISTRATION && header.type != VG_WIRE_EVENT && header.type != VG_WIRE_GUEST)
		ret_message->text[header.size] = '\0';
	return 0;
}

static int receive_answer(int fd, struct vg_wire_message *message, char **ret_answer)
{
	char *answer = NULL;
	size_t length = 0;
	int r;

	do {
		r = vg_wire_receive(fd, message);
		if (r < 0)
			break;
		close_all(message->descriptors, message->descriptor_count);
		char *grown = NULL;
		if (message->type != VG_WIRE_REPLY || length + message->size > VG_WIRE_ANSWER_MAX)
			r = -EPROTO;
		else if (!(grown = realloc(answer, length + message->size + 1)))
			r = -ENOMEM;
		if (r < 0)
			break;
		answer = grown;
		memcpy(answer + length, message->text, message->size + 1);
		length += message->size;
	} while (message->flags & VG_WIRE_MORE);
	if (r < 0) {
		free(answer);
		return r;
	}
	*ret_answer = answer;
	return 0;
}

int vg_wire_request(const char *path, const char *text, int timeout_ms, char **ret_answer)
{
	_cleanup_close_ int fd = vg_wire_connect(path, timeout_ms);

	if (fd < 0)
		return fd;
	int sent = vg_wire_send(fd, VG_WIRE_ADMIN, 0, text, strlen(text), NULL, 0);
	// Even if sending fails with EPIPE, receive: a daemon that refuses the connection may have sent the reason.
	if (sent < 0 && sent != -EPIPE)
		return sent;
	struct vg_wire_message *message = malloc(sizeof *message);
	if (!message)
		return -ENOMEM;
	int r = receive_answer(fd, message, ret_answer);
	free(message);
	return r < 0 && sent < 0 ? sent : r;
}

// Waits until the daemon answers, or closes the connection because it has handled the message.
static int wait_for_daemon(int fd, int timeout_ms)
{
	struct pollfd answered = {.fd = fd, .events = POLLIN};
	int r = poll(&answered, 1, timeout_ms);

	return r < 0 ? -errno : r == 0 ? -ETIMEDOUT : 0;
}

static int send_registration(int fd, const struct vg_wire_registration *registration, int exports)
{
	return fd < 0 ? fd
		      : vg_wire_send(fd, VG_WIRE_REGISTRATION, 0, registration, sizeof *registration, &exports,
				     exports >= 0);
}

int vg_wire_register(const char *path, const struct vg_wire_registration *registration, int exports)
{
	_cleanup_close_ int fd = connect_to(path, SOCK_NONBLOCK, 0);

	return send_registration(fd, registration, exports);
}

int vg_wire_register_and_wait(const char *path, const struct vg_wire_registration *registration, int exports)
{
	_cleanup_close_ int fd = connect_to(path, SOCK_NONBLOCK, 0);
	int r = send_registration(fd, registration, exports);

	return r < 0 ? r : wait_for_daemon(fd, VG_WIRE_HELLO_TIMEOUT_MS);
}

int vg_wire_be_guest(const char *path, const struct vg_wire_guest *asked, struct vg_wire_guest *ret_answer)
{
	_cleanup_close_ int fd = connect_to(path, SOCK_NONBLOCK, 0);
	int r = fd < 0 ? fd : vg_wire_send(fd, VG_WIRE_GUEST, 0, asked, sizeof *asked, NULL, 0);

	if (r < 0)
		return r;
	r = wait_for_daemon(fd, VG_WIRE_GUEST_TIMEOUT_MS);
	if (r < 0 || !ret_answer)
		return r;
	struct vg_wire_message *message = malloc(sizeof *message);
	if (!message)
		return -ENOMEM;
	r = vg_wire_receive(fd, message);
	if (r < 0)
		goto out;
	close_all(message->descriptors, message->descriptor_count);
	if (message->type == VG_WIRE_GUEST)
		*ret_answer = message->guest;
	else
		r = -EPROTO;
out:
	free(message);
	return r;
}
