#include "fatbin.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "abi/fatbin.h"
#include "base/lz4.h"

#define ELF_MAGIC 0x464c457fu
// Marks fat binaries that sim_image_link() writes: all of their parts belong to one program, so all are read.
#define FLAG_LINKED ((uint64_t)1 << 62)
#define LARGEST_TEXT ((uint64_t)1 << 30)

// Returns how well the PTX for an architecture fits the device. Higher is better; a negative number means unusable.
static int rank_text(const char *text, uint32_t architecture, int target)
{
	const char *directive = strstr(text, ".target");
	bool specific = false;
	if (directive) {
		const char *digits = strstr(directive, "sm_");
		if (digits) {
			digits += 3;
			digits += strspn(digits, "0123456789");
			specific = *digits == 'a' || *digits == 'f';
		}
	}
	if ((int)architecture > target || (specific && (int)architecture != target))
		return -1;
	return (int)architecture * 2 + specific;
}

// Returns the entry's text, with a 0 byte appended. NULL: damaged (errno EBADMSG) or out of memory.
static char *read_entry(const struct fatbin_entry *entry, const uint8_t *stored, size_t *ret_length)
{
	bool compressed = entry->flags & (FATBIN_LZ4 | FATBIN_ZSTD);
	uint64_t plain = compressed ? entry->plain_size : entry->size;
	size_t packed = compressed ? entry->compressed_size : (size_t)entry->size;

	errno = EBADMSG;
	if (plain > LARGEST_TEXT || packed > entry->size)
		return NULL;
	char *text = malloc(plain + 1);
	if (!text)
		return NULL;
	size_t written;
	if (entry->flags & FATBIN_ZSTD) {
		written = ZSTD_decompress(text, plain, stored, packed);
		if (ZSTD_isError(written))
			written = SIZE_MAX;
	} else if (entry->flags & FATBIN_LZ4) {
		written = vg_lz4_expand(stored, packed, text, plain);
	} else {
		memcpy(text, stored, plain);
		written = plain;
	}
	if (written != plain) {
		free(text);
		errno = EBADMSG;
		return NULL;
	}
	text[plain] = 0;
	*ret_length = strlen(text);
	return text;
}

// Adds a text that malloc allocated. The image then owns the text. On failure, the caller still owns it.
static int append_text(struct sim_image *image, char *text, size_t length)
{
	char **texts = realloc(image->texts, (image->count + 1) * sizeof *texts);
	if (!texts)
		return -ENOMEM;
	image->texts = texts;
	size_t *lengths = realloc(image->lengths, (image->count + 1) * sizeof *lengths);
	if (!lengths)
		return -ENOMEM;
	image->lengths = lengths;
	texts[image->count] = text;
	lengths[image->count++] = length;
	return 0;
}

int sim_image_append_all(struct sim_image *image, struct sim_image *more)
{
	for (size_t i = 0; i < more->count; i++) {
		int r = append_text(image, more->texts[i], more->lengths[i]);
		if (r < 0)
			return r;
		more->texts[i] = NULL;
	}
	return 0;
}

void sim_image_finish(struct sim_image *image)
{
	for (size_t i = 0; i < image->count; i++)
		free(image->texts[i]);
	free(image->texts);
	free(image->lengths);
	*image = (struct sim_image){0};
}

static int read_container(const uint8_t *data, size_t size, int target, struct sim_image *image)
{
	struct fatbin_container head;
	int best = -1, r;

	if (size < sizeof head)
		return SIM_IMAGE_INVALID;
	memcpy(&head, data, sizeof head);
	if (head.header_size < sizeof head || head.version != 1 || head.size > SIZE_MAX / 2 ||
	    (size != SIM_IMAGE_UNBOUNDED && head.header_size + head.size > size))
		return SIM_IMAGE_INVALID;
	const uint8_t *at = data + head.header_size, *end = at + head.size;
	while ((size_t)(end - at) >= sizeof(struct fatbin_entry)) {
		struct fatbin_entry entry;
		memcpy(&entry, at, sizeof entry);
		if (entry.header_size < sizeof entry || entry.header_size > (size_t)(end - at) ||
		    entry.size > (size_t)(end - at) - entry.header_size)
			return SIM_IMAGE_INVALID;
		if (entry.kind == FATBIN_PTX && (int)entry.architecture <= target) {
			size_t length;
			char *text = read_entry(&entry, at + entry.header_size, &length);
			if (!text)
				return errno == EBADMSG ? SIM_IMAGE_INVALID : -ENOMEM;
			int rank = entry.flags & FLAG_LINKED ? INT_MAX : rank_text(text, entry.architecture, target);
			if (rank > best) {
				sim_image_finish(image);
				best = rank;
			}
			if (rank < best || rank < 0) {
				free(text);
			} else {
				r = append_text(image, text, length);
				if (r < 0) {
					free(text);
					return r;
				}
			}
		}
		at += entry.header_size + entry.size;
	}
	return image->count ? SIM_IMAGE_READ : SIM_IMAGE_NO_BINARY;
}

// Returns the first four bytes as a number.
static uint32_t read_magic(const void *data, size_t size)
{
	uint32_t magic = 0;
	// Data of unknown size may be a short string, so do not read beyond its terminator.
	size_t length = size == SIM_IMAGE_UNBOUNDED ? 4 : size;
	const uint8_t *bytes = data;
	for (size_t i = 0; i < 4 && i < length; i++) {
		magic |= (uint32_t)bytes[i] << (8 * i);
		if (!bytes[i])
			break;
	}
	return magic;
}

// Reads the fat binaries of a program that was compiled from several source files (separable compilation).
static int read_modules(const void *const *modules, int target, struct sim_image *image)
{
	for (; *modules; modules++) {
		struct sim_image one = {0};
		int r = SIM_IMAGE_INVALID;
		if (read_magic(*modules, SIM_IMAGE_UNBOUNDED) == FATBIN_MAGIC)
			r = read_container(*modules, SIM_IMAGE_UNBOUNDED, target, &one);
		if (r == SIM_IMAGE_READ)
			r = sim_image_append_all(image, &one);
		sim_image_finish(&one);
		if (r != SIM_IMAGE_READ)
			return r;
	}
	return image->count ? SIM_IMAGE_READ : SIM_IMAGE_NO_BINARY;
}

// Returns whether the text begins, after comments, with the .version directive.
static bool is_ptx(const char *text, size_t length)
{
	size_t i = 0;
	while (i < length) {
		if (strchr(" \t\r\n", text[i]) && text[i]) {
			i++;
		} else if (length - i > 1 && text[i] == '/' && text[i + 1] == '/') {
			while (i < length && text[i] != '\n')
				i++;
		} else if (length - i > 1 && text[i] == '/' && text[i + 1] == '*') {
			const char *close = memmem(text + i + 2, length - i - 2, "*/", 2);
			if (!close)
				return false;
			i = (size_t)(close - text) + 2;
		} else {
			break;
		}
	}
	return length - i >= 8 && memcmp(text + i, ".version", 8) == 0;
}

static int read_text(const char *data, size_t size, struct sim_image *image)
{
	size_t length = size == SIM_IMAGE_UNBOUNDED ? strlen(data) : strnlen(data, size);
	if (!is_ptx(data, length))
		return SIM_IMAGE_INVALID;
	char *text = strndup(data, length);
	if (!text)
		return -ENOMEM;
	int r = append_text(image, text, length);
	if (r < 0)
		free(text);
	return r;
}

bool sim_image_has_modules(const void *data)
{
	struct fatbin_wrapper wrapper;

	if (read_magic(data, SIM_IMAGE_UNBOUNDED) != FATBIN_WRAPPER_MAGIC)
		return false;
	memcpy(&wrapper, data, sizeof wrapper);
	return wrapper.version == FATBIN_WRAPPER_LINKED;
}

int sim_image_read(const void *data, size_t size, int target, struct sim_image *ret_image)
{
	struct sim_image image = {0};
	uint32_t magic = read_magic(data, size);
	const void *const *modules = NULL;
	int r;

	if (magic == FATBIN_WRAPPER_MAGIC) {
		if (size < sizeof(struct fatbin_wrapper))
			return SIM_IMAGE_INVALID;
		struct fatbin_wrapper wrapper;
		memcpy(&wrapper, data, sizeof wrapper);
		modules = wrapper.version == FATBIN_WRAPPER_LINKED ? wrapper.modules : NULL;
		data = wrapper.data;
		if (!data || (wrapper.version == FATBIN_WRAPPER_LINKED && !modules))
			return SIM_IMAGE_INVALID;
		size = SIM_IMAGE_UNBOUNDED;
		magic = read_magic(data, size);
	}
	if (modules)
		r = read_modules(modules, target, &image);
	else if (magic == FATBIN_MAGIC)
		r = read_container(data, size, target, &image);
	else if (magic == ELF_MAGIC)
		r = SIM_IMAGE_NO_BINARY;
	else
		r = read_text(data, size, &image);
	if (r != SIM_IMAGE_READ) {
		sim_image_finish(&image);
		return r;
	}
	*ret_image = image;
	return SIM_IMAGE_READ;
}

void *sim_image_link(const struct sim_image *image, size_t *ret_size)
{
	size_t size = sizeof(struct fatbin_container);

	for (size_t i = 0; i < image->count; i++)
		size += sizeof(struct fatbin_entry) + (image->lengths[i] + 8) / 8 * 8;
	uint8_t *data = calloc(1, size);
	if (!data)
		return NULL;
	struct fatbin_container head = {FATBIN_MAGIC, 1, sizeof head, size - sizeof head};
	memcpy(data, &head, sizeof head);
	uint8_t *at = data + sizeof head;
	for (size_t i = 0; i < image->count; i++) {
		struct fatbin_entry entry = {
			.kind = FATBIN_PTX,
			.version = 0x101,
			.header_size = sizeof entry,
			.size = (image->lengths[i] + 8) / 8 * 8,
			.flags = FLAG_LINKED | 0x11, // 64-bit, Linux
		};
		memcpy(at, &entry, sizeof entry);
		memcpy(at + sizeof entry, image->texts[i], image->lengths[i]);
		at += sizeof entry + entry.size;
	}
	*ret_size = size;
	return data;
}
