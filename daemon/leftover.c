#include "daemon/leftover.h"

#include "daemon/registry.h"
#include "daemon/user.h"
#include "daemon/work.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct leftover {
	struct leftover *next;
	uid_t owner;
	int fd;
};

struct cut {
	struct work work;
	int fd;
};

static struct leftover *leftovers;

static void cut_file(struct work *work)
{
	int fd = ((struct cut *)work)->fd;

	if (ftruncate(fd, (off_t)vg_ledger_size()) < 0)
		(void)errno; // there is nothing to do after a failure: the next check tries again
	close(fd);
}

static void end_cut(struct node *node, struct work *work)
{
	free(work);
}

// Truncates the file in a thread of the owner, since freeing many pages takes long.
static void begin_cut(int fd, uid_t owner)
{
	struct cut *job = malloc(sizeof *job);

	if (!job)
		return;
	*job = (struct cut){{.lane = WORK_UNREAD, .run = cut_file, .done = end_cut}, fcntl(fd, F_DUPFD_CLOEXEC, 0)};
	if (job->fd >= 0 && work_post(owner, &job->work))
		return;
	if (job->fd >= 0)
		close(job->fd);
	free(job);
}

// Opens the file of the ledger that the vGPU has mapped. Returns -1 if the path now names another file.
static int open_ledger(const struct node *node, const struct vgpu *vgpu)
{
	char path[PATH_MAX];
	struct stat status;

	registry_path(node, vgpu, path);
	int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || (fstat(fd, &status) == 0 && status.st_ino == vg_ledger_inode(vgpu->ledger)))
		return fd;
	close(fd);
	return -1;
}

void leftover_cut(const struct node *node, const struct vgpu *vgpu)
{
	int fd = open_ledger(node, vgpu);

	if (fd < 0)
		return;
	begin_cut(fd, vgpu->owner);
	close(fd);
}

int leftover_open(const struct node *node, const struct vgpu *vgpu)
{
	return user_is_limited(node, vgpu->owner) ? open_ledger(node, vgpu) : -1;
}

// Returns whether no other process has the file open. Only then the kernel grants a write lease (fcntl F_SETLEASE).
static bool is_unused(int fd)
{
	if (fcntl(fd, F_SETLEASE, F_WRLCK) < 0)
		return errno != EAGAIN;
	fcntl(fd, F_SETLEASE, F_UNLCK);
	return true;
}

void leftover_keep(int fd, uid_t owner)
{
	struct leftover *leftover = fd >= 0 && !is_unused(fd) ? malloc(sizeof *leftover) : NULL;

	if (!leftover) {
		if (fd >= 0)
			close(fd);
		return;
	}
	*leftover = (struct leftover){leftovers, owner, fd};
	leftovers = leftover;
	user_of(owner)->vgpus++;
}

bool leftover_any(void)
{
	return leftovers;
}

void leftover_check_all(void)
{
	struct stat status;

	for (struct leftover **link = &leftovers; *link;) {
		struct leftover *leftover = *link;
		if (!is_unused(leftover->fd)) {
			if (fstat(leftover->fd, &status) == 0 && status.st_size > (off_t)vg_ledger_size())
				begin_cut(leftover->fd, leftover->owner);
			link = &leftover->next;
			continue;
		}
		*link = leftover->next;
		user_of(leftover->owner)->vgpus--;
		close(leftover->fd);
		free(leftover);
	}
}
