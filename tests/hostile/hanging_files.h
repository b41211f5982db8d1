// Mounts a FUSE file system with files that can be opened, but never closed: the kernel's request FLUSH gets no answer.
// Root mounts it, as fusermount does for a user.
#pragma once
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char hanging_path[320];
static pid_t hanging_server;

static inline void fuse_answer(int fd, uint64_t request, const void *body, size_t size, int error)
{
	char reply[256];
	struct fuse_out_header header = {(uint32_t)(sizeof header + size), -error, request};

	memcpy(reply, &header, sizeof header);
	if (size)
		memcpy(reply + sizeof header, body, size);
	if (write(fd, reply, sizeof header + size) < 0 && errno != ENOENT)
		_exit(1);
}

static inline void fuse_serve(int fd)
{
	static char request[1 << 20];
	struct fuse_attr file = {.ino = 2, .mode = S_IFREG | 0666, .nlink = 1},
			 root = {.ino = 1, .mode = S_IFDIR | 0755};
	const struct fuse_in_header *in = (const struct fuse_in_header *)request;
	struct fuse_init_out init = {.major = 7, .minor = 31, .max_write = 4096};
	struct fuse_entry_out entry = {.nodeid = 2, .attr = file};
	struct fuse_open_out opened = {.open_flags = FOPEN_DIRECT_IO};

	while (read(fd, request, sizeof request) > 0) {
		struct fuse_attr_out attr = {.attr = in->nodeid == 1 ? root : file};
		switch (in->opcode) {
		case FUSE_INIT:
			fuse_answer(fd, in->unique, &init, sizeof init, 0);
			break;
		case FUSE_LOOKUP:
			fuse_answer(fd, in->unique, &entry, sizeof entry, 0);
			break;
		case FUSE_GETATTR:
			fuse_answer(fd, in->unique, &attr, sizeof attr, 0);
			break;
		case FUSE_OPEN:
			fuse_answer(fd, in->unique, &opened, sizeof opened, 0);
			break;
		case FUSE_FLUSH: // no answer to this request
		case FUSE_FORGET:
			break;
		default:
			fuse_answer(fd, in->unique, NULL, 0, ENOSYS);
		}
	}
}

static inline void end_hanging_files(void)
{
	if (!hanging_server || getpid() != test_pid)
		return;
	kill(hanging_server, SIGKILL);
	waitpid(hanging_server, NULL, 0);
	hanging_server = 0;
	umount2(hanging_path, MNT_DETACH);
}

// Mounts the file system. From then on, closing hanging_path/x hangs.
static inline void start_hanging_files(const char *directory)
{
	char options[100];
	static bool registered;

	snprintf(hanging_path, sizeof hanging_path, "%s/hanging", directory);
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		SKIP("/dev/fuse cannot be opened: %s", strerror(errno));
	snprintf(options, sizeof options, "fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other", fd);
	if (mkdir(hanging_path, 0755) < 0 || mount("test", hanging_path, "fuse", MS_NOSUID | MS_NODEV, options) < 0)
		SKIP("no FUSE file system can be mounted: %s", strerror(errno));
	hanging_server = fork();
	if (hanging_server == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fuse_serve(fd);
		_exit(0);
	}
	close(fd);
	if (!registered)
		atexit(end_hanging_files);
	registered = true;
}
