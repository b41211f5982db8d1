// Creates the key file that vram_keys_open() reads.
#include "vram/mac.h"

#include "base/descriptor.h"
#include "base/status.h"
#include "virgate/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static int write_key(int fd)
{
	// The hexadecimal digits and a terminator, which is replaced by a newline in the file.
	char text[2 * VRAM_SECRET + 1];
	uint8_t secret[VRAM_SECRET];

	randombytes_buf(secret, sizeof secret);
	sodium_bin2hex(text, sizeof text, secret, sizeof secret);
	text[sizeof text - 1] = '\n';
	int r = fchmod(fd, 0600) < 0 ? -errno : 0; // sets the mode whatever the umask is
	if (r == 0)
		r = vg_write_all(fd, text, sizeof text, -1);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	sodium_memzero(secret, sizeof secret);
	sodium_memzero(text, sizeof text);
	return r;
}

enum vg_status vg_seal_key_create(const char *path)
{
	VG_ENTRY();
	if (!path || !*path)
		return vg_fail(VG_INVALID, 0, path ? "path is empty" : "path is NULL");
	if (sodium_init() < 0)
		return vg_fail(VG_SYSTEM, 0, "libsodium cannot start: the system gives it no random numbers");
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 && errno == EEXIST)
		return vg_fail(VG_EXISTS, errno,
			       "%s is there already: a new key would make all that was sealed "
			       "with the old one worthless; choose another name",
			       path);
	if (fd < 0) {
		int error = errno;
		enum vg_status status = error == ENOENT || error == ENOTDIR ? VG_NOT_FOUND
					: error == EACCES || error == EPERM ? VG_DENIED
									    : VG_SYSTEM;
		return vg_fail(status, error, "cannot make key file %s: %s", path, strerror(error));
	}
	int r = write_key(fd);
	if (r == 0)
		return VG_OK;
	unlink(path);
	return vg_fail(VG_SYSTEM, -r, "cannot write key file %s: %s", path, strerror(-r));
}
