// Tests that root opens no device and no FIFO by a path that it finds in an image or in a dumped process. Such a path
// may lead to any file. Opening a device has effects, and opening a FIFO may block for ever.
#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/machine/build_id.h"
#include "checkpoint/tenant/tenant.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "test.h"

static char directory[] = "/tmp/virgate-opens-XXXXXX", path[64];

static void remove_directory(void)
{
	unlink(path);
	rmdir(directory);
}

static void place_fifo(void)
{
	if (!*path) {
		CHECK(mkdtemp(directory) != NULL);
		snprintf(path, sizeof path, "%s/ledger (deleted)", directory);
		atexit(remove_directory);
	}
	unlink(path);
	CHECK_INT(mkfifo(path, 0600), 0);
}

// Counts how often `path` was opened since the watch began.
static unsigned count_opens(int watch)
{
	char events[4096];
	unsigned count = 0;

	ssize_t length = read(watch, events, sizeof events);
	for (ssize_t at = 0; at < length;) {
		const struct inotify_event *event = (const struct inotify_event *)(events + at);
		count += (event->mask & IN_OPEN) != 0;
		at += (ssize_t)(sizeof *event + event->len);
	}
	return count;
}

static int watch_opens(void)
{
	int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	CHECK(watch >= 0);
	CHECK(inotify_add_watch(watch, path, IN_OPEN) >= 0);
	close(open(path, O_RDWR | O_CLOEXEC));
	CHECK_INT(count_opens(watch), 1); // the watch works: it notices an ordinary open
	return watch;
}

// Starts a process that has a removed file, such as a ledger, mapped shared and writable. The kernel shows the
// mapping's path with " (deleted)" at its end. The test puts a FIFO at exactly that path.
static pid_t start_mapper(void)
{
	char name[64];
	int ready[2];
	char byte;

	snprintf(name, sizeof name, "%.*s", (int)(strlen(path) - strlen(" (deleted)")), path);
	int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && ftruncate(fd, 4096) == 0 && unlink(name) == 0 && pipe(ready) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		byte = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED;
		close(fd);
		(void)!write(ready[1], &byte, 1);
		pause();
		_exit(0);
	}
	CHECK_INT(read(ready[0], &byte, 1), 1);
	CHECK_INT(byte, 1);
	close(ready[0]);
	close(ready[1]);
	close(fd);
	return pid;
}

TEST(a_fifo_in_the_place_of_a_mapped_file_is_not_opened)
{
	place_fifo();
	pid_t pid = start_mapper();
	struct tree_process process = {.pid = pid};
	struct tree tree = {.processes = &process, .count = 1, .root_count = 1};
	struct tenants tenants;
	int watch = watch_opens();

	// Ends the test if a call blocks.
	alarm(20);
	enum vg_status status = tenants_find(&tree, &tenants);
	alarm(0);
	kill(pid, SIGKILL);
	CHECK_INT(waitpid(pid, NULL, 0), pid);
	CHECK_INT(status, VG_OK);
	CHECK_INT(count_opens(watch), 0);
	CHECK_INT(tenants.count, 0);
	tenants_free(&tenants);
	close(watch);
}

TEST(a_fifo_that_an_image_names_is_not_opened)
{
	char text[BUILD_ID_TEXT];

	place_fifo();
	int watch = watch_opens();
	alarm(20);
	CHECK_INT(build_id_read(path, text), 0);
	CHECK_STR(text, "");
	CHECK_INT(vg_open_regular(path, O_RDONLY), -EINVAL);
	alarm(0);
	CHECK_INT(count_opens(watch), 0);
	close(watch);
	// Following this link is allowed, and opens no FIFO.
	CHECK_INT(build_id_read("/proc/self/exe", text), 0);
	CHECK(*text);
}
