// Runs a tenant that the daemon parks for a dump. Its pager puts the host copy of the device memory into a file, which
// the process does not map. Include once.
#pragma once
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "evictable.h"
#include "pager/host_file.h"

enum { BIG = 300 << 20, SMALL = 3 << 20, FEW = 3 * BLOCK };

static inline void ring_bell(void)
{
	atomic_fetch_add(&slot->bell, 1);
	syscall(SYS_futex, &slot->bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static inline void ask_to_park(uint32_t request_number)
{
	atomic_store(&slot->drain_ms, 5000);
	atomic_store(&slot->park, request_number);
	ring_bell();
	wait_for_answer();
}

static inline void check_state(enum pager_state state, enum pager_reason reason)
{
	if (atomic_load(&slot->state) != state || atomic_load(&slot->reason) != reason)
		FAIL("state %u, reason %u, row %u", slot->state, slot->reason, slot->row);
}

static inline void park(uint32_t request_number)
{
	ask_to_park(request_number);
	check_state(PAGER_PARKED, PAGER_DONE);
}

static inline void unpark(enum pager_state state)
{
	ask_to_park(0);
	check_state(state, PAGER_DONE);
}

static inline struct pager_file read_file(void)
{
	return (struct pager_file){slot->file[0], slot->file[1], slot->file[2]};
}

static inline const char *format_path(const struct pager_file *file)
{
	static char path[128];
	char name[PAGER_FILE_NAME];

	pager_file_format(file, name);
	snprintf(path, sizeof path, PAGER_FILE_DIRECTORY "/%s", name);
	return path;
}

// Counts the mappings, or the open descriptors, of files with host memory. Closes these descriptors if requested.
static inline unsigned int count_mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned int count = 0;
	char line[512];

	while (fgets(line, sizeof line, maps))
		count += strstr(line, "/dev/shm/") != NULL;
	fclose(maps);
	return count;
}

static inline unsigned int visit_descriptors(bool closes)
{
	DIR *directory = opendir("/proc/self/fd");
	unsigned int count = 0;
	char target[512];

	for (struct dirent *entry; (entry = readdir(directory));) {
		ssize_t length = readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1);
		target[length > 0 ? length : 0] = '\0';
		bool is_of_file = strncmp(target, "/dev/shm/", 9) == 0;
		if (is_of_file && closes)
			// A system call instead of close(), since a sanitizer would report that.
			syscall(SYS_close, atoi(entry->d_name));
		count += is_of_file;
	}
	closedir(directory);
	return count;
}

static inline unsigned int count_descriptors(void)
{
	return visit_descriptors(false);
}

static inline uint64_t measure_file(const char *path)
{
	struct stat info;

	CHECK_INT(stat(path, &info), 0);
	return (uint64_t)info.st_blocks * 512;
}

static _Atomic int done;

static inline void *launch(void *address)
{
	CHECK_INT(cuCtxSetCurrent(context), CUDA_SUCCESS);
	fill((CUdeviceptr)(uintptr_t)address, SMALL, 13);
	done = 1;
	return NULL;
}
