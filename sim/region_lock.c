// Who may change the tables, and which slots are somebody's: locks on bytes of the header file, by open file
// description.
//
// The kernel drops them when their owner ends, however it ends and whatever pid namespace it is in. A robust mutex
// would not do: it names its owner by a thread id, which threads of several namespaces have, and the death of one of
// them that waits would open the mutex that another one holds.
//
// The tables' lock is that of a descriptor. A slot's is that of the mapping, which keeps its open file description:
// there it outlives the descriptors, which a program may close, and no child has it.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "region_internal.h"

enum { TABLES = 0, SLOTS = 1 }; // bytes of the file; a slot's is SLOTS + its number

static struct flock byte_lock(short type, int byte)
{
	return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
}

// A process died in the middle of a change: what the tables say block by block is the
// truth, the sums are made anew. An allocation counts only once its head says how long it is.
static void repair(struct region *region)
{
	struct region_header *h = region->header;

	memset(h->used, 0, sizeof h->used);
	h->orphans = 0;
	for (int i = 0; i < REGION_PROCESSES; i++)
		memset(h->processes[i].used, 0, sizeof h->processes[i].used);
	for (unsigned device = 0; device < h->config.devices; device++) {
		uint32_t base = device * region->blocks_per_device;
		h->hint[device] = 0;
		for (uint32_t i = base; i < base + region->blocks_per_device; i++) {
			struct region_block *block = &h->blocks[i],
					    *head = block->first ? &h->blocks[block->first - 1] : NULL;
			if (!head)
				continue;
			if (head->first != block->first || !head->blocks) {
				block->first = block->next = 0;
				continue;
			}
			h->used[device] += REGION_BLOCK;
			if (head->owner != REGION_NOBODY)
				h->processes[head->owner].used[device] += REGION_BLOCK;
			else
				h->orphans += block == head;
		}
	}
}

int region_lock_init(struct region *region, int fd)
{
	struct stat status;

	fd = fd < 0 ? -errno : vg_fd_raise_consume(fd);
	if (fd < 0)
		return fd;
	if (fstat(fd, &status) != 0) {
		int error = errno;
		close(fd);
		return -error;
	}
	region->lock = fd;
	region->lock_owner = getpid();
	region->inode = status.st_ino;
	pthread_mutex_init(&region->threads, NULL);
	return 0;
}

void region_lock_finish(struct region *region)
{
	if (region->lock >= 0)
		close(region->lock);
	region->lock = -1;
}

void region_forget_in_child(struct region *region)
{
	if (region)
		region_lock_finish(region);
}

// The file as it is mapped, by an open file description of its own.
static int open_again(const struct region *region)
{
	char path[320];
	struct stat status;

	snprintf(path, sizeof path, "%s/node", region->folder);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) == 0 && status.st_ino == region->inode)
		return fd;
	close(fd);
	return -ESTALE;
}

// A program may have closed what it does not know.
static bool has_descriptor(const struct region *region)
{
	struct stat status;

	return fstat(region->lock, &status) == 0 && status.st_ino == region->inode;
}

// A forked child begins anew: it has its parent's open file description, and so its parent's locks, and its mutex may be
// held by a thread that is not there. The first of its threads sees to that, the others wait for it.
static void begin_anew(struct region *region)
{
	pid_t self = getpid(), owner = atomic_load(&region->lock_owner);

	while (owner != self) {
		if (owner != -self && atomic_compare_exchange_strong(&region->lock_owner, &owner, -self)) {
			pthread_mutex_init(&region->threads, NULL);
			region_lock_finish(region);
			atomic_store(&region->lock_owner, self);
			return;
		}
		sched_yield();
		owner = atomic_load(&region->lock_owner);
	}
}

void region_lock(struct region *region)
{
	struct flock lock = byte_lock(F_WRLCK, TABLES);

	begin_anew(region);
	pthread_mutex_lock(&region->threads);
	if (!has_descriptor(region))
		region->lock = vg_fd_raise_consume(open_again(region));
	while (fcntl(region->lock, F_OFD_SETLKW, &lock) != 0)
		if (errno != EINTR)
			abort(); // our own file, used wrongly
	if (region->header->changing)
		repair(region);
	region->header->changing = 1;
}

void region_unlock(struct region *region)
{
	struct flock lock = byte_lock(F_UNLCK, TABLES);

	region->header->changing = 0;
	(void)fcntl(region->lock, F_OFD_SETLK, &lock);
	pthread_mutex_unlock(&region->threads);
}

// In place of what is mapped: the same file. What that description had locked is free.
static int map_again(struct region *region, int fd)
{
	void *at = mmap(region->header, region->header_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);

	return at == MAP_FAILED ? -errno : 0;
}

int region_slot_claim(struct region *region, int slot)
{
	struct flock lock = byte_lock(F_WRLCK, SLOTS + slot);
	_cleanup_close_ int fd = open_again(region);

	if (fd < 0)
		return fd;
	if (fcntl(fd, F_OFD_SETLK, &lock) != 0)
		return errno == EAGAIN || errno == EACCES ? REGION_GONE : -errno;
	int error = map_again(region, fd);
	if (error == 0 && madvise(region->header, region->header_size, MADV_DONTFORK) != 0)
		error = -errno;
	return error;
}

void region_slot_release(struct region *region)
{
	(void)map_again(region, region->lock);
}

bool region_slot_is_held(struct region *region, uint32_t slot)
{
	struct flock lock = byte_lock(F_WRLCK, SLOTS + (int)slot);

	return fcntl(region->lock, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}
