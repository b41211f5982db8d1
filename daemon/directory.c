// Keeps the runtime directory. All its files are reached through its descriptor (docs/decisions.md, "The runtime
// directory").
#include "daemon/directory.h"

#include "base/hash.h"
#include "base/descriptor.h"
#include "base/directory.h"
#include "daemon/path.h"
#include "daemon/say.h"
#include "daemon/source.h"
#include "wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { LOCK_PATIENCE_MS = 2000, NAME_PATIENCE_MS = 1000, LIVE_PROBES = 3 };

static struct directory_events notify;

// Creates and opens the directory, and sets its mode. Returns a descriptor, or -1 after a log line.
static int open_directory(const struct node *node)
{
	char problem[300];
	int fd = vg_directory_open_own(node->runtime_dir, problem, sizeof problem);

	if (fd < 0) {
		say("%s: remove it, or name another directory in VIRGATE_RUNTIME_DIR", problem);
		return -1;
	}
	(void)flock(fd, LOCK_SH | LOCK_NB); // tells systemd-tmpfiles that the directory is in use
	// Users of the system's daemon must be able to open its socket and their ledgers by path.
	if (fchmod(fd, node->system_wide ? 0755 : 0700) < 0 || (mkdirat(fd, "ledgers", 0700) < 0 && errno != EEXIST) ||
	    fchmodat(fd, "ledgers", node->system_wide ? 0711 : 0700, 0) < 0) {
		say("%s: %m", node->runtime_dir);
		close(fd);
		return -1;
	}
	return fd;
}

// Returns whether a process listens on the socket.
static bool is_live(const char *path)
{
	int fd = vg_wire_connect(path, 1000);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || fd == -EAGAIN || fd == -EPERM; // EAGAIN: the queue of the listener is full
}

// ---- the name lock ----------------------------------------------------------------------------------------------

// Makes the name of an abstract socket, which serves as the second lock. The name is in no directory, so it survives
// the removal of the runtime directory. It disappears with its daemon.
static socklen_t format_name(const struct node *node, struct sockaddr_un *ret_address)
{
	memset(ret_address, 0, sizeof *ret_address);
	ret_address->sun_family = AF_UNIX;
	int length = snprintf(ret_address->sun_path + 1, sizeof ret_address->sun_path - 1, "virgate-%u-%016llx",
			      (unsigned int)geteuid(), (unsigned long long)vg_hash_text(node->runtime_dir));
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

// Called when a process connects to the abstract socket: a daemon that is about to start, and that did not find this
// one. So the runtime directory may have been removed.
static void name_connected(struct node *node, struct source *source, uint32_t events)
{
	int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0)
		close(fd);
	if (!node->is_leaving)
		directory_check(node);
}

enum holder { HOLDER_SAME_USER, HOLDER_OTHER_USER, HOLDER_UNKNOWN };

// Connects to the abstract socket, to find out which process has the name.
static enum holder find_holder(const struct sockaddr_un *address, socklen_t length)
{
	struct ucred credentials;
	socklen_t size = sizeof credentials;
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)address, length) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
		return HOLDER_UNKNOWN; // the process with the name is about to listen or to end, or it is busy
	return credentials.uid == geteuid() ? HOLDER_SAME_USER : HOLDER_OTHER_USER;
}

// Locks the name, unless another user has it. Returns false while another daemon of this user has the name.
// `waited_ms`: the time since the first attempt.
static bool lock_name(struct node *node, int waited_ms)
{
	struct sockaddr_un address;
	socklen_t length = format_name(node, &address);

	if (node->name_lock.fd >= 0)
		return true;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, 16) == 0) {
		node->name_lock = (struct source){fd, name_connected};
		return true;
	}
	int error = errno;
	if (fd >= 0)
		close(fd);
	enum holder holder = error == EADDRINUSE ? find_holder(&address, length) : HOLDER_OTHER_USER;
	if (holder == HOLDER_SAME_USER || (holder == HOLDER_UNKNOWN && waited_ms < NAME_PATIENCE_MS))
		return false;
	if (!node->name_lock_refused)
		say("no second lock on %s (%s): only the file lock in it keeps a second daemon away", node->runtime_dir,
		    error == EADDRINUSE ? "another user has its name" : strerror(error));
	node->name_lock_refused = true;
	return true;
}

// ---- the lock -----------------------------------------------------------------------------------------------

static int open_lock(int directory)
{
	return openat(directory, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

// Waits while another process has the lock but does not listen: that process is about to listen, or to end. Returns
// whether this process has the lock.
static bool wait_for_lock(struct node *node)
{
	char path[PATH_MAX];
	int live = 0;

	path_format(node, path, "virgated.sock");
	for (int waited_ms = 0; waited_ms < LOCK_PATIENCE_MS && live < LIVE_PROBES; waited_ms += 10) {
		if (lock_name(node, waited_ms) && flock(node->lock_fd, LOCK_EX | LOCK_NB) == 0)
			return true;
		live = is_live(path) ? live + 1 : 0;
		poll(NULL, 0, 10);
	}
	return false;
}

// Writes the daemon's pid into the lock file.
static void write_lock(const struct node *node)
{
	char text[32];
	int length = snprintf(text, sizeof text, "%d\n", (int)getpid());

	if (ftruncate(node->lock_fd, 0) < 0 || pwrite(node->lock_fd, text, (size_t)length, 0) != length)
		say("%s/lock: %m", node->runtime_dir);
}

static int lock_directory(struct node *node)
{
	char text[32];

	node->lock_fd = open_lock(node->directory);
	if (node->lock_fd < 0) {
		say("%s/lock: %m", node->runtime_dir);
		return -1;
	}
	if (!wait_for_lock(node)) {
		ssize_t length = pread(node->lock_fd, text, sizeof text - 1, 0);
		text[length > 0 ? length : 0] = '\0';
		text[strcspn(text, "\n")] = '\0';
		say("another virgated (process %s) serves %s", *text ? text : "unknown", node->runtime_dir);
		return -1;
	}
	write_lock(node);
	return 0;
}

int directory_prepare(struct node *node, const struct directory_events *events)
{
	notify = *events;
	node->directory = open_directory(node);
	return node->directory < 0 ? -1 : lock_directory(node);
}

static void listener_ready(struct node *node, struct source *source, uint32_t events)
{
	notify.connected(node);
}

int directory_listen(struct node *node)
{
	char path[PATH_MAX];
	struct sockaddr_un address;

	// Clients connect by this path, which must fit into an address, too.
	snprintf(path, sizeof path, "%s/virgated.sock", node->runtime_dir);
	if (vg_wire_address(path, &address) < 0) {
		say("the socket's path %s is too long: name a shorter directory in VIRGATE_RUNTIME_DIR", path);
		return -1;
	}
	path_format(node, path, "virgated.sock");
	vg_wire_address(path, &address);
	if (is_live(path)) {
		say("something else listens on %s/virgated.sock: it is not replaced", node->runtime_dir);
		return -1;
	}
	unlink(path); // left by a daemon that was killed
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	mode_t before = umask(node->system_wide ? 0111 : 0177);
	bool bound = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 512) == 0;
	umask(before);
	if (!bound) {
		say("%s/virgated.sock: %m", node->runtime_dir);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	if (node->listener.fd >= 0)
		source_close(node, &node->listener);
	node->listener = (struct source){fd, listener_ready};
	node->has_socket_file = true;
	if (node->name_lock.fd >= 0 && source_watch(node, &node->name_lock, EPOLLIN) < 0)
		return -1;
	return source_watch(node, &node->listener, EPOLLIN) < 0 ? -1 : 0;
}

// ---- after a removal --------------------------------------------------------------------------------------------

// Opens the log again in the new directory, if the log was in the old one.
static void reopen_log(const struct node *node)
{
	struct stat status;

	if (fstat(2, &status) < 0 || !S_ISREG(status.st_mode) || status.st_nlink)
		return;
	_cleanup_close_ int fd =
		openat(node->directory, "virgated.log", O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0)
		dup2(fd, 2);
}

// Creates and locks a directory in place of the removed one. Returns -1 if another daemon has locked it by now.
static int restore_directory(struct node *node)
{
	int directory = open_directory(node);
	int lock_fd = directory < 0 ? -1 : open_lock(directory);

	if (lock_fd < 0 || flock(lock_fd, LOCK_EX | LOCK_NB) < 0) {
		if (directory >= 0)
			say("%s was removed, and another daemon has it now: new programs do not find this one",
			    node->runtime_dir);
		if (lock_fd >= 0)
			close(lock_fd);
		if (directory >= 0)
			close(directory);
		return -1;
	}
	close(node->directory);
	close(node->lock_fd);
	node->directory = directory;
	node->lock_fd = lock_fd;
	write_lock(node);
	reopen_log(node);
	say("%s was removed: it was created again", node->runtime_dir);
	return directory_listen(node);
}

static bool is_same_file(const struct stat *left, const struct stat *right)
{
	return left->st_dev == right->st_dev && left->st_ino == right->st_ino;
}

static bool is_in_place(const struct node *node)
{
	struct stat now, ours;

	return lstat(node->runtime_dir, &now) == 0 && fstat(node->directory, &ours) == 0 && is_same_file(&now, &ours) &&
	       fstatat(node->directory, "lock", &now, AT_SYMLINK_NOFOLLOW) == 0 && fstat(node->lock_fd, &ours) == 0 &&
	       is_same_file(&now, &ours);
}

// Checks for removed files: a cleaner of temporary directories may have deleted them.
void directory_check(struct node *node)
{
	char path[PATH_MAX];

	path_format(node, path, "virgated.sock");
	if (!is_in_place(node)) {
		if (restore_directory(node) == 0)
			notify.restored(node);
	} else if (access(path, F_OK) < 0 && errno == ENOENT && directory_listen(node) == 0) {
		say("%s/virgated.sock was removed: it was created again", node->runtime_dir);
	}
}

void directory_leave(struct node *node)
{
	if (node->has_socket_file && is_in_place(node))
		unlinkat(node->directory, "virgated.sock", 0);
	// from now on, a file of this name may be another process's, which this daemon must not remove
	node->has_socket_file = false;
}

void directory_release(struct node *node)
{
	close(node->listener.fd);
	close(node->name_lock.fd);
	flock(node->lock_fd, LOCK_UN);
}
