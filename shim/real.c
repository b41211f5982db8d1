// Finds the real library behind this one. dlopen() of "libcuda.so.1" would return this library, because both have the
// same SONAME. So this code searches where the dynamic linker would, and skips this library, which it recognises by
// device and inode.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/log.h"
#include "shim/next_dlopen.h"
#include "shim/real.h"

static const char *const known_directories[] = {
	"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64", "/usr/local/nvidia/lib64", "/usr/lib/wsl/lib",
	"/run/opengl-driver/lib",
};

static bool is_ourselves(const struct stat *file)
{
	Dl_info info;
	struct stat own;

	return dladdr((void *)shim_real_load, &info) && info.dli_fname && stat(info.dli_fname, &own) == 0 &&
	       own.st_dev == file->st_dev && own.st_ino == file->st_ino;
}

static void *load_file(const char *path)
{
	struct stat file;

	if (stat(path, &file) != 0 || !S_ISREG(file.st_mode) || is_ourselves(&file))
		return NULL;
	void *handle = shim_next_dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		const char *why = dlerror();
		shim_log(SHIM_INFO, "skipping %s: %s", path, why ? why : "no reason given");
	} else {
		shim_log(SHIM_INFO, "using %s", path);
	}
	return handle;
}

static void *load_from_directory(const char *directory, size_t length, const char *soname)
{
	char path[4096];
	int written = snprintf(path, sizeof path, "%.*s/%s", (int)length, directory, soname);

	return written > 0 && (size_t)written < sizeof path && path[0] == '/' ? load_file(path) : NULL;
}

static void *load_from_search_path(const char *directories, const char *soname)
{
	while (directories && *directories) {
		size_t length = strcspn(directories, ":;");
		void *handle = length ? load_from_directory(directories, length, soname) : NULL;
		if (handle)
			return handle;
		directories += length + (directories[length] != '\0');
	}
	return NULL;
}

// The header of the dynamic linker's cache (ld.so.cache) in the format "glibc-ld.so.cache1.1", as elf/cache.c of glibc
// describes it. After the header come the entries, and then the strings. `key` and `value` of an entry are the offsets
// of the SONAME and of the path.
struct cache_header {
	char magic[20];
	uint32_t entries;
	uint32_t strings;
	uint8_t flags, padding[3];
	uint32_t extension;
	uint32_t unused[3];
};
struct cache_entry {
	int32_t flags;
	uint32_t key, value;
	uint32_t os_version;
	uint64_t hardware;
};
enum { CACHE_ELF_X86_64 = 0x0303 };

static const char *read_cache_string(const char *cache, size_t size, uint32_t offset)
{
	return offset < size && memchr(cache + offset, '\0', size - offset) ? cache + offset : NULL;
}

static void *load_from_cache_image(const char *cache, size_t size, const char *soname)
{
	const struct cache_header *header = (const struct cache_header *)cache;

	if (size < sizeof *header || memcmp(header->magic, "glibc-ld.so.cache1.1", sizeof header->magic) != 0 ||
	    header->entries > (size - sizeof *header) / sizeof(struct cache_entry))
		return NULL;
	const struct cache_entry *entries = (const struct cache_entry *)(header + 1);
	for (uint32_t i = 0; i < header->entries; i++) {
		const char *key = read_cache_string(cache, size, entries[i].key);
		const char *path = read_cache_string(cache, size, entries[i].value);
		if (entries[i].flags != CACHE_ELF_X86_64 || !key || !path || strcmp(key, soname) != 0)
			continue;
		void *handle = load_file(path);
		if (handle)
			return handle;
	}
	return NULL;
}

static void *load_from_cache(const char *soname)
{
	void *handle = NULL;
	struct stat file;
	int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return NULL;
	if (fstat(fd, &file) == 0 && file.st_size > 0) {
		size_t size = (size_t)file.st_size;
		void *cache = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (cache != MAP_FAILED) {
			handle = load_from_cache_image(cache, size, soname);
			munmap(cache, size);
		}
	}
	close(fd);
	return handle;
}

void *shim_real_load(const char *soname, const char *override)
{
	const char *path = secure_getenv(override);

	if (path && *path) {
		void *handle = load_file(path);
		if (!handle)
			shim_log(SHIM_ERROR, "%s names %s, which cannot be loaded", override, path);
		return handle;
	}
	void *handle = load_from_search_path(secure_getenv("LD_LIBRARY_PATH"), soname);
	if (!handle)
		handle = load_from_cache(soname);
	for (size_t i = 0; !handle && i < sizeof known_directories / sizeof *known_directories; i++)
		handle = load_from_directory(known_directories[i], strlen(known_directories[i]), soname);
	if (!handle)
		shim_log(SHIM_WARNING, "no %s on this machine", soname);
	return handle;
}
