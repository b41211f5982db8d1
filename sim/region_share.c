// Exports memory and pools as descriptors, and implements interprocess events. Each exported descriptor has a shared
// lock on its file. The lock exists as long as any copy of the descriptor, in any process or in a message on a socket.
// So the lock shows whether a descriptor still exists. The file of exported memory is a FIFO to which no process
// writes, so that epoll accepts its descriptor, as on hardware. The file's name contains the id of the memory. The file
// of a pool begins with a struct region_export.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "region_internal.h"

static void format_export_path(const struct region *region, uint64_t id, uint32_t kind, char *path, size_t capacity)
{
	snprintf(path, capacity, "%s/%sexport-%u-%016" PRIx64, region->directory, region->shared ? "exports/" : "",
		 kind, id);
}

static bool is_locked(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

	return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool region_export_is_alive(struct region *region, uint64_t id)
{
	char path[320];

	format_export_path(region, id, REGION_EXPORT_MEMORY, path, sizeof path);
	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno == EACCES; // EACCES: another user has just created the directory
	return is_locked(fd);
}

void region_sweep_exports(struct region *region)
{
	char path[300];
	struct dirent *entry;

	snprintf(path, sizeof path, "%s/exports", region->directory);
	DIR *exports = opendir(path);
	while (exports && (entry = readdir(exports))) {
		if (entry->d_name[0] == '.')
			continue;
		_cleanup_close_ int fd =
			openat(dirfd(exports), entry->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0 || !is_locked(fd))
			(void)unlinkat(dirfd(exports), entry->d_name, 0);
	}
	if (exports)
		closedir(exports);
}

void region_export_forget(struct region *region, uint64_t id)
{
	char path[320];

	format_export_path(region, id, REGION_EXPORT_MEMORY, path, sizeof path);
	(void)unlink(path);
}

static int open_memory(const struct region *region, const char *path)
{
	struct stat status;

	if (mkfifo(path, 0600) != 0 && errno != EEXIST)
		return -1;
	if (region->shared)
		// Lets all users check the lock on the file. Fails if another user has created the file.
		(void)chmod(path, 0666);
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || (fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode)))
		return fd;
	close(fd);
	errno = EEXIST;
	return -1;
}

static int open_export(const struct region *region, const char *path, const struct region_export *record, size_t tail)
{
	if (record->kind == REGION_EXPORT_MEMORY)
		return open_memory(region, path);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	int error = fd < 0 ? 0 : region_reserve(fd, 0, sizeof *record + tail);
	if (fd < 0 || (error == 0 && pwrite(fd, record, sizeof *record, 0) == sizeof *record))
		return fd;
	error = error ? -error : errno;
	close(fd);
	errno = error;
	return -1;
}

int region_export(struct region *region, const struct region_export *what, size_t tail, int *ret_descriptor)
{
	struct region_export record = *what;
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1};
	char path[320];

	record.magic = REGION_EXPORT_MAGIC;
	region_uuid(&region->header->config, 0, (uint8_t *)&record.payload[10]); // identifies the simulated node
	format_export_path(region, what->id, what->kind, path, sizeof path);
	// This makes the process that frees the memory also remove the file.
	if (what->kind == REGION_EXPORT_MEMORY) {
		region_lock(region);
		region->header->blocks[(uint32_t)what->id].exported = 1;
		region_step("exported");
		region_unlock(region);
	}
	int fd = open_export(region, path, &record, tail);
	region_step("a file");
	if (fd < 0)
		return -errno;
	if (fcntl(fd, F_OFD_SETLK, &lock) != 0) {
		int error = errno;
		close(fd);
		return -error;
	}
	region_step("locked");
	*ret_descriptor = fd;
	return 0;
}

// Finds exported memory by the name of the descriptor's file. Checks that the simulated node's directory has the same
// file under that name.
static int import_memory(const struct region *region, int descriptor, const struct stat *given,
			 struct region_export *ret_what)
{
	char link[64], path[512], *name, *end;
	struct stat ours;

	snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
	ssize_t length = readlink(link, path, sizeof path - 1);
	if (length <= 0)
		return REGION_GONE;
	path[length] = '\0';
	name = strrchr(path, '/');
	if (!name || strncmp(name, "/export-1-", 10) != 0)
		return REGION_GONE;
	struct region_export what = {
		.magic = REGION_EXPORT_MAGIC, .kind = REGION_EXPORT_MEMORY, .id = strtoull(name + 10, &end, 16)};
	format_export_path(region, what.id, what.kind, path, sizeof path);
	if (*end || stat(path, &ours) != 0 || ours.st_dev != given->st_dev || ours.st_ino != given->st_ino)
		return REGION_GONE;
	*ret_what = what;
	return 0;
}

int region_import(struct region *region, int descriptor, struct region_export *ret_what)
{
	struct region_export record;
	struct stat status;
	uint8_t node[16];

	if (fstat(descriptor, &status) == 0 && S_ISFIFO(status.st_mode))
		return import_memory(region, descriptor, &status, ret_what);
	if (pread(descriptor, &record, sizeof record, 0) != sizeof record || record.magic != REGION_EXPORT_MAGIC)
		return REGION_GONE;
	region_uuid(&region->header->config, 0, node);
	if (memcmp(node, &record.payload[10], 16) != 0)
		return REGION_GONE;
	*ret_what = record;
	return 0;
}

int region_event_create(struct region *region, uint32_t *ret_index, uint32_t *ret_generation)
{
	int status = REGION_FULL;

	region_lock(region);
	for (uint32_t i = 0; i < REGION_EVENTS && status != 0; i++) {
		struct region_event *event = &region->header->events[i];
		if (event->used)
			continue;
		event->generation = ++region->header->generation;
		atomic_store(&event->recorded, 0);
		atomic_store(&event->completed, 0);
		memset(event->holders, 0, sizeof event->holders);
		region_bit_set(event->holders, region->slot);
		region_step("holder");
		event->used = 1;
		region_step("used");
		*ret_index = i;
		*ret_generation = event->generation;
		status = 0;
	}
	region_unlock(region);
	return status;
}

int region_event_ref(struct region *region, uint32_t index, uint32_t generation)
{
	int status = REGION_GONE;

	if (index >= REGION_EVENTS)
		return REGION_GONE;
	region_lock(region);
	struct region_event *event = &region->header->events[index];
	if (event->used && event->generation == generation) {
		region_bit_set(event->holders, region->slot);
		status = 0;
	}
	region_unlock(region);
	return status;
}

static void unref_event(struct region_event *event, int slot)
{
	if (region_bit_first_except(event->holders, slot) < 0)
		// Clear `used` before the bit of the last holder. In the other order, a process that is killed between
		// the two would leave a used event without holders, which is never freed.
		event->used = 0;
	region_step("unused");
	region_bit_clear(event->holders, slot);
	region_step("left");
}

void region_event_unref(struct region *region, uint32_t index)
{
	region_lock(region);
	unref_event(&region->header->events[index], region->slot);
	region_unlock(region);
}

bool region_event_expected(struct region *region, const struct region_event *event)
{
	region_lock(region);
	bool alive = event->used && region_is_alive_locked(region, atomic_load(&event->recorder));
	region_unlock(region);
	return alive;
}

void region_events_unref_slot(struct region *region, int slot)
{
	for (uint32_t i = 0; i < REGION_EVENTS; i++) {
		struct region_event *event = &region->header->events[i];
		if (event->used && region_bit(event->holders, slot))
			unref_event(event, slot);
	}
}
