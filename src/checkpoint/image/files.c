#include "checkpoint/image/files.h"

#include "base/status.h"
#include "checkpoint/data/chunk.h"
#include "checkpoint/image/device_index.h"
#include "checkpoint/image/image.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 256 };
// Limits for the length of files. MOST_WHOLE is for files with a single checksum: reading a huge hole would take days,
// and CRIU's largest such file is shorter.
static const uint64_t MOST_BYTES = UINT64_C(1) << 56, MOST_WHOLE = UINT64_C(1) << 40;
static const char *const names[] = {"none", "lz4", "zstd"}, *const suffixes[] = {"", ".lz4", ".zst"};
enum { METHODS = sizeof names / sizeof *names };

const char *image_compression_name(enum vg_compression compression)
{
	return (unsigned)compression < METHODS ? names[compression] : "unknown";
}

const char *image_compression_suffix(enum vg_compression compression)
{
	return (unsigned)compression < METHODS ? suffixes[compression] : "";
}

void image_sum_format(uint64_t sum, char ret_text[IMAGE_SUM_TEXT])
{
	snprintf(ret_text, IMAGE_SUM_TEXT, "%016llx", (unsigned long long)sum);
}

// Parses sixteen digits, as image_sum_format() writes them. The caller checks what follows them. Returns false if there
// are no such digits.
static bool read_sum(const char *text, uint64_t *ret_sum)
{
	uint64_t sum = 0;

	for (int i = 0; i < IMAGE_SUM_TEXT - 1; i++) {
		const char *digits = "0123456789abcdef", *digit = text[i] ? strchr(digits, text[i]) : NULL;
		if (!digit)
			return false;
		sum = sum << 4 | (uint64_t)(digit - digits);
	}
	*ret_sum = sum;
	return true;
}

// Parses a number without leading zeros. Returns false if the text does not begin with one, or if it exceeds `most`,
// which must be far below UINT64_MAX.
static bool read_number(const char *text, uint64_t most, const char **ret_end, uint64_t *ret_number)
{
	uint64_t number = 0;
	const char *at = text;

	for (; *at >= '0' && *at <= '9'; at++) {
		if (number > most / 10)
			return false;
		number = number * 10 + (uint64_t)(*at - '0');
		if (number > most)
			return false;
	}
	*ret_end = at;
	*ret_number = number;
	return at > text && (*text != '0' || at == text + 1);
}

bool image_name_is_sound(const char *name, unsigned *ret_tree)
{
	static const char usual[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	const char *at;
	uint64_t tree;

	*ret_tree = 0;
	if (strcmp(name, DEVICE_INDEX) == 0 || device_name_is_pack(name))
		return true;
	if (strncmp(name, "tree-", 5) != 0 || !read_number(name + 5, IMAGE_MOST_TREES - 1, &at, &tree) || *at++ != '/')
		return false;
	*ret_tree = (unsigned)tree;
	size_t length = strlen(at);
	return *at != '.' && length > 0 && length <= NAME_MAX && strspn(at, usual) == length;
}

size_t image_file_length(const struct image_file *file)
{
	return strlen(file->name) - strlen(image_compression_suffix(file->compression));
}

// Compares names without the suffix for compression, so that sorting makes files with the same CRIU name neighbours.
static int by_name(const void *a, const void *b)
{
	const struct image_file *left = a, *right = b;
	size_t lengths[2] = {image_file_length(left), image_file_length(right)};
	size_t common = lengths[0] < lengths[1] ? lengths[0] : lengths[1];
	int order = memcmp(left->name, right->name, common);

	return order ? order : (lengths[0] > lengths[1]) - (lengths[0] < lengths[1]);
}

static const char *read_chunk(const struct image_file *file, size_t index, const char *text, struct image_chunk *ret)
{
	uint64_t left = file->raw - (uint64_t)index * file->chunk_bytes, stored;
	uint64_t most = left < file->chunk_bytes ? left : file->chunk_bytes;
	const char *end;

	// Allow for the map of pages (data/chunk.h), which is stored before a chunk, even if compression does not
	// shrink the chunk.
	if (file->compression)
		most += (most + 32767) / 32768;
	if (!text || !read_sum(text, &ret->sum) || text[16] != ' ' || !read_number(text + 17, most, &end, &stored) ||
	    *end)
		return "a chunk that is none";
	ret->stored = (uint32_t)stored;
	return NULL;
}

static const char *read_chunks(const json_t *list, struct image_file *file)
{
	size_t i;
	json_t *one;

	if (file->chunk_bytes < IMAGE_LEAST_CHUNK || file->chunk_bytes > IMAGE_MOST_CHUNK ||
	    (file->chunk_bytes & (file->chunk_bytes - 1)))
		return "a size of chunks that is none";
	file->chunk_count = json_array_size(list);
	if (file->chunk_count != (file->raw + file->chunk_bytes - 1) / file->chunk_bytes)
		return "more or fewer chunks than its size takes";
	file->chunks = calloc(file->chunk_count + 1, sizeof *file->chunks);
	if (!file->chunks)
		return "more chunks than there is memory for";
	json_array_foreach((json_t *)list, i, one) {
		const char *wrong = read_chunk(file, i, json_string_value(one), &file->chunks[i]);
		if (wrong)
			return wrong;
		file->stored += file->chunks[i].stored;
	}
	if (file->compression ? file->stored != file->bytes : file->bytes != file->raw)
		return "a size that its chunks do not add up to";
	return NULL;
}

static bool read_method(const char *text, enum vg_compression *ret_compression)
{
	for (unsigned i = 0; text && i < METHODS; i++) {
		if (strcmp(text, names[i]) != 0)
			continue;
		*ret_compression = (enum vg_compression)i;
		return true;
	}
	return false;
}

// Returns whether the file's name fits the compression: a compressed file has its method's suffix, and no other file
// has such a suffix. So two files of an image have different names even without the suffixes.
static bool is_named_for(const char *name, enum vg_compression compression)
{
	for (unsigned method = VG_COMPRESSION_LZ4; method < METHODS; method++) {
		size_t length = strlen(name), tail = strlen(suffixes[method]);
		bool ends = length >= tail && strcmp(name + length - tail, suffixes[method]) == 0;
		if (ends != (compression == method))
			return false;
	}
	return true;
}

// Parses an entry of the list. Returns NULL, or what is wrong with the entry.
static const char *read_file(const json_t *object, struct image_file *file)
{
	const char *sum = NULL, *method = NULL;
	json_int_t bytes = -1, raw = -1, chunk = 0;
	json_t *chunks = NULL;
	unsigned tree;

	if (json_unpack((json_t *)object, "{s:s, s:I}", "name", &file->name, "bytes", &bytes))
		return "no name, or no size";
	if (!image_name_is_sound(file->name, &tree))
		return "a name that is not of an image's";
	if (bytes < 0 || (uint64_t)bytes > MOST_BYTES)
		return "a size that is none";
	file->bytes = file->raw = file->stored = (uint64_t)bytes;
	file->is_pack = device_name_is_pack(file->name);
	if (file->is_pack)
		return file->bytes <= MOST_WHOLE ? NULL : "more bytes than a pack has";
	if (json_unpack((json_t *)object, "{s:s}", "xxh3", &sum) == 0)
		return !is_named_for(file->name, VG_COMPRESSION_NONE)	? "a name that is not of its compression"
		       : file->bytes > MOST_WHOLE			? "more bytes than one checksum is for"
		       : strlen(sum) == 16 && read_sum(sum, &file->sum) ? NULL
									: "a checksum that is none";
	if (json_unpack((json_t *)object, "{s:I, s:s, s:I, s:o}", "raw", &raw, "compression", &method, "chunk_bytes",
			&chunk, "chunks", &chunks) ||
	    !json_is_array(chunks) || !read_method(method, &file->compression))
		return "neither a checksum nor chunks";
	if (raw < 0 || (uint64_t)raw > MOST_BYTES || chunk < 0 || chunk > IMAGE_MOST_CHUNK)
		return "a size that is none";
	if (!is_named_for(file->name, file->compression))
		return "a name that is not of its compression";
	file->raw = (uint64_t)raw;
	file->chunk_bytes = (uint32_t)chunk;
	file->stored = 0;
	return read_chunks(chunks, file);
}

static const char *read_all(const json_t *list, struct image_files *files, size_t *ret_at)
{
	for (; files->count < json_array_size(list); ++*ret_at) {
		struct image_file *file = &files->files[files->count++];
		const char *wrong = read_file(json_array_get(list, *ret_at), file);
		if (wrong)
			return wrong;
		files->bytes += file->bytes;
		files->stored += file->stored;
		files->raw += file->raw;
		if (files->bytes > MOST_BYTES || files->raw > MOST_BYTES)
			return "a size that all of them do not add up to";
	}
	qsort(files->files, files->count, sizeof *files->files, by_name);
	for (size_t i = 1; i < files->count; i++)
		if (by_name(&files->files[i - 1], &files->files[i]) == 0) {
			*ret_at = i;
			return "a name that another one has, too";
		}
	return NULL;
}

enum vg_status image_files_read(const json_t *description, const char *path, struct image_files *ret_files)
{
	const json_t *list = json_object_get(description, "files");
	size_t count = json_array_size(list), at = 0;

	*ret_files = (struct image_files){0};
	if (!json_is_array(list) || count > IMAGE_MOST_FILES)
		return vg_fail(VG_INTEGRITY, 0, "%s/" IMAGE_DESCRIPTION " %s", path,
			       count ? "lists more files than an image has" : "lists no files");
	ret_files->files = calloc(count + 1, sizeof *ret_files->files);
	if (!ret_files->files)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of %zu files", count);
	const char *wrong = read_all(list, ret_files, &at);
	if (!wrong)
		return VG_OK;
	const char *name = ret_files->files[at].name;
	enum vg_status status = vg_fail(VG_INTEGRITY, 0, "%s/" IMAGE_DESCRIPTION ", file %zu (%.80s): it has %s", path,
					at, name ? name : "without a name", wrong);
	image_files_free(ret_files);
	return status;
}

void image_files_free(struct image_files *files)
{
	for (size_t i = 0; i < files->count; i++)
		free(files->files[i].chunks);
	free(files->files);
	*files = (struct image_files){0};
}

const struct image_file *image_files_find(const struct image_files *files, const char *name)
{
	for (unsigned method = 0; method < METHODS; method++) {
		const struct image_file wanted = {.name = name, .compression = (enum vg_compression)method};
		size_t length = strlen(name), tail = strlen(suffixes[method]);
		if (length < tail || strcmp(name + length - tail, suffixes[method]) != 0)
			continue;
		const struct image_file *found = bsearch(&wanted, files->files, files->count, sizeof wanted, by_name);
		if (found && strcmp(found->name, name) == 0)
			return found;
	}
	return NULL;
}

uint32_t image_files_largest_chunk(const struct image_files *files)
{
	uint32_t chunk = 0;

	for (size_t i = 0; i < files->count; i++)
		if (files->files[i].chunk_bytes > chunk)
			chunk = files->files[i].chunk_bytes;
	return chunk;
}

enum vg_status image_check_threads(unsigned threads)
{
	if (threads <= MOST_THREADS)
		return VG_OK;
	return vg_fail(VG_INVALID, 0, "%u threads: up to %d, or 0 for as many as there are processors", threads,
		       MOST_THREADS);
}

enum vg_status image_check_compression(enum vg_compression compression, int level)
{
	int least, most;

	if ((unsigned)compression >= METHODS)
		return vg_fail(VG_INVALID, 0, "compression %d: there are none (0), lz4 (1) and zstd (2)",
			       (int)compression);
	if (codec_level_is_sound(compression, level, &least, &most))
		return VG_OK;
	if (most == 0)
		return vg_fail(VG_INVALID, 0, "%s at level %d: it has no levels, leave it at 0", names[compression],
			       level);
	return vg_fail(VG_INVALID, 0, "%s at level %d: there are %d to %d, and 0 for its own choice",
		       names[compression], level, least, most);
}

bool image_tree_is_whole(const struct image_files *files, unsigned tree, pid_t root, char ret_missing[IMAGE_NAME_TEXT])
{
	char core[32];
	const char *const needed[] = {core, "pstree.img", "inventory.img"};

	snprintf(core, sizeof core, "core-%d.img", (int)root);
	for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
		snprintf(ret_missing, IMAGE_NAME_TEXT, "tree-%u/%s", tree, needed[i]);
		const struct image_file *file = image_files_find(files, ret_missing);
		if (!file || file->raw == 0)
			return false;
	}
	return true;
}
