// Copies a ledger for readers. The users of the vGPU may have written anything to the file, or truncated it.
#include "base/descriptor.h"
#include "ledger/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

int vg_ledger_open_copy(const char *path, struct vg_ledger **ret_ledger)
{
	struct stat status;
	_cleanup_close_ int fd = vg_open_regular(path, O_RDONLY | O_NOFOLLOW);

	if (fd < 0)
		return fd == -EINVAL ? -EPROTO : fd;
	if (fstat(fd, &status) < 0)
		return -errno;
	if (status.st_size != sizeof(struct ledger_file))
		return -EPROTO;
	void *address =
		mmap(NULL, sizeof(struct ledger_file), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (address == MAP_FAILED)
		return -errno;
	struct ledger_file *file = address;
	ssize_t length = vg_read_all(fd, file, sizeof *file, 0);
	int r = (int)length;
	if (length >= 0)
		r = length == sizeof *file && ledger_header_is_valid(&file->header) ? ledger_wrap(file, fd, ret_ledger)
										    : -EPROTO;
	if (r < 0)
		ledger_file_unmap(file);
	return r;
}
