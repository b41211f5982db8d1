// Where a producer and its consumer meet: a socket, and a lock beside it. A lock goes with its holder, however that
// ended; a socket does not, and is replaced by the next producer.
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

static int address_of(const char *path, struct sockaddr_un *ret_address)
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

static void lock_path(const char *path, char ret_path[PATH_MAX + 8])
{
	snprintf(ret_path, PATH_MAX + 8, "%s.lock", path);
}

// The lock file that is there under its name; whoever leaves removes it. The descriptor or -errno, -EWOULDBLOCK: held.
static int take_lock(const char *path)
{
	char name[PATH_MAX + 8];
	struct stat named, own;

	lock_path(path, name);
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
		close(fd); // it was removed meanwhile
	}
}

// Whether anybody listens there: 1, 0, or -errno where that cannot be told.
static int is_alive(const struct sockaddr_un *address)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 || errno == EAGAIN ||
	    errno == EPROTOTYPE)
		return 1;
	return errno == ECONNREFUSED ? 0 : -errno;
}

// What stands at the path is removed if it is a socket that nobody listens on: the lock is ours.
static int clear(const char *path, const struct sockaddr_un *address)
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
	int alive = is_alive(address);
	if (alive > 0)
		say_error("another program listens on %s: name another path with --socket", path);
	else if (alive < 0)
		say_error("%s exists, but it is unknown whether a program listens there: %s", path, strerror(-alive));
	else if (unlink(path) < 0)
		say_error("cannot remove the socket %s of a producer that has ended: %m", path);
	else
		return printf("Replaced the socket of a producer that has ended\n"), 0;
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

int share_place_take(const char *path, struct share_place *ret_place)
{
	struct sockaddr_un address;
	struct share_place place;

	if (address_of(path, &address))
		return EXIT_FAILED;
	place.lock = take_lock(path);
	if (place.lock == -EWOULDBLOCK)
		say_error("another producer uses %s: start its consumer (virgate share consume%s), or name another "
			  "path with --socket",
			  path, sim_flag());
	else if (place.lock < 0)
		say_error("cannot lock %s: %s", path, strerror(-place.lock));
	if (place.lock < 0)
		return EXIT_FAILED;
	SHARE_STEP("locked");
	snprintf(place.path, sizeof place.path, "%s", path);
	place.listener = -1;
	if (clear(path, &address) || listen_on(path, &address, &place.listener)) {
		share_place_leave(&place);
		return EXIT_FAILED;
	}
	*ret_place = place;
	SHARE_STEP("listening");
	return 0;
}

void share_place_leave(struct share_place *place)
{
	char name[PATH_MAX + 8];

	if (place->listener >= 0) {
		unlink(place->path);
		close(place->listener);
	}
	lock_path(place->path, name);
	unlink(name);
	close(place->lock);
}

int share_place_accept(struct share_place *place, int seconds)
{
	uint64_t deadline = vg_clock_monotonic_ns() + (uint64_t)seconds * 1000000000, now;
	struct pollfd knock = {.fd = place->listener, .events = POLLIN};
	struct share_channel channel;

	while ((now = vg_clock_monotonic_ns()) < deadline) {
		int r = poll(&knock, 1, (int)((deadline - now) / 1000000) + 1);
		if (r < 0 && errno != EINTR) {
			say_error("cannot wait for a consumer: %m");
			return -1;
		}
		int fd = r > 0 ? accept4(place->listener, NULL, NULL, SOCK_CLOEXEC) : -1;
		if (fd < 0)
			continue;
		if (share_channel_open(fd, 0, __func__, &channel) == VG_OK &&
		    share_channel_check_peer(&channel) == VG_OK)
			return fd;
		say_warning("refused a connection: %s", vg_last_error()->text);
		close(fd);
	}
	say_error("no consumer connected within %d s: start one with virgate share consume%s, or wait longer with "
		  "--timeout",
		  seconds, sim_flag());
	return -1;
}

// After the last try, which `error` ended.
static void say_refused(const char *path, int seconds, int error)
{
	if (error == EAGAIN)
		say_error(
			"the producer on %s does not accept connections: end it if it hangs, or wait longer with "
			"--timeout",
			path);
	else
		say_error("connection refused: no producer listens on %s%s after %d s: start it with virgate share "
			  "produce%s, or wait longer with --timeout",
			  path, access(path, F_OK) == 0 ? " (its socket was left behind)" : "", seconds, sim_flag());
}

int share_place_join(const char *path, int seconds)
{
	uint64_t deadline = vg_clock_monotonic_ns() + (uint64_t)seconds * 1000000000;
	struct sockaddr_un address;
	bool told = false;

	if (address_of(path, &address))
		return -1;
	for (;;) {
		// Where it waited, a producer that hangs while others queue would hold it for ever.
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
		if (!told && error != EAGAIN)
			printf("No producer listens on %s yet: waiting for up to %d s (virgate share produce%s "
			       "starts one)\n",
			       path, seconds, sim_flag());
		told = true;
		poll(NULL, 0, RETRY_MS);
	}
}
