// The publications' pages: files in the runtime folder, so that readers' mappings go on when we are killed, and the
// next daemon can go on writing them.
#include "base/clock.h"
#include "base/descriptor.h"
#include "daemon/broker.h"
#include "daemon/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>

static void page_path(const struct node *node, const char *name, char path[PATH_MAX])
{
	place_path(node, path, "publications/%.*s", VG_WIRE_NAME - 1, name);
}

// Maps `fd` for us, and opens it again for readers.
static int take_file(struct publication *publication, const char *path, int fd)
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

int page_make(struct node *node, struct publication *publication)
{
	char path[PATH_MAX];

	place_path(node, path, "publications");
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	page_path(node, publication->name, path);
	unlink(path); // of nobody: we would know it
	_cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	BROKER_STEP("the page's file is empty");
	// A full file system says so here, not at a write to the mapping. Unlike posix_fallocate() this leaves nothing
	// that the file's end would wait for (3 ms on ext4).
	ssize_t put = pwrite(fd, (char[VG_PAGE_SIZE]){0}, VG_PAGE_SIZE, 0);
	int r = put == VG_PAGE_SIZE ? take_file(publication, path, fd) : put < 0 ? -errno : -ENOSPC;
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

bool page_empty(const struct node *node, const void *at)
{
	for (const struct publication *one = node->publications; one; one = one->next) {
		if ((const char *)at < (char *)one->page || (const char *)at >= (char *)one->page + VG_PAGE_SIZE)
			continue;
		return mmap(one->page, VG_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			    0) == one->page;
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

void page_expect_nobody(struct node *node, struct publication *publication)
{
	node_unwatch(node, &publication->lost);
	if (publication->page && !publication_current(publication))
		page_set_current(publication, 0);
}

static void lost_ended(struct node *node, struct source *source, uint32_t events)
{
	struct publication *publication = (struct publication *)((char *)source - offsetof(struct publication, lost));

	page_expect_nobody(node, publication);
	publication_release(node, publication);
}

// Its publisher is expected back, while it lives.
static void expect(struct node *node, struct publication *publication, const struct vg_wire_page *page)
{
	pid_t pid = page->publisher <= INT_MAX ? (pid_t)page->publisher : 0;

	publication->lost_pid = pid;
	publication->lost = (struct source){pid > 0 ? process_open(pid, page->publisher_start) : -1, lost_ended};
	if (publication->lost.fd >= 0 && node_watch(node, &publication->lost, EPOLLIN) < 0)
		node_unwatch(node, &publication->lost);
}

static void load(struct node *node, const char *name)
{
	char path[PATH_MAX];
	struct stat status;
	struct vg_wire_page page;

	page_path(node, name, path);
	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	bool good = fd >= 0 && registry_name_is_valid(name) && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
		    status.st_size == VG_PAGE_SIZE && pread(fd, &page, sizeof page, 0) == sizeof page &&
		    page.magic == VG_PAGE_MAGIC && strncmp(page.name, name, sizeof page.name) == 0 &&
		    page.newest <= INT64_MAX && page.current <= page.newest &&
		    (node->system_wide || page.owner == geteuid());
	struct publication *publication = good ? publication_add(node, name, page.owner, page.id) : NULL;
	if (!publication || take_file(publication, path, fd) < 0) {
		say("%s/publications/%.*s is no publication's page: removed", node->runtime_dir, VG_WIRE_NAME - 1, name);
		unlink(path);
		if (publication)
			publication_release(node, publication);
		return;
	}
	publication->newest = page.newest;
	if (page.current) { // else it was withdrawn before, and nobody is to come back
		publication->current = page.current;
		publication->page->asked = 0; // whoever asked is gone
		expect(node, publication, &page);
	}
	publication_release(node, publication); // where nobody can come back
}

void page_load_all(struct node *node)
{
	char path[PATH_MAX];
	struct dirent *entry;

	place_path(node, path, "publications");
	DIR *folder = opendir(path);
	while (folder && (entry = readdir(folder)))
		if (entry->d_name[0] != '.')
			load(node, entry->d_name);
	if (folder)
		closedir(folder);
}
