#include "checkpoint/notice.h"

#include "checkpoint/tenant.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

// Pids mean something in their namespace only, and a network's names may be seen from several.
static socklen_t address_of(const struct vg_ledger_owner *listener, struct sockaddr_un *ret_address)
{
	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	int length = snprintf(ret_address->sun_path + 1, sizeof ret_address->sun_path - 1, "virgate-notice/%u/%u",
			      listener->pid_namespace, listener->pid);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

int notice_listen(void)
{
	struct vg_ledger_owner self;
	struct sockaddr_un address;
	int one = 1;

	int r = vg_ledger_self(&self);
	if (r)
		return r;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof one) == 0 &&
	    bind(fd, (struct sockaddr *)&address, address_of(&self, &address)) == 0)
		return fd;
	r = -errno;
	close(fd);
	return r;
}

void notice_send(pid_t parent, pid_t pid, const char *image)
{
	struct vg_ledger_owner listener, process;
	char text[PATH_MAX + 16];
	struct sockaddr_un address;

	if (parent <= 0 || tenant_owner(parent, &listener) || tenant_owner(pid, &process))
		return;
	socklen_t size = address_of(&listener, &address);
	int length = snprintf(text, sizeof text, "%u %s", process.pid, image);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return;
	(void)!sendto(fd, text, (size_t)length, MSG_NOSIGNAL, (struct sockaddr *)&address, size);
	close(fd);
}

static bool may_have_done_it(struct msghdr *message)
{
	const struct cmsghdr *part = CMSG_FIRSTHDR(message);
	struct ucred who;

	if (!part || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_CREDENTIALS)
		return false;
	memcpy(&who, CMSG_DATA(part), sizeof who);
	return who.uid == 0 || who.uid == geteuid();
}

// What it is to be shown as may be a terminal's.
static bool is_plain(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 127)
			return false;
	return true;
}

pid_t notice_read(int fd, char ret_image[PATH_MAX])
{
	char text[PATH_MAX + 16], control[CMSG_SPACE(sizeof(struct ucred))], *end;

	for (;;) {
		struct iovec part = {text, sizeof text - 1};
		struct msghdr message = {
			.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
		ssize_t length = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (length < 0)
			return 0;
		text[length] = '\0';
		long pid = strtol(text, &end, 10);
		if (!may_have_done_it(&message) || pid < 1 || pid > INT_MAX || *end != ' ' || (end[1] && end[1] != '/') ||
		    !is_plain(end))
			continue;
		snprintf(ret_image, PATH_MAX, "%s", end + 1);
		return (pid_t)pid;
	}
}
