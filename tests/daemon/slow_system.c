// Preloaded into a daemon: makes the disk wait or fail, and look-ups of users and groups wait. Files in the directory
// SLOW_SYSTEM control this: `hold-disk`, `fail-disk`, `hold-users`, `hold-groups`. At the first wait, the file
// `waits-disk` (or -users, -groups) is created. With `truncate-ledgers`, ledgers that exist already are truncated as
// soon as the daemon maps them.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool has_file(const char *word, const char *what)
{
	char path[512];

	snprintf(path, sizeof path, "%s/%s-%s", getenv("SLOW_SYSTEM"), word, what);
	return access(path, F_OK) == 0;
}

static void wait_while_held(const char *what)
{
	char path[512];

	if (!has_file("hold", what))
		return;
	snprintf(path, sizeof path, "%s/waits-%s", getenv("SLOW_SYSTEM"), what);
	close(open(path, O_WRONLY | O_CREAT, 0600));
	while (has_file("hold", what))
		poll(NULL, 0, 5);
}

int fsync(int fd)
{
	wait_while_held("disk");
	if (!has_file("fail", "disk"))
		return 0;
	errno = EIO;
	return -1;
}

// Defines a function that waits, and then calls the C library's function of the same name.
#define SLOW(type, name, what, parameters, arguments)                          \
	type name parameters                                                   \
	{                                                                      \
		wait_while_held(what);                                         \
		return ((type(*) parameters)dlsym(RTLD_NEXT, #name))arguments; \
	}

SLOW(struct passwd *, getpwuid, "users", (uid_t uid), (uid))
SLOW(struct passwd *, getpwnam, "users", (const char *name), (name))
SLOW(struct group *, getgrgid, "groups", (gid_t gid), (gid))
SLOW(struct group *, getgrnam, "groups", (const char *name), (name))
SLOW(int, getpwuid_r, "users", (uid_t uid, struct passwd *entry, char *space, size_t size, struct passwd **ret_entry),
     (uid, entry, space, size, ret_entry))
SLOW(int, getpwnam_r, "users",
     (const char *name, struct passwd *entry, char *space, size_t size, struct passwd **ret_entry),
     (name, entry, space, size, ret_entry))
SLOW(int, getgrgid_r, "groups", (gid_t gid, struct group *entry, char *space, size_t size, struct group **ret_entry),
     (gid, entry, space, size, ret_entry))
SLOW(int, getgrnam_r, "groups",
     (const char *name, struct group *entry, char *space, size_t size, struct group **ret_entry),
     (name, entry, space, size, ret_entry))

void *mmap64(void *at, size_t length, int protection, int flags, int fd, off64_t offset)
{
	char path[64], name[512] = "";
	void *mapped = ((void *(*)(void *, size_t, int, int, int, off64_t))dlsym(RTLD_NEXT, "mmap64"))(
		at, length, protection, flags, fd, offset);

	if (fd < 0 || !(flags & MAP_SHARED) || !has_file("truncate", "ledgers"))
		return mapped;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	char *base = readlink(path, name, sizeof name - 1) > 0 ? strstr(name, "/ledgers/") : NULL;
	// truncate only existing ledgers: a new ledger has a temporary name with a dot
	if (base && !strchr(base, '.') && ftruncate(fd, 0) < 0)
		abort();
	return mapped;
}
