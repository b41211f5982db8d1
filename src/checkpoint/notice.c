#include "checkpoint/notice.h"

#include "checkpoint/tenant/tenant.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { MOST_TEXT = 64 << 10, PATIENCE_S = 1 };

// Builds the abstract address of a listener. It contains the pid namespace: a pid may exist in several namespaces, and
// processes of several namespaces may see the same abstract addresses.
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
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof one) == 0 && fcntl(fd, F_SETOWN, getpid()) == 0 &&
	    fcntl(fd, F_SETSIG, SIGCHLD) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK | O_ASYNC) == 0 &&
	    bind(fd, (struct sockaddr *)&address, address_of(&self, &address)) == 0)
		return fd;
	r = -errno;
	close(fd);
	return r;
}

// Writes the message "PID PID PID IMAGE", with the pids of the processes in their own pid namespace. Returns its
// length; 0: all processes have ended.
static size_t write_text(char text[MOST_TEXT], const pid_t *pids, size_t count, const char *image)
{
	struct vg_ledger_owner process;
	size_t length = 0;

	for (size_t i = 0; i < count && length < MOST_TEXT - PATH_MAX - 16; i++)
		if (tenant_owner(pids[i], &process) == 0)
			length += (size_t)sprintf(text + length, "%u ", process.pid);
	return length ? length + (size_t)snprintf(text + length, PATH_MAX, "%s", image) : 0;
}

void notice_send(pid_t parent, const pid_t *pids, size_t count, const char *image)
{
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	struct vg_ledger_owner listener;
	struct sockaddr_un address;

	if (parent <= 0 || tenant_owner(parent, &listener))
		return;
	socklen_t size = address_of(&listener, &address);
	char *text = malloc(MOST_TEXT);
	size_t length = text ? write_text(text, pids, count, image) : 0;
	int fd = length ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
		(void)!sendto(fd, text, length, MSG_NOSIGNAL, (struct sockaddr *)&address, size);
		close(fd);
	}
	free(text);
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

// Returns whether the text is safe to print on a terminal.
static bool is_plain(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 127)
			return false;
	return true;
}

// Calls `each` for every pid in the message, if the whole message is valid.
static void pass_on(const char *text, void (*each)(void *user, pid_t pid, const char *image), void *user)
{
	const char *image = text;
	char *end;

	while (*image >= '0' && *image <= '9') {
		long pid = strtol(image, &end, 10);
		if (pid < 1 || pid > INT_MAX || *end != ' ')
			return;
		image = end + 1;
	}
	if (image == text || (*image && *image != '/') || !is_plain(image) || strlen(image) >= PATH_MAX)
		return;
	for (const char *at = text; at < image; at = end + 1)
		each(user, (pid_t)strtol(at, &end, 10), image);
}

void notice_read(int fd, void (*each)(void *user, pid_t pid, const char *image), void *user)
{
	char *text = malloc(MOST_TEXT), control[CMSG_SPACE(sizeof(struct ucred))];
	ssize_t length = text ? 0 : -1;

	while (length >= 0) {
		struct iovec part = {text, MOST_TEXT - 1};
		struct msghdr message = {
			.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
		length = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (length < 0 || !may_have_done_it(&message) || message.msg_flags & MSG_TRUNC)
			continue;
		text[length] = '\0';
		pass_on(text, each, user);
	}
	free(text);
}
