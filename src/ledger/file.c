// Creates and maps the file of a ledger, and reads and writes the values of its header.
#include "base/descriptor.h"
#include "ledger/layout.h"
#include "ledger/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

// Maps the file. Returns NULL and sets errno on failure.
static struct ledger_file *map_file(int fd)
{
	void *address = mmap(NULL, sizeof(struct ledger_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return address == MAP_FAILED ? NULL : address;
}

void ledger_file_unmap(struct ledger_file *file)
{
	munmap(file, sizeof *file);
}

static void fill_header(struct ledger_header *header, const struct vg_ledger_options *options)
{
	header->version = LEDGER_VERSION;
	header->size = sizeof(struct ledger_file);
	snprintf(header->name, sizeof header->name, "%s", options->name);
	memcpy(header->uuid, options->uuid, sizeof header->uuid);
	header->flags = options->flags;
	header->share_percent = options->share_percent;
	header->context_overhead = options->context_overhead;
	header->limits[0] = options->limit;
	header->swap = options->swap;
	header->fixed = options->fixed;
	header->magic = LEDGER_MAGIC;
}

static int set_owner(int fd, const struct vg_ledger_options *options)
{
	bool has_group = options->group != (gid_t)-1;

	if ((options->owner != (uid_t)-1 || has_group) && fchown(fd, options->owner, options->group) < 0)
		return -errno;
	return fchmod(fd, has_group ? 0660 : 0600) < 0 ? -errno : 0;
}

static int create_at(const char *temporary, int fd, const char *path, const struct vg_ledger_options *options,
		     struct vg_ledger **ret_ledger)
{
	// Allocate every page of the file now. Otherwise SIGBUS would kill a tenant at its first access to a page while
	// the file system is full.
	int r = posix_fallocate(fd, 0, sizeof(struct ledger_file));
	if (r)
		return -r;
	struct ledger_file *file = map_file(fd);
	if (!file)
		return -errno;
	fill_header(&file->header, options);
	r = set_owner(fd, options);
	if (r == 0 && link(temporary, path) < 0)
		r = -errno;
	if (r < 0)
		goto unmap;
	r = ledger_wrap(file, fd, ret_ledger);
	if (r == 0)
		return 0;
	unlink(path);
unmap:
	ledger_file_unmap(file);
	return r;
}

int vg_ledger_create(const char *path, const struct vg_ledger_options *options, struct vg_ledger **ret_ledger)
{
	char temporary[PATH_MAX];

	if (strlen(options->name) >= VG_LEDGER_NAME)
		return -ENAMETOOLONG;
	if (snprintf(temporary, sizeof temporary, "%s.XXXXXX", path) >= (int)sizeof temporary)
		return -ENAMETOOLONG;
	_cleanup_close_ int fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int r = create_at(temporary, fd, path, options, ret_ledger);
	unlink(temporary);
	return r;
}

bool ledger_header_is_valid(const struct ledger_header *header)
{
	return header->magic == LEDGER_MAGIC && header->version == LEDGER_VERSION &&
	       header->size == sizeof(struct ledger_file) && memchr(header->name, '\0', sizeof header->name);
}

// Reads the header with read() and does not access the mapping, because that raises SIGBUS if the file is truncated.
int vg_ledger_open(const char *path, struct vg_ledger **ret_ledger)
{
	struct ledger_header header;
	struct stat status;
	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) < 0)
		return -errno;
	if (!S_ISREG(status.st_mode) || status.st_size != sizeof(struct ledger_file) ||
	    vg_read_all(fd, &header, sizeof header, 0) != sizeof header || !ledger_header_is_valid(&header))
		return -EPROTO;
	struct ledger_file *file = map_file(fd);
	if (!file)
		return -errno;
	int r = ledger_wrap(file, fd, ret_ledger);
	if (r < 0)
		ledger_file_unmap(file);
	return r;
}

int vg_ledger_create_blank(struct vg_ledger **ret_ledger)
{
	void *file = mmap(NULL, sizeof(struct ledger_file), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (file == MAP_FAILED)
		return -errno;
	int r = ledger_wrap(file, -1, ret_ledger);
	if (r < 0)
		ledger_file_unmap(file);
	return r;
}

const char *vg_ledger_find_damage(const struct vg_ledger *ledger, const struct vg_ledger_expected *expected)
{
	const struct ledger_header *header = &ledger_file_of(ledger)->header;
	uint64_t limit, charged;

	if (!ledger_header_is_valid(header) || strncmp(header->name, expected->name, sizeof header->name) != 0 ||
	    memcmp(header->uuid, expected->uuid, sizeof header->uuid) != 0)
		return "its header was overwritten";
	vg_ledger_read(ledger, &limit, &charged);
	if (limit != expected->limit)
		return "its limit was overwritten";
	return charged > limit ? "more is charged in it than its limit" : NULL;
}

const char *vg_ledger_kind_text(enum vg_ledger_kind kind)
{
	static const char *const texts[] = {
#define X(name, text) text,
		VG_LEDGER_KINDS(X)
#undef X
	};
	return (unsigned int)kind < VG_LEDGER_KIND_COUNT ? texts[kind] : "unknown";
}

const char *vg_ledger_name(const struct vg_ledger *ledger)
{
	return ledger_file_of(ledger)->header.name;
}

void vg_ledger_uuid(const struct vg_ledger *ledger, uint8_t ret_uuid[16])
{
	memcpy(ret_uuid, ledger_file_of(ledger)->header.uuid, 16);
}

uint32_t vg_ledger_flags(const struct vg_ledger *ledger)
{
	return LEDGER_LOAD(ledger_file_of(ledger)->header.flags);
}

void vg_ledger_set_flags(struct vg_ledger *ledger, uint32_t flags)
{
	LEDGER_STORE(ledger_file_of(ledger)->header.flags, flags);
}

uint64_t vg_ledger_swap(const struct vg_ledger *ledger)
{
	return LEDGER_LOAD(ledger_file_of(ledger)->header.swap);
}

uint64_t vg_ledger_fixed(const struct vg_ledger *ledger)
{
	return LEDGER_LOAD(ledger_file_of(ledger)->header.fixed);
}

uint32_t vg_ledger_share(const struct vg_ledger *ledger)
{
	return LEDGER_LOAD(ledger_file_of(ledger)->header.share_percent);
}

void vg_ledger_set_share(struct vg_ledger *ledger, uint32_t percent)
{
	LEDGER_STORE(ledger_file_of(ledger)->header.share_percent, percent);
}

uint64_t vg_ledger_context_overhead(const struct vg_ledger *ledger)
{
	return LEDGER_LOAD(ledger_file_of(ledger)->header.context_overhead);
}

void vg_ledger_set_context_overhead(struct vg_ledger *ledger, uint64_t bytes)
{
	struct ledger_header *header = &ledger_file_of(ledger)->header;

	LEDGER_STORE(header->context_overhead, bytes);
	__atomic_or_fetch(&header->flags, VG_LEDGER_OVERHEAD_MEASURED, __ATOMIC_RELEASE);
}

void vg_ledger_set_ceiling(struct vg_ledger *ledger, uint64_t bytes)
{
	LEDGER_STORE(ledger_file_of(ledger)->header.ceiling, bytes);
}

uint64_t vg_ledger_ceiling(const struct vg_ledger *ledger)
{
	return LEDGER_LOAD(ledger_file_of(ledger)->header.ceiling);
}

uint64_t vg_ledger_enters(const struct vg_ledger *ledger)
{
	return LEDGER_LOAD(ledger_file_of(ledger)->header.enters);
}

uint64_t vg_ledger_charged(const struct vg_ledger *ledger)
{
	return ledger_account_read(&ledger_file_of(ledger)->header.account).charged;
}

uint64_t vg_ledger_limit(const struct vg_ledger *ledger)
{
	uint64_t limit, charged;

	vg_ledger_read(ledger, &limit, &charged);
	return limit;
}

uint64_t vg_ledger_overhead(const struct vg_ledger *ledger)
{
	struct vg_ledger_tenant tenant;
	unsigned int cursor = 0;
	uint64_t sum = 0;

	while (vg_ledger_next_tenant(ledger, &cursor, &tenant))
		sum += tenant.overhead;
	return sum;
}

void vg_ledger_range(const struct vg_ledger *ledger, void **ret_address, size_t *ret_length)
{
	*ret_address = ledger_file_of(ledger);
	*ret_length = sizeof(struct ledger_file);
}
