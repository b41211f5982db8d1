// Takes over the publications' pages (wire/page.h) that an earlier daemon left.
#include "daemon/broker/broker.h"

#include "base/descriptor.h"
#include "daemon/broker/page.h"
#include "daemon/broker/publication.h"
#include "daemon/path.h"
#include "daemon/process.h"
#include "daemon/registry.h"
#include "daemon/say.h"
#include "daemon/source.h"

#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

static void lost_ended(struct node *node, struct source *source, uint32_t events)
{
	struct publication *publication = (struct publication *)((char *)source - offsetof(struct publication, lost));

	publication_forget_lost(node, publication);
	publication_release(node, publication);
}

// Waits for the publisher to connect again, until its process ends.
static void expect_publisher(struct node *node, struct publication *publication, const struct vg_wire_page *page)
{
	pid_t pid = page->publisher <= INT_MAX ? (pid_t)page->publisher : 0;

	publication->lost_pid = pid;
	publication->lost = (struct source){pid > 0 ? process_open(pid, page->publisher_start) : -1, lost_ended};
	if (publication->lost.fd >= 0 && source_watch(node, &publication->lost, EPOLLIN) < 0)
		source_close(node, &publication->lost);
}

static void load_page(struct node *node, const char *name)
{
	char path[PATH_MAX];
	struct stat status;
	struct vg_wire_page page;

	page_path(node, name, path);
	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	bool is_valid = fd >= 0 && registry_name_is_valid(name) && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
			status.st_size == VG_PAGE_SIZE && pread(fd, &page, sizeof page, 0) == sizeof page &&
			page.magic == VG_PAGE_MAGIC && strncmp(page.name, name, sizeof page.name) == 0 &&
			page.newest <= INT64_MAX && page.current <= page.newest &&
			(node->system_wide || page.owner == geteuid());
	struct publication *publication = is_valid ? publication_add(node, name, page.owner, page.id) : NULL;
	if (!publication || page_map(publication, path, fd) < 0) {
		say("%s/publications/%.*s is no publication's page: removed", node->runtime_dir, VG_WIRE_NAME - 1,
		    name);
		unlink(path);
		if (publication)
			publication_release(node, publication);
		return;
	}
	publication->newest = page.newest;
	if (page.current) { // 0: an earlier daemon had withdrawn the publication
		publication->current = page.current;
		// the revocation of the earlier daemon is over: its client has lost the connection
		publication->page->asked = 0;
		expect_publisher(node, publication, &page);
	}
	publication_release(node, publication); // frees the publication if its publisher has ended
}

void broker_load_pages(struct node *node)
{
	char path[PATH_MAX];
	struct dirent *entry;

	path_format(node, path, "publications");
	DIR *directory = opendir(path);
	while (directory && (entry = readdir(directory)))
		if (entry->d_name[0] != '.')
			load_page(node, entry->d_name);
	if (directory)
		closedir(directory);
}
