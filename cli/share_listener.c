// Creates the socket on which a producer and a consumer meet, and a lock file beside it. If a producer is killed, the
// kernel releases its lock, but its socket stays until the next producer replaces it.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "say.h"
#include "share.h"
#include "share/channel.h"
#include "share/step.h"

enum { RETRY_MS = 20 };

static int fill_address(const char *path, struct sockaddr_un *ret_address)
{
	if (strlen(path) < sizeof ret_address->sun_path) {
		*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
		strcpy(ret_address->sun_path, path);
		return 0;
	}
	say_error("the path of a socket has at most %zu characters, and %s has %zu: name another one with --socket",
		  sizeof ret_address->sun_path - 1, path, strlen(path));
	return EXIT_FAILED;
}

static void name_lock(const char *path, char ret_path[PATH_MAX + 8])
{
	snprintf(ret_path, PATH_MAX + 8, "%s.lock", path);
}

// Creates and locks the lock file, which a producer removes when it ends. Returns the descriptor or -errno;
// -EWOULDBLOCK: another process has the lock.
static int acquire_lock(const char *path)
{
	char name[PATH_MAX + 8];
	struct stat named, own;

	name_lock(path, name);
	for (;;) {
		int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0)
			return -errno;
		if (flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &own) < 0) {
			int error = errno;
			close(fd);
			return -error;
		}
		if (stat(name, &named) == 0 && named.st_dev == own.st_dev && named.st_ino == own.st_ino)
			return fd;
		close(fd); // another producer removed this file after open(), so try again
	}
}

// Returns 1 if a process listens on the socket, 0 if not, -errno if that is unknown.
static int is_listening(const struct sockaddr_un *address)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 || errno == EAGAIN ||
	    errno == EPROTOTYPE)
		return 1;
	return errno == ECONNREFUSED ? 0 : -errno;
}

// Removes a socket on which no process listens. The caller must have the lock. Returns 0, or EXIT_FAILED after a
// message.
static int remove_old_socket(const char *path, const struct sockaddr_un *address)
{
	struct stat info;

	if (lstat(path, &info) < 0) {
		if (errno == ENOENT)
			return 0;
		say_error("%s: %m", path);
		return EXIT_FAILED;
	}
	if (!S_ISSOCK(info.st_mode)) {
		say_error("%s is not a socket: remove it, or name another path with --socket", path);
		return EXIT_FAILED;
	}
	int alive = is_listening(address);
	if (alive > 0)
		say_error("another program listens on %s: name another path with --socket", path);
	else if (alive < 0)
		say_error("%s exists, but it is unknown whether a program listens there: %s", path, strerror(-alive));
	else if (unlink(path) < 0)
		say_error("cannot remove the socket %s of a producer that has ended: %m", path);
	else {
		printf("Replaced the socket of a producer that has ended\n");
		return 0;
	}
	return EXIT_FAILED;
}

static int listen_on(const char *path, const struct sockaddr_un *address, int *ret_listener)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	mode_t before = umask(0177);
	bool bound = fd >= 0 && bind(fd, (const struct sockaddr *)address, sizeof *address) == 0;

	umask(before);
	if (bound && listen(fd, 4) == 0) {
		*ret_listener = fd;
		return 0;
	}
	say_error("cannot create a socket at %s: %m", path);
	if (bound)
		unlink(path);
	if (fd >= 0)
		close(fd);
	return EXIT_FAILED;
}

int share_listener_open(const char *path, struct share_listener *ret_listener)
{
	struct sockaddr_un address;
	struct share_listener listener;

	if (fill_address(path, &address))
		return EXIT_FAILED;
	listener.lock = acquire_lock(path);
	if (listener.lock == -EWOULDBLOCK)
		say_error("another producer uses %s: start its consumer (virgate share consume%s), or name another "
			  "path with --socket",
			  path, sim_flag());
	else if (listener.lock < 0)
		say_error("cannot lock %s: %s", path, strerror(-listener.lock));
	if (listener.lock < 0)
		return EXIT_FAILED;
	SHARE_STEP("locked");
	snprintf(listener.path, sizeof listener.path, "%s", path);
	listener.socket = -1;
	if (remove_old_socket(path, &address) || listen_on(path, &address, &listener.socket)) {
		share_listener_close(&listener);
		return EXIT_FAILED;
	}
	*ret_listener = listener;
	SHARE_STEP("listening");
	return 0;
}

void share_listener_close(struct share_listener *listener)
{
	char name[PATH_MAX + 8];

	if (listener->socket >= 0) {
		unlink(listener->path);
		close(listener->socket);
	}
	name_lock(listener->path, name);
	unlink(name);
	close(listener->lock);
}

int share_listener_accept(struct share_listener *listener, int seconds)
{
	uint64_t deadline = vg_clock_monotonic_ns() + (uint64_t)seconds * 1000000000, now;
	struct pollfd connection = {.fd = listener->socket, .events = POLLIN};
	struct share_channel channel;

	while ((now = vg_clock_monotonic_ns()) < deadline) {
		int r = poll(&connection, 1, (int)((deadline - now) / 1000000) + 1);
		if (r < 0 && errno != EINTR) {
			say_error("cannot wait for a consumer: %m");
			return -1;
		}
		int fd = r > 0 ? accept4(listener->socket, NULL, NULL, SOCK_CLOEXEC) : -1;
		if (fd < 0)
			continue;
		if (share_channel_open(fd, 0, &channel) == VG_OK && share_channel_check_peer(&channel) == VG_OK)
			return fd;
		say_warning("refused a connection: %s", vg_last_error()->text);
		close(fd);
	}
	say_error("no consumer connected within %d s: start one with virgate share consume%s, or wait longer with "
		  "--timeout",
		  seconds, sim_flag());
	return -1;
}

// Reports that the last attempt failed with `error`.
static void say_refused(const char *path, int seconds, int error)
{
	if (error == EAGAIN)
		say_error("the producer on %s does not accept connections: end it if it hangs, or wait longer with "
			  "--timeout",
			  path);
	else
		say_error("connection refused: no producer listens on %s%s after %d s: start it with virgate share "
			  "produce%s, or wait longer with --timeout",
			  path, access(path, F_OK) == 0 ? " (its socket was left behind)" : "", seconds, sim_flag());
}

int share_connect(const char *path, int seconds)
{
	uint64_t deadline = vg_clock_monotonic_ns() + (uint64_t)seconds * 1000000000;
	struct sockaddr_un address;
	bool is_reported = false;

	if (fill_address(path, &address))
		return -1;
	for (;;) {
		// A blocking connect() could wait forever if the producer hangs and its queue is full.
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
			return fd;
		int error = errno;
		if (fd >= 0)
			close(fd);
		if (error != ENOENT && error != ECONNREFUSED && error != EAGAIN) {
			say_error("%s: %s", path, strerror(error));
			return -1;
		}
		if (vg_clock_monotonic_ns() >= deadline) {
			say_refused(path, seconds, error);
			return -1;
		}
		if (!is_reported && error != EAGAIN)
			printf("No producer listens on %s yet: waiting for up to %d s (virgate share produce%s "
			       "starts one)\n",
			       path, seconds, sim_flag());
		is_reported = true;
		poll(NULL, 0, RETRY_MS);
	}
}
