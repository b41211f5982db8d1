#include "daemon/process.h"

#include "base/descriptor.h"
#include "daemon/authority.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 // Linux 6.5
#endif

// Reads the numbers after `key` in the text of /proc/PID/status, at most `most`. Returns how many there were.
static size_t read_ids(const char *status, const char *key, unsigned long *ret_ids, size_t most)
{
	const char *at = strstr(status, key);
	size_t count = 0;

	for (at = at ? at + strlen(key) : ""; *at && *at != '\n' && count < most;) {
		char *end;
		unsigned long id = strtoul(at, &end, 10);
		if (end == at)
			break;
		ret_ids[count++] = id;
		at = end + strspn(end, " \t");
	}
	return count;
}

static bool has_id(const char *status, const char *key, unsigned long wanted)
{
	unsigned long ids[AUTHORITY_GROUPS];
	size_t count = read_ids(status, key, ids, AUTHORITY_GROUPS);

	for (size_t i = 0; i < count; i++)
		if (ids[i] == wanted)
			return true;
	return false;
}

bool process_belongs_to(pid_t pid, uid_t owner, gid_t group)
{
	char path[32], status[8192];

	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	if (vg_file_read(path, status, sizeof status) < 0)
		return false;
	return has_id(status, "\nUid:", owner) ||
	       (group != (gid_t)-1 && (has_id(status, "\nGid:", group) || has_id(status, "\nGroups:", group)));
}

bool process_inner(pid_t pid, uint32_t *ret_pid_namespace, uint32_t *ret_inner_pid)
{
	char path[40], status[8192];
	struct stat namespace;
	unsigned long ids[64]; // pids of the process, one for each nested namespace, the innermost last

	snprintf(path, sizeof path, "/proc/%d/ns/pid", (int)pid);
	if (stat(path, &namespace) < 0)
		return false;
	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	if (vg_file_read(path, status, sizeof status) < 0)
		return false;
	size_t count = read_ids(status, "\nNSpid:", ids, 64);
	if (!count)
		return false;
	*ret_pid_namespace = (uint32_t) namespace.st_ino;
	*ret_inner_pid = (uint32_t)ids[count - 1];
	return true;
}

bool process_is_stopped(pid_t pid)
{
	char path[32], text[1024], state;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	if (vg_file_read(path, text, sizeof text) < 0)
		return false;
	const char *end = strrchr(text, ')'); // the program's name before ")" can contain any character
	return end && sscanf(end + 1, " %c", &state) == 1 && (state == 'T' || state == 't');
}

bool process_has_ended(int pidfd)
{
	struct pollfd poll_fd = {.fd = pidfd, .events = POLLIN};

	return poll(&poll_fd, 1, 0) != 0;
}

// Opens a pidfd of the process that connected, by means of its socket. A kernel without SO_PEERPIDFD opens it by the
// pid. If that process has ended, another process of the same user may have the pid.
static int open_peer(const struct authority_peer *peer)
{
	socklen_t length = sizeof(int);
	int fd;

	if (peer->pid <= 0)
		return -ESRCH; // the peer is in a pid namespace that the daemon does not see
	if (getsockopt(peer->socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &length) == 0)
		return fd;
	if (errno != ENOPROTOOPT)
		return -errno;
	fd = vg_pidfd_open(peer->pid);
	if (fd < 0 || process_belongs_to(peer->pid, peer->uid, (gid_t)-1))
		return fd;
	close(fd);
	return -ESRCH;
}

int process_open_peer(const struct authority_peer *peer)
{
	uint64_t now;
	int fd = open_peer(peer);

	if (fd < 0)
		return fd;
	// Another process can get the pid only after this process has ended. Then the pidfd shows the end.
	if (vg_process_start_time(peer->pid, &now) == 0 && vg_start_time_same(now, peer->start_time) &&
	    !process_has_ended(fd))
		return fd;
	close(fd);
	return -ESRCH;
}

uint64_t process_start_of_peer(const struct authority_peer *peer)
{
	_cleanup_close_ int fd = open_peer(peer);
	uint64_t start_time;

	return fd >= 0 && vg_process_start_time(peer->pid, &start_time) == 0 && !process_has_ended(fd) ? start_time : 0;
}

int process_open(pid_t pid, uint64_t start_time)
{
	uint64_t now;
	int fd = vg_pidfd_open(pid);

	if (fd < 0)
		return fd;
	// Another process may have got the pid before pidfd_open() was called, but not after.
	int r = vg_process_start_time(pid, &now);
	if (r == 0 && vg_start_time_same(now, start_time))
		return fd;
	close(fd);
	return r < 0 && r != -ENOENT ? r : -ESRCH;
}
