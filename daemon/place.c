// Where the daemon lives: its folder, the lock that makes it the only one, its socket.
#include "base/descriptor.h"
#include "daemon/node.h"
#include "wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { LOCK_PATIENCE_MS = 2000, LIVE_PROBES = 3 };

static void socket_path(const struct node *node, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/virgated.sock", node->runtime_dir);
}

static int make_folder(const char *path, mode_t mode)
{
	struct stat status;

	if (mkdir(path, mode) < 0 && errno != EEXIST) {
		say("%s cannot be made: %m", path);
		return -1;
	}
	if (lstat(path, &status) < 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
	    (status.st_mode & 022)) {
		say("%s is not a folder that only user %u may write: remove it, or name another in VIRGATE_RUNTIME_DIR",
		    path, (unsigned int)geteuid());
		return -1;
	}
	if (chmod(path, mode) < 0) {
		say("%s: %m", path);
		return -1;
	}
	return 0;
}

static bool is_live(const char *path)
{
	int fd = vg_wire_connect(path, 1000);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || fd == -EAGAIN; // EAGAIN: somebody listens and has a full queue
}

// Who holds the lock and does not listen is about to listen, or about to leave: worth a wait.
static bool wait_for_lock(const struct node *node)
{
	char path[PATH_MAX];
	int live = 0;

	socket_path(node, path);
	for (int waited = 0; waited < LOCK_PATIENCE_MS && live < LIVE_PROBES; waited += 10) {
		if (flock(node->lock_fd, LOCK_EX | LOCK_NB) == 0)
			return true;
		live = is_live(path) ? live + 1 : 0;
		poll(NULL, 0, 10);
	}
	return false;
}

static int take_lock(struct node *node)
{
	char path[PATH_MAX], text[32];

	snprintf(path, sizeof path, "%s/lock", node->runtime_dir);
	node->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (node->lock_fd < 0) {
		say("%s: %m", path);
		return -1;
	}
	if (!wait_for_lock(node)) {
		ssize_t length = pread(node->lock_fd, text, sizeof text - 1, 0);
		text[length > 0 ? length : 0] = '\0';
		text[strcspn(text, "\n")] = '\0';
		say("another virgated (process %s) serves %s", *text ? text : "unknown", node->runtime_dir);
		return -1;
	}
	int length = snprintf(text, sizeof text, "%d\n", (int)getpid());
	if (ftruncate(node->lock_fd, 0) < 0 || pwrite(node->lock_fd, text, (size_t)length, 0) != length)
		say("%s: %m", path);
	return 0;
}

int place_prepare(struct node *node)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/ledgers", node->runtime_dir);
	// Users of the system's daemon must reach its socket and their ledgers, each by its name.
	if (make_folder(node->runtime_dir, node->system_wide ? 0755 : 0700) < 0 ||
	    make_folder(path, node->system_wide ? 0711 : 0700) < 0)
		return -1;
	return take_lock(node);
}

static void listener_ready(struct node *node, struct source *source, uint32_t events)
{
	connection_accept(node);
}

int place_listen(struct node *node)
{
	char path[PATH_MAX];
	struct sockaddr_un address;

	socket_path(node, path);
	if (vg_wire_address(path, &address) < 0) {
		say("the socket's path %s is too long: name a shorter folder in VIRGATE_RUNTIME_DIR", path);
		return -1;
	}
	if (is_live(path)) {
		say("something else listens on %s: it is not replaced", path);
		return -1;
	}
	unlink(path); // nobody listens there
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	mode_t before = umask(node->system_wide ? 0111 : 0177);
	bool bound = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 512) == 0;
	umask(before);
	if (!bound) {
		say("%s: %m", path);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	if (node->listener.fd >= 0)
		node_unwatch(node, &node->listener);
	node->listener = (struct source){fd, listener_ready};
	return node_watch(node, &node->listener, EPOLLIN) < 0 ? -1 : 0;
}

// A cleaner of temporary folders may have taken the socket's file, and nobody finds us then.
void place_check(struct node *node)
{
	char path[PATH_MAX];

	socket_path(node, path);
	if (access(path, F_OK) < 0 && errno == ENOENT && place_listen(node) == 0)
		say("%s was removed by somebody: it is there again", path);
}

void place_leave(struct node *node)
{
	char path[PATH_MAX];

	socket_path(node, path);
	unlink(path);
}

int place_write(const char *path, const char *text, mode_t mode)
{
	char temporary[PATH_MAX + 16];
	size_t length = strlen(text);

	snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
	_cleanup_close_ int fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t put = write(fd, text, length);
	if (put == (ssize_t)length && fchmod(fd, mode) == 0 && rename(temporary, path) == 0)
		return 0;
	int r = put >= 0 && put < (ssize_t)length ? -ENOSPC : -errno;
	unlink(temporary);
	return r;
}
