// Creates and maps the pages of publications. A page is a file. So readers' mappings continue to work when this daemon
// is killed, and the next daemon can continue to write the page.
#include "daemon/broker/page.h"

#include "base/descriptor.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/step.h"
#include "daemon/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void page_path(const struct node *node, const char *name, char path[PATH_MAX])
{
	path_format(node, path, "publications/%.*s", VG_WIRE_NAME - 1, name);
}

int page_map(struct publication *publication, const char *path, int fd)
{
	void *page = mmap(NULL, VG_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (page == MAP_FAILED)
		return -errno;
	int for_readers = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (for_readers < 0) {
		int error = errno;
		munmap(page, VG_PAGE_SIZE);
		return -error;
	}
	publication->page = page;
	publication->page_fd = for_readers;
	return 0;
}

int page_create(struct node *node, struct publication *publication)
{
	char path[PATH_MAX];

	path_format(node, path, "publications");
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	page_path(node, publication->name, path);
	unlink(path); // An earlier daemon left this file: no publication has its name.
	_cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	BROKER_STEP("the page's file is empty");
	// Write the zeros, so that a full file system is reported here and not at an access to the mapping.
	// posix_fallocate() would do, too, but after it the removal of the file takes 3 ms on ext4.
	ssize_t written = pwrite(fd, (char[VG_PAGE_SIZE]){0}, VG_PAGE_SIZE, 0);
	int r = written == VG_PAGE_SIZE ? page_map(publication, path, fd) : written < 0 ? -errno : -ENOSPC;
	if (r < 0) {
		unlink(path);
		return r;
	}
	struct vg_wire_page *page = publication->page;
	page->owner = publication->owner;
	memcpy(page->id, publication->id, sizeof page->id);
	memcpy(page->name, publication->name, sizeof page->name);
	atomic_thread_fence(memory_order_release);
	BROKER_STEP("the page has no magic");
	page->magic = VG_PAGE_MAGIC;
	return 0;
}

bool broker_mend_page(const struct node *node, const void *address)
{
	for (const struct publication *one = node->publications; one; one = one->next) {
		const char *page = (const char *)one->page;
		if ((const char *)address < page || (const char *)address >= page + VG_PAGE_SIZE)
			continue;
		return mmap(one->page, VG_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
			    -1, 0) == one->page;
	}
	return false;
}

void page_set_current(struct publication *publication, uint64_t generation)
{
	publication->current = generation;
	publication->page->current = generation;
}

void page_drop(struct node *node, struct publication *publication)
{
	char path[PATH_MAX];

	if (!publication->page)
		return;
	page_set_current(publication, 0);
	BROKER_STEP("the page is about to go");
	page_path(node, publication->name, path);
	unlink(path);
	munmap(publication->page, VG_PAGE_SIZE);
	close(publication->page_fd);
	publication->page = NULL;
	publication->page_fd = -1;
}
