// Where the daemon lives: its directory, the lock that makes it the only one, its socket. Everything in the directory is
// reached through its descriptor (docs/decisions.md, "The runtime directory").
#include "base/descriptor.h"
#include "base/directory.h"
#include "base/hash.h"
#include "daemon/node.h"
#include "wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { LOCK_PATIENCE_MS = 2000, DOOR_PATIENCE_MS = 1000, LIVE_PROBES = 3 };

void place_path(const struct node *node, char path[PATH_MAX], const char *format, ...)
{
	va_list arguments;
	int length = snprintf(path, PATH_MAX, "/proc/self/fd/%d/", node->directory);

	va_start(arguments, format);
	vsnprintf(path + length, PATH_MAX - (size_t)length, format, arguments);
	va_end(arguments);
}

// The descriptor, with the mode set, or -1 after words on stderr.
static int open_directory(const struct node *node)
{
	char problem[300];
	int fd = vg_directory_open_own(node->runtime_dir, problem, sizeof problem);

	if (fd < 0) {
		say("%s: remove it, or name another directory in VIRGATE_RUNTIME_DIR", problem);
		return -1;
	}
	(void)flock(fd, LOCK_SH | LOCK_NB); // tells systemd-tmpfiles that the directory is in use
	// Users of the system's daemon must reach its socket and their ledgers, each by its name.
	if (fchmod(fd, node->system_wide ? 0755 : 0700) < 0 || (mkdirat(fd, "ledgers", 0700) < 0 && errno != EEXIST) ||
	    fchmodat(fd, "ledgers", node->system_wide ? 0711 : 0700, 0) < 0) {
		say("%s: %m", node->runtime_dir);
		close(fd);
		return -1;
	}
	return fd;
}

static bool is_live(const char *path)
{
	int fd = vg_wire_connect(path, 1000);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || fd == -EAGAIN || fd == -EPERM; // EAGAIN: somebody listens and has a full queue
}

// ---- the door ---------------------------------------------------------------------------------------------------

// An abstract name: it stands in no directory, and goes with its daemon.
static socklen_t door_address(const struct node *node, struct sockaddr_un *ret_address)
{
	memset(ret_address, 0, sizeof *ret_address);
	ret_address->sun_family = AF_UNIX;
	int length = snprintf(ret_address->sun_path + 1, sizeof ret_address->sun_path - 1, "virgate-%u-%016llx",
			      (unsigned int)geteuid(), (unsigned long long)vg_hash_text(node->runtime_dir));
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

// Somebody was about to become the daemon of this directory: it does not see that there is one.
static void door_knocked(struct node *node, struct source *source, uint32_t events)
{
	int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0)
		close(fd);
	if (!node->leaving)
		place_check(node);
}

enum door { DOOR_OURS, DOOR_ANOTHERS, DOOR_SILENT };

// Knocks, and sees whose it is.
static enum door knock(const struct sockaddr_un *address, socklen_t length)
{
	struct ucred credentials;
	socklen_t size = sizeof credentials;
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)address, length) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
		return DOOR_SILENT; // about to listen or to go, too busy, or in somebody's way
	return credentials.uid == geteuid() ? DOOR_OURS : DOOR_ANOTHERS;
}

// True once no other daemon of ours has this directory's door. `waited`: for so long it was tried.
static bool take_door(struct node *node, int waited)
{
	struct sockaddr_un address;
	socklen_t length = door_address(node, &address);

	if (node->door.fd >= 0)
		return true;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, 16) == 0) {
		node->door = (struct source){fd, door_knocked};
		return true;
	}
	int error = errno;
	if (fd >= 0)
		close(fd);
	enum door door = error == EADDRINUSE ? knock(&address, length) : DOOR_ANOTHERS;
	if (door == DOOR_OURS || (door == DOOR_SILENT && waited < DOOR_PATIENCE_MS))
		return false;
	if (!node->door_refused)
		say("no second lock on %s (%s): only the file lock in it keeps a second daemon away",
		    node->runtime_dir, error == EADDRINUSE ? "another user has its name" : strerror(error));
	node->door_refused = true;
	return true;
}

// ---- the lock -----------------------------------------------------------------------------------------------

static int open_lock(int directory)
{
	return openat(directory, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

// Who holds the lock and does not listen is about to listen, or about to leave: worth a wait.
static bool wait_for_lock(struct node *node)
{
	char path[PATH_MAX];
	int live = 0;

	place_path(node, path, "virgated.sock");
	for (int waited = 0; waited < LOCK_PATIENCE_MS && live < LIVE_PROBES; waited += 10) {
		if (take_door(node, waited) && flock(node->lock_fd, LOCK_EX | LOCK_NB) == 0)
			return true;
		live = is_live(path) ? live + 1 : 0;
		poll(NULL, 0, 10);
	}
	return false;
}

static void sign_lock(const struct node *node)
{
	char text[32];
	int length = snprintf(text, sizeof text, "%d\n", (int)getpid());

	if (ftruncate(node->lock_fd, 0) < 0 || pwrite(node->lock_fd, text, (size_t)length, 0) != length)
		say("%s/lock: %m", node->runtime_dir);
}

static int take_lock(struct node *node)
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
	sign_lock(node);
	return 0;
}

int place_prepare(struct node *node)
{
	node->directory = open_directory(node);
	return node->directory < 0 ? -1 : take_lock(node);
}

static void listener_ready(struct node *node, struct source *source, uint32_t events)
{
	connection_accept(node);
}

int place_listen(struct node *node)
{
	char path[PATH_MAX];
	struct sockaddr_un address;

	// Clients connect by the path itself, for which there is as little room.
	snprintf(path, sizeof path, "%s/virgated.sock", node->runtime_dir);
	if (vg_wire_address(path, &address) < 0) {
		say("the socket's path %s is too long: name a shorter directory in VIRGATE_RUNTIME_DIR", path);
		return -1;
	}
	place_path(node, path, "virgated.sock");
	vg_wire_address(path, &address);
	if (is_live(path)) {
		say("something else listens on %s/virgated.sock: it is not replaced", node->runtime_dir);
		return -1;
	}
	unlink(path); // nobody listens there
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
		node_unwatch(node, &node->listener);
	node->listener = (struct source){fd, listener_ready};
	if (node->door.fd >= 0 && node_watch(node, &node->door, EPOLLIN) < 0)
		return -1;
	return node_watch(node, &node->listener, EPOLLIN) < 0 ? -1 : 0;
}

// ---- somebody removed it ----------------------------------------------------------------------------------------

// What a daemon that started by itself says goes on in the new directory.
static void reopen_log(const struct node *node)
{
	struct stat status;

	if (fstat(2, &status) < 0 || !S_ISREG(status.st_mode) || status.st_nlink)
		return;
	_cleanup_close_ int fd = openat(node->directory, "virgated.log",
					O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0)
		dup2(fd, 2);
}

// Takes the directory of our name, with its lock, in place of the one that is gone. -1: it is somebody else's by now.
static int move_in(struct node *node)
{
	int directory = open_directory(node);
	int lock_fd = directory < 0 ? -1 : open_lock(directory);

	if (lock_fd < 0 || flock(lock_fd, LOCK_EX | LOCK_NB) < 0) {
		if (directory >= 0)
			say("%s was removed by somebody, and another daemon has it now: no new program finds this one",
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
	sign_lock(node);
	reopen_log(node);
	say("%s was removed by somebody: it is there again", node->runtime_dir);
	return place_listen(node);
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

// A cleaner of temporary directories may have taken ours, or a file in it, and nobody finds us then.
void place_check(struct node *node)
{
	char path[PATH_MAX];

	place_path(node, path, "virgated.sock");
	if (!is_in_place(node)) {
		if (move_in(node) < 0)
			return;
		tenant_scan_all(node); // which sees whose ledgers are gone
		damage_mend_all(node);
		state_save_runtime(node);
	} else if (access(path, F_OK) < 0 && errno == ENOENT && place_listen(node) == 0) {
		say("%s/virgated.sock was removed by somebody: it is there again", node->runtime_dir);
	}
}

void place_leave(struct node *node)
{
	if (is_in_place(node))
		unlinkat(node->directory, "virgated.sock", 0);
}

void place_give_up(struct node *node)
{
	close(node->listener.fd);
	close(node->door.fd);
	flock(node->lock_fd, LOCK_UN);
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
