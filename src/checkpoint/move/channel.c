#include "checkpoint/move/channel.h"

#include "base/descriptor.h"
#include "base/hint.h"
#include "base/status.h"
#include "checkpoint/process/tool.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TICK_MS = 100, CONNECT_TRIES = 10, SSH_TRIES = 150, SSH_PAUSE_US = 20000, MOST_COMMAND = 8192 };

// ---- unix sockets ------------------------------------------------------------------------------------

static enum vg_status address_of(const char *path, struct sockaddr_un *ret_address)
{
	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (!*path || strlen(path) >= sizeof ret_address->sun_path)
		return vg_fail(VG_INVALID, 0, "unix:%.120s: a socket's path has 1 to %zu characters", path,
			       sizeof ret_address->sun_path - 1);
	strcpy(ret_address->sun_path, path);
	return VG_OK;
}

// Returns whether the peer runs as the same user or root. An image contains all data of a process, and restoring it
// runs the code in it, so no other user may send or receive one.
static bool is_trusted(int fd, uid_t *ret_user)
{
	struct ucred peer = {.uid = (uid_t)-1};
	socklen_t size = sizeof peer;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return false;
	*ret_user = peer.uid;
	return peer.uid == geteuid() || peer.uid == 0;
}

static enum vg_status connect_to(const char *path, int *ret_fd)
{
	struct sockaddr_un address;
	uid_t user = (uid_t)-1;

	enum vg_status status = address_of(path, &address);
	if (status)
		return status;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return vg_fail(VG_SYSTEM, errno, "a socket: %s", strerror(errno));
	int r = connect(fd, (struct sockaddr *)&address, sizeof address);
	// Retry: the other side may have bound the socket, but does not listen yet.
	for (int i = 0; i < CONNECT_TRIES && r < 0 && errno == ECONNREFUSED; i++) {
		usleep(TICK_MS * 1000);
		r = connect(fd, (struct sockaddr *)&address, sizeof address);
	}
	if (r < 0)
		status = vg_fail(VG_NOT_FOUND, errno, "unix:%s: %s; start `virgate restore%s --from unix:%s` there",
				 path, strerror(errno), vg_hint_own_sim(), path);
	else if (!is_trusted(fd, &user))
		status = vg_fail(VG_DENIED, 0,
				 "unix:%s: user %u listens there, and only this user or root may get "
				 "the image",
				 path, (unsigned)user);
	if (status)
		close(fd);
	else
		*ret_fd = fd;
	return status;
}

static enum vg_status listen_at(const char *path, int *ret_fd)
{
	struct sockaddr_un address;

	enum vg_status status = address_of(path, &address);
	if (status)
		return status;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	// Set the mode of the socket before bind(), which gives the file the same mode.
	if (fd >= 0 && fchmod(fd, 0600) == 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0) {
		if (listen(fd, 1) == 0) {
			*ret_fd = fd;
			return VG_OK;
		}
		unlink(path);
	}
	int error = errno;
	if (fd >= 0)
		close(fd);
	if (error == EADDRINUSE)
		return vg_fail(VG_EXISTS, error, "%s exists: remove it, or name another socket", path);
	return vg_fail(VG_SYSTEM, error, "unix:%s: %s", path, strerror(error));
}

enum vg_status channel_accept(const char *path, struct phase *phase, int *ret_fd)
{
	int listener = -1;

	enum vg_status status = listen_at(path, &listener);
	if (status)
		return status;
	struct pollfd wanted = {.fd = listener, .events = POLLIN};
	int fd = -1;
	while (fd < 0 && status == VG_OK) {
		uid_t user;
		int r = poll(&wanted, 1, TICK_MS);
		phase_tick(phase);
		if (phase->stop)
			status = vg_fail(VG_STATE, 0, "stopped while nobody had connected to unix:%s, as asked", path);
		else if (r > 0)
			fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0 && !is_trusted(fd, &user)) {
			close(fd);
			fd = -1;
		}
	}
	unlink(path);
	close(listener);
	if (status == VG_OK)
		*ret_fd = fd;
	else if (fd >= 0)
		close(fd);
	return status;
}

// ---- ssh ---------------------------------------------------------------------------------------------

// Returns whether a shell on the other machine would read the text as one word, without special characters. `more`:
// other characters that are allowed.
static bool is_plain(const char *text, const char *more)
{
	for (; *text; text++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-", *text) &&
		    !strchr(more, *text))
			return false;
	return true;
}

static enum vg_status command_of(const struct vg_process_gpu_pair *gpus, size_t count, const char *simulate,
				 char command[MOST_COMMAND])
{
	int length = snprintf(command, MOST_COMMAND, "virgate restore --from - --answer --detach");

	for (size_t i = 0; i < count; i++) {
		const char *old = gpus[i].old_uuid, *new = gpus[i].new_uuid;
		if (!old || !new || !*old || !*new || !is_plain(old, "") || !is_plain(new, ""))
			return vg_fail(VG_INVALID, 0, "pair %zu of the map names no GPUs", i);
		length +=
			snprintf(command + length, (size_t)(MOST_COMMAND - length), " --gpu-map %.80s=%.80s", old, new);
		if (length >= MOST_COMMAND - 200)
			return vg_fail(VG_INVALID, 0, "a map of %zu GPUs is too long", count);
	}
	if (!*simulate)
		return VG_OK;
	if (strchr(simulate, '\'') || (size_t)length + strlen(simulate) + sizeof " --sim=''" > MOST_COMMAND)
		return vg_fail(
			VG_INVALID, 0,
			"the specification of the simulated GPU, \"%.80s\", is too long or has an apostrophe: the "
			"other machine cannot be asked for it",
			simulate);
	snprintf(command + length, (size_t)(MOST_COMMAND - length), " --sim='%s'", simulate);
	return VG_OK;
}

static enum vg_status start_ssh(const char *host, const char *command, struct channel *channel)
{
	char program[PATH_MAX];
	int ends[2];

	int r = tool_find("VIRGATE_SSH", "ssh", program);
	if (r)
		return vg_fail(VG_NOT_FOUND, -r, "ssh %s: install it, or name one in VIRGATE_SSH",
			       r == -EACCES ? "may not be run by this user" : "is not in PATH");
	const char *const argv[] = {program, "-T",
				    "-o",    "BatchMode=yes",
				    "-o",    "ConnectTimeout=15",
				    "-o",    "ServerAliveInterval=15",
				    "--",    host,
				    command, NULL};
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return vg_fail(VG_SYSTEM, errno, "a socket for ssh: %s", strerror(errno));
	channel->fd = ends[0];
	channel->complaints = memfd_create("virgate-ssh", MFD_CLOEXEC);
	const struct tool_start how = {.argv = argv, .fds = {ends[1], ends[1], channel->complaints}};
	r = channel->complaints < 0 ? -errno : tool_start(&how, &channel->ssh);
	close(ends[1]);
	if (r == 0)
		return VG_OK;
	channel_close(channel);
	return vg_fail(VG_SYSTEM, -r, "%s: %s", program, strerror(-r));
}

const char *channel_complaint(const struct channel *channel, char *text, size_t capacity)
{
	struct stat info;

	text[0] = '\0';
	if (channel->complaints < 0 || fstat(channel->complaints, &info) < 0)
		return text;
	off_t from = info.st_size < (off_t)capacity ? 0 : info.st_size - (off_t)capacity + 1;
	ssize_t length = pread(channel->complaints, text, capacity - 1, from);
	for (; length > 0 && (unsigned char)text[length - 1] <= ' '; length--)
		;
	text[length > 0 ? length : 0] = '\0';
	char *line = strrchr(text, '\n');
	return line ? line + 1 : text;
}

// ---- sockets and ssh -----------------------------------------------------------------------------------

enum vg_status channel_open(const char *to, const struct vg_process_gpu_pair *gpus, size_t gpu_count,
			    const char *simulate, struct channel *ret_channel)
{
	char command[MOST_COMMAND];

	*ret_channel = (struct channel){.fd = -1, .complaints = -1};
	if (strncmp(to, "unix:", 5) == 0 && gpu_count)
		return vg_fail(VG_INVALID, 0, "the receiver at %.120s maps the GPUs: give --gpu-map to it", to);
	if (strncmp(to, "unix:", 5) == 0)
		return connect_to(to + 5, &ret_channel->fd);
	if (strncmp(to, "ssh:", 4) != 0)
		return vg_fail(VG_INVALID, 0, "\"%.120s\" is neither unix:PATH nor ssh:[USER@]HOST", to);
	if (!to[4] || to[4] == '-' || !is_plain(to + 4, "@._:[]%"))
		return vg_fail(VG_INVALID, 0, "\"%.120s\" names no [USER@]HOST", to + 4);
	enum vg_status status = command_of(gpus, gpu_count, simulate, command);
	return status ? status : start_ssh(to + 4, command, ret_channel);
}

void channel_close(struct channel *channel)
{
	if (channel->fd >= 0)
		close(channel->fd);
	// ssh exits when its input ends. If ssh does not exit, because it has no connection yet, it is killed.
	for (int i = 0; channel->ssh > 0; i++) {
		pid_t r = waitpid(channel->ssh, NULL, WNOHANG);
		if (r == channel->ssh || (r < 0 && errno != EINTR))
			break;
		if (i == SSH_TRIES)
			kill(-channel->ssh, SIGKILL);
		usleep(SSH_PAUSE_US);
	}
	if (channel->complaints >= 0)
		close(channel->complaints);
	*channel = (struct channel){.fd = -1, .complaints = -1};
}
