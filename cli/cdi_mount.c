#include "cdi_mount.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "cdi.h"
#include "cdi_state.h"
#include "say.h"

// Opens a path below the container's root. A link in the image cannot lead out of that root.
static int open_in_root(const struct cdi_state *state, const char *path, uint64_t flags)
{
	struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	_cleanup_close_ int root = open(state->root, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return -errno;
	int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof how);
	return fd < 0 ? -errno : fd;
}

// Opens CDI_DIRECTORY. It must be the file system that the runtime has mounted there, because this process may be root
// and writes to it.
static int open_directory(const struct cdi_state *state)
{
	struct statfs info;
	int fd = open_in_root(state, CDI_DIRECTORY, O_RDONLY | O_DIRECTORY);

	if (fd >= 0 && (fstatfs(fd, &info) < 0 || info.f_type != TMPFS_MAGIC)) {
		close(fd);
		fd = -ENOTDIR;
	}
	if (fd < 0)
		say_error("the container has no file system at %s: %s; write the CDI file again with `virgate cdi "
			  "generate`",
			  CDI_DIRECTORY, fd == -ENOTDIR ? "something else is there" : strerror(-fd));
	return fd;
}

// Creates the file `name`, and mounts the file `source` there. Returns false after a message.
static bool bind_file(int directory, const char *name, const char *source)
{
	char target[32];
	_cleanup_close_ int fd = openat(directory, name, O_CREAT | O_EXCL | O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0600);

	snprintf(target, sizeof target, "/proc/self/fd/%d", fd);
	if (fd >= 0 && mount(source, target, NULL, MS_BIND, NULL) == 0)
		return true;
	say_error("%s cannot be mounted into the container: %s", source, strerror(errno));
	return false;
}

bool cdi_mount(const struct cdi_state *state, const char *directory, const char *vgpu)
{
	char ledger[PATH_MAX + 80], socket[PATH_MAX + 32];
	_cleanup_close_ int base = open_directory(state);

	if (base < 0)
		return false;
	snprintf(ledger, sizeof ledger, "%s/ledgers/%s", directory, vgpu);
	snprintf(socket, sizeof socket, "%s/virgated.sock", directory);
	if (mkdirat(base, "ledgers", 0755) < 0) {
		say_error("%s/ledgers cannot be created in the container: %s", CDI_DIRECTORY, strerror(errno));
		return false;
	}
	return bind_file(base, CDI_LEDGER, ledger) && bind_file(base, CDI_SOCKET, socket);
}

// ---- permission -----------------------------------------------------------------------------------------------

// An access control list, as the kernel stores it in an extended attribute: all numbers are little-endian.
struct acl_entry {
	uint16_t tag, permissions;
	uint32_t id;
};
enum { ACL_USER_OWNER = 1, ACL_USER = 2, ACL_GROUP_OWNER = 4, ACL_MASK = 16, ACL_OTHERS = 32 };
enum { READ_WRITE = 6, MOST_USERS = 64, ACL_VERSION = 2 };
static const char attribute[] = "system.posix_acl_access";

struct acl {
	uint32_t version;
	struct acl_entry entries[MOST_USERS + 8];
};

static size_t read_users(const char *path, struct acl_entry *ret_users)
{
	struct acl old;
	ssize_t length = getxattr(path, attribute, &old, sizeof old);
	size_t count = 0, all = length > 4 ? ((size_t)length - 4) / sizeof *old.entries : 0;

	for (size_t i = 0; i < all && count < MOST_USERS - 1; i++)
		if (old.entries[i].tag == ACL_USER)
			ret_users[count++] = old.entries[i];
	return count;
}

static bool is_less(const struct acl_entry *left, const struct acl_entry *right)
{
	return left->id < right->id;
}

// Adds the user to the sorted list. Returns the new count.
static size_t add_user(struct acl_entry *users, size_t count, uid_t user)
{
	struct acl_entry added = {ACL_USER, READ_WRITE, user};
	size_t at = count;

	for (size_t i = 0; i < count; i++)
		if (users[i].id == user)
			return count;
	for (; at > 0 && is_less(&added, &users[at - 1]); at--)
		users[at] = users[at - 1];
	users[at] = added;
	return count + 1;
}

bool cdi_permit(const char *directory, const char *vgpu, uid_t user)
{
	char path[PATH_MAX + 80];
	struct stat info;
	struct acl acl = {.version = ACL_VERSION, .entries = {{ACL_USER_OWNER, READ_WRITE, UINT32_MAX}}};

	snprintf(path, sizeof path, "%s/ledgers/%s", directory, vgpu);
	if (user == 0 || (stat(path, &info) == 0 && info.st_uid == user))
		return true;
	size_t count = 1 + add_user(acl.entries + 1, read_users(path, acl.entries + 1), user);
	uint16_t group = info.st_mode & 060 ? READ_WRITE : 0;
	acl.entries[count++] = (struct acl_entry){ACL_GROUP_OWNER, group, UINT32_MAX};
	acl.entries[count++] = (struct acl_entry){ACL_MASK, READ_WRITE, UINT32_MAX};
	acl.entries[count++] = (struct acl_entry){ACL_OTHERS, 0, UINT32_MAX};
	if (setxattr(path, attribute, &acl, 4 + count * sizeof *acl.entries, 0) == 0)
		return true;
	say_error("user %u of the container cannot be let into vGPU %s: %s: %s; run the container as its root user, or "
		  "give its user's group the vGPU (`virgate create --group`)",
		  (unsigned)user, vgpu, path, strerror(errno));
	return false;
}

// ---- the C library --------------------------------------------------------------------------------------------

static bool has_file(const struct cdi_state *state, const char *path)
{
	int fd = open_in_root(state, path, O_PATH);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

bool cdi_check_library(const struct cdi_state *state)
{
	if (has_file(state, "lib64/ld-linux-x86-64.so.2") || !has_file(state, "lib/ld-musl-x86_64.so.1"))
		return true;
	say_error("the image %s has the C library musl, and Virgate's library is for glibc: no program in the "
		  "container would load it, and no quota would hold; use an image with glibc 2.31 or newer",
		  *state->image ? state->image : "of the container");
	return false;
}
