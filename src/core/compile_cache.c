#include "core/compile_cache.h"

#include "base/log.h"
#include "core/cache_directory.h"
#include "core/cache_hash.h"
#include "core/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x31656863616367ul // "gcache1"
#define DEFAULT_LIMIT (256ul << 20)

// The header of an entry. In the file, the key and the code follow it, and then the symbols: two zero-terminated texts
// for each.
struct header {
	uint64_t magic;
	uint64_t check; // hash of everything after this field
	uint64_t key_size, data_size, symbols_size, symbol_count;
};

static void free_cache(struct core_object *object)
{
	struct vg_compile_cache *cache = (struct vg_compile_cache *)object;

	if (cache->directory >= 0)
		close(cache->directory);
	free(cache->path);
	free(cache);
}

static const struct core_class cache_class = {"compile cache", NULL, free_cache};

enum vg_status vg_compile_cache_open(const struct vg_compile_cache_options *options,
				     struct vg_compile_cache **ret_cache)
{
	VG_ENTRY();
	struct vg_compile_cache_options o;

	CORE_NEEDED(ret_cache);
	CORE_OPTIONS(o, options);
	if (o.path && *o.path != '/')
		return vg_fail(VG_INVALID, 0,
			       "path \"%s\" is relative, and programs change their working directory: give an "
			       "absolute path",
			       o.path);
	struct vg_compile_cache *cache = calloc(1, sizeof *cache);
	if (!cache)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a cache");
	core_object_init(&cache->object, &cache_class);
	cache->directory = -1;
	cache->limit = o.bytes ? o.bytes : DEFAULT_LIMIT;
	cache->path = o.path ? strdup(o.path) : core_cache_directory_default();
	enum vg_status status = cache->path ? core_cache_directory_open(cache)
				: o.path    ? vg_fail(VG_NO_MEMORY, 0, "no memory for a path")
					    : vg_last_error()->status;
	if (status)
		core_object_release(&cache->object);
	else
		*ret_cache = cache;
	return status;
}

enum vg_status vg_compile_cache_close(struct vg_compile_cache *cache)
{
	VG_ENTRY();
	CORE_NEEDED(cache);
	return core_object_close(&cache->object);
}

void vg_compile_cache_destroy(struct vg_compile_cache *cache)
{
	core_object_release(cache ? &cache->object : NULL);
}

static enum vg_status trim_cache(struct vg_compile_cache *cache, uint64_t most, struct core_cache_sum *ret_sum)
{
	int r = core_cache_directory_trim(cache, most, ret_sum);

	return r ? vg_fail(VG_SYSTEM, -r, "%s: %s", cache->path, strerror(-r)) : VG_OK;
}

enum vg_status vg_compile_cache_clear(struct vg_compile_cache *cache)
{
	VG_ENTRY();
	CORE_USABLE(cache, "cache");
	return trim_cache(cache, 0, NULL);
}

const char *vg_compile_cache_path(const struct vg_compile_cache *cache)
{
	return cache ? cache->path : "";
}

enum vg_status vg_compile_cache_get_statistics(struct vg_compile_cache *cache,
					       struct vg_compile_cache_statistics *ret_statistics)
{
	VG_ENTRY();
	struct core_cache_sum sum;

	CORE_USABLE(cache, "cache");
	CORE_NEEDED(ret_statistics);
	CORE_TRY(trim_cache(cache, UINT64_MAX, &sum));
	*ret_statistics = (struct vg_compile_cache_statistics){.hits = cache->hits,
							       .misses = cache->misses,
							       .damaged = cache->damaged,
							       .failed = cache->failed,
							       .entries = sum.entries,
							       .bytes = sum.bytes};
	return VG_OK;
}

static void name_entry(const struct core_cache_key *key, char ret_name[40])
{
	snprintf(ret_name, 40, "%016llx%016llx.vgc", (unsigned long long)core_cache_hash(key->data, key->size, 1),
		 (unsigned long long)core_cache_hash(key->data, key->size, 2));
}

// Reads the whole file, and updates its access time. Returns NULL if the file does not exist or cannot be read.
static char *read_entry(int directory, const char *name, size_t *ret_size)
{
	// O_NONBLOCK: do not wait for the writer of a FIFO.
	int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat status;
	char *data = NULL;
	size_t size = 0;
	ssize_t got;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && (data = malloc((size_t)status.st_size + 1))) {
		// One read() returns at most 2 GiB. A file that is too short fails the check of its hash later.
		while (size < (size_t)status.st_size &&
		       (got = read(fd, data + size, (size_t)status.st_size - size)) > 0)
			size += (size_t)got;
		*ret_size = size;
		futimens(fd, NULL);
	}
	close(fd);
	return data;
}

// Returns whether the bytes contain `count` terminated texts.
static bool has_texts(const char *texts, size_t size, uint64_t count)
{
	uint64_t ends = 0;

	for (size_t i = 0; i < size; i++)
		ends += !texts[i];
	return ends == count && (size == 0 || !texts[size - 1]);
}

static bool is_whole(const char *entry, size_t size, struct header *ret_header)
{
	size_t after = offsetof(struct header, key_size);

	if (size < sizeof *ret_header)
		return false;
	memcpy(ret_header, entry, sizeof *ret_header);
	size_t left = size - sizeof *ret_header;
	return ret_header->magic == MAGIC && ret_header->key_size <= left &&
	       ret_header->data_size <= left - ret_header->key_size &&
	       ret_header->symbols_size == left - ret_header->key_size - ret_header->data_size &&
	       ret_header->check == core_cache_hash(entry + after, size - after, 3) &&
	       has_texts(entry + size - ret_header->symbols_size, ret_header->symbols_size,
			 2 * ret_header->symbol_count);
}

// Makes a table of symbols from texts that has_texts() has checked: for each symbol, its name expression and the
// symbol.
static struct vg_symbol *read_symbols(const char *texts, size_t count)
{
	struct vg_symbol *table = calloc(count + 1, sizeof *table);

	for (size_t i = 0; table && i < count; i++) {
		table[i].expression = texts;
		table[i].symbol = texts + strlen(texts) + 1;
		texts = table[i].symbol + strlen(table[i].symbol) + 1;
	}
	struct vg_symbol *symbols = table ? core_symbols_copy(table, count) : NULL;
	free(table);
	return symbols;
}

static bool unpack_entry(const char *entry, const struct header *header, struct core_compiled *compiled)
{
	const char *data = entry + sizeof *header + header->key_size;
	struct core_compiled got = {.size = header->data_size, .symbol_count = header->symbol_count};

	got.data = malloc(got.size + 1);
	got.symbols = got.symbol_count ? read_symbols(data + got.size, got.symbol_count) : NULL;
	if (!got.data || (got.symbol_count && !got.symbols)) {
		free(got.data);
		free(got.symbols);
		return false;
	}
	memcpy(got.data, data, got.size);
	got.data[got.size] = '\0';
	*compiled = got;
	return true;
}

bool core_cache_get(struct vg_compile_cache *cache, const struct core_cache_key *key,
		    struct core_compiled *ret_compiled)
{
	struct header header;
	char name[40];
	size_t size;
	bool hit = false;

	name_entry(key, name);
	char *entry = read_entry(cache->directory, name, &size);
	if (entry && !is_whole(entry, size, &header)) {
		vg_log(VG_LOG_WARNING, "%s/%s is damaged: it is compiled again", cache->path, name);
		cache->damaged++;
		unlinkat(cache->directory, name, 0);
	} else if (entry && header.key_size == key->size && memcmp(entry + sizeof header, key->data, key->size) == 0) {
		hit = unpack_entry(entry, &header, ret_compiled);
	}
	free(entry);
	if (hit)
		cache->hits++;
	else
		cache->misses++;
	return hit;
}

// Copies header, key, code and symbols into one block. Returns NULL if out of memory.
static char *pack_entry(const struct core_cache_key *key, const struct core_compiled *compiled, size_t *ret_size)
{
	struct header header = {.magic = MAGIC,
				.key_size = key->size,
				.data_size = compiled->size,
				.symbol_count = compiled->symbol_count};
	size_t after = offsetof(struct header, key_size);

	for (size_t i = 0; i < compiled->symbol_count; i++)
		header.symbols_size +=
			strlen(compiled->symbols[i].expression) + strlen(compiled->symbols[i].symbol) + 2;
	*ret_size = sizeof header + header.key_size + header.data_size + header.symbols_size;
	char *entry = malloc(*ret_size);
	if (!entry)
		return NULL;
	memcpy(entry, &header, sizeof header);
	memcpy(entry + sizeof header, key->data, key->size);
	memcpy(entry + sizeof header + key->size, compiled->data, compiled->size);
	char *text = entry + sizeof header + key->size + compiled->size;
	for (size_t i = 0; i < compiled->symbol_count; i++) {
		text = stpcpy(text, compiled->symbols[i].expression) + 1;
		text = stpcpy(text, compiled->symbols[i].symbol) + 1;
	}
	header.check = core_cache_hash(entry + after, *ret_size - after, 3);
	memcpy(entry, &header, after);
	return entry;
}

// Writes a temporary file and renames it, so that other processes find a complete entry or none.
static int write_entry(struct vg_compile_cache *cache, const char *name, const char *entry, size_t size)
{
	uint64_t number;
	char temporary[48];
	ssize_t written;
	size_t done = 0;

	if (getrandom(&number, sizeof number, 0) != sizeof number)
		return -errno;
	snprintf(temporary, sizeof temporary, "new-%016llx", (unsigned long long)number);
	int fd = openat(cache->directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	while (done < size && (written = write(fd, entry + done, size - done)) > 0)
		done += (size_t)written;
	int r = done < size ? -(errno ? errno : EIO) : 0;
	if (close(fd) && r == 0)
		r = -errno;
	if (r == 0 && renameat(cache->directory, temporary, cache->directory, name))
		r = -errno;
	if (r)
		unlinkat(cache->directory, temporary, 0);
	return r;
}

void core_cache_put(struct vg_compile_cache *cache, const struct core_cache_key *key,
		    const struct core_compiled *compiled)
{
	char name[40];
	size_t size;
	int r;

	name_entry(key, name);
	char *entry = pack_entry(key, compiled, &size);
	if (!entry)
		r = -ENOMEM;
	else if (size > cache->limit)
		r = -EFBIG;
	else
		r = write_entry(cache, name, entry, size);
	free(entry);
	if (r == 0)
		r = core_cache_directory_trim(cache, cache->limit, NULL);
	if (r) {
		cache->failed++;
		vg_log(VG_LOG_WARNING, "%s: a compiled program is not kept: %s", cache->path, strerror(-r));
	}
}
