// Implements the lock of the region's tables and the locks of the slots. They are locks on bytes of the header file
// that belong to an open file description (F_OFD_SETLK).
//
// The kernel drops such locks when their process ends, in whatever way and in whatever pid namespace. A robust mutex
// would not work: it identifies its owner by a thread id, which threads of several namespaces may have. The death of a
// waiting thread could then unlock the mutex of another one.
//
// The lock of the tables belongs to the open file description of a descriptor. The lock of a slot belongs to the open
// file description that the mapping of the file keeps. So a program that closes all descriptors does not drop it, and a
// forked child does not have it.
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

enum { TABLES = 0, SLOTS = 1 }; // byte of the file for the tables' lock, and of the first slot's lock

static struct flock make_byte_lock(short type, int byte)
{
	return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
}

// Repairs the tables after a process has died during a change. The table of the blocks is right, so the sums are
// computed again from it. An allocation whose first block has the size 0 was not complete: its blocks become free.
static void repair_tables(struct region *region)
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
			if (head->owner != REGION_NO_PROCESS)
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

// Opens the header file again. The new open file description has locks of its own. Returns the descriptor or negative
// errno.
static int reopen_file(const struct region *region)
{
	char path[320];
	struct stat status;

	snprintf(path, sizeof path, "%s/node", region->directory);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) == 0 && status.st_ino == region->inode)
		return fd;
	close(fd);
	return -ESTALE;
}

// Returns whether the descriptor is still valid: the program may have closed it.
static bool has_descriptor(const struct region *region)
{
	struct stat status;

	return fstat(region->lock, &status) == 0 && status.st_ino == region->inode;
}

// Resets the lock in a forked child, which has inherited its parent's locks. A thread that does not exist in the child
// may have held the mutex. The child's first thread that needs the lock resets the lock and the mutex. Other threads
// wait until this is done.
static void reset_in_child(struct region *region)
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
	struct flock lock = make_byte_lock(F_WRLCK, TABLES);

	reset_in_child(region);
	pthread_mutex_lock(&region->threads);
	if (!has_descriptor(region))
		region->lock = vg_fd_raise_consume(reopen_file(region));
	while (fcntl(region->lock, F_OFD_SETLKW, &lock) != 0)
		if (errno != EINTR)
			abort(); // the call cannot fail for this file
	if (region->header->changing)
		repair_tables(region);
	region->header->changing = 1;
}

void region_unlock(struct region *region)
{
	struct flock lock = make_byte_lock(F_UNLCK, TABLES);

	region->header->changing = 0;
	(void)fcntl(region->lock, F_OFD_SETLK, &lock);
	pthread_mutex_unlock(&region->threads);
}

// Replaces the mapping of the header file by one of another descriptor. This ends the locks that belong to the old
// mapping's open file description.
static int remap_file(struct region *region, int fd)
{
	void *at = mmap(region->header, region->header_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);

	return at == MAP_FAILED ? -errno : 0;
}

int region_slot_claim(struct region *region, int slot)
{
	struct flock lock = make_byte_lock(F_WRLCK, SLOTS + slot);
	_cleanup_close_ int fd = reopen_file(region);

	if (fd < 0)
		return fd;
	if (fcntl(fd, F_OFD_SETLK, &lock) != 0)
		return errno == EAGAIN || errno == EACCES ? REGION_GONE : -errno;
	int error = remap_file(region, fd);
	if (error == 0 && madvise(region->header, region->header_size, MADV_DONTFORK) != 0)
		error = -errno;
	return error;
}

void region_slot_release(struct region *region)
{
	(void)remap_file(region, region->lock);
}

bool region_slot_is_locked(struct region *region, uint32_t slot)
{
	struct flock lock = make_byte_lock(F_WRLCK, SLOTS + (int)slot);

	return fcntl(region->lock, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}
