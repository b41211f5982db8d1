#include "checkpoint/criu/files.h"

#include "checkpoint/criu/records.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

// CRIU's magic number of files.img, and the numbers of protocol buffer fields: in file_entry, and in the reg_file_entry
// inside it.
enum { FILES_MAGIC = 0x56303138, ENTRY_REGULAR = 3, REGULAR_NAME = 6, REGULAR_MODE = 10 };
enum { MOST_NUMBER = 10, LENGTH_TYPE = 2 };

struct buffer {
	unsigned char *data;
	size_t length, capacity;
	bool failed; // true: out of memory
};

static void append_bytes(struct buffer *buffer, const void *data, size_t length)
{
	if (buffer->length + length > buffer->capacity) {
		size_t capacity = 2 * (buffer->length + length) + 4096;
		unsigned char *grown = buffer->failed ? NULL : realloc(buffer->data, capacity);
		if (!grown) {
			buffer->failed = true;
			return;
		}
		buffer->data = grown;
		buffer->capacity = capacity;
	}
	memcpy(buffer->data + buffer->length, data, length);
	buffer->length += length;
}

static void put_number(struct buffer *buffer, uint64_t value)
{
	unsigned char bytes[MOST_NUMBER];
	size_t length = 0;

	for (; value >= 0x80; value >>= 7)
		bytes[length++] = (unsigned char)(value | 0x80);
	bytes[length++] = (unsigned char)value;
	append_bytes(buffer, bytes, length);
}

static void put_field(struct buffer *buffer, unsigned number, const void *data, size_t length)
{
	put_number(buffer, number << 3 | LENGTH_TYPE);
	put_number(buffer, length);
	append_bytes(buffer, data, length);
}

static const struct criu_move *find_move(struct criu_reader entry, const struct criu_move *moves, size_t count)
{
	struct criu_field field;

	while (criu_image_field(&entry, &field)) {
		size_t length = (size_t)(field.bytes.end - field.bytes.at);
		if (field.number != REGULAR_NAME || !field.has_length)
			continue;
		for (size_t i = 0; i < count; i++)
			if (strlen(moves[i].from) == length && memcmp(moves[i].from, field.bytes.at, length) == 0)
				return &moves[i];
	}
	return NULL;
}

static void put_moved(struct buffer *buffer, struct criu_reader entry, const char *to)
{
	struct buffer inner = {0};
	struct criu_field field;

	for (const unsigned char *begin = entry.at; criu_image_field(&entry, &field); begin = entry.at)
		if (field.number != REGULAR_NAME && field.number != REGULAR_MODE)
			append_bytes(&inner, begin, (size_t)(entry.at - begin));
	put_field(&inner, REGULAR_NAME, to, strlen(to));
	buffer->failed |= inner.failed;
	put_field(buffer, ENTRY_REGULAR, inner.data, inner.length);
	free(inner.data);
}

static void put_record(struct buffer *buffer, struct criu_reader *record, const struct criu_move *moves, size_t count)
{
	size_t head = buffer->length;
	struct criu_field field;
	uint32_t length = 0;

	append_bytes(buffer, &length, sizeof length);
	for (const unsigned char *begin = record->at; criu_image_field(record, &field); begin = record->at) {
		const struct criu_move *move = NULL;
		if (field.number == ENTRY_REGULAR && field.has_length)
			move = find_move(field.bytes, moves, count);
		if (move)
			put_moved(buffer, field.bytes, move->to);
		else
			append_bytes(buffer, begin, (size_t)(record->at - begin));
	}
	if (buffer->failed)
		return;
	length = htole32((uint32_t)(buffer->length - head - sizeof length));
	memcpy(buffer->data + head, &length, sizeof length);
}

int criu_files_move(const void *data, size_t length, const struct criu_move *moves, size_t count,
		    unsigned char **ret_data, size_t *ret_length)
{
	struct criu_reader file = criu_image_open(data, length, FILES_MAGIC), record;
	struct buffer buffer = {0};
	bool broken = false;

	if (!file.broken)
		append_bytes(&buffer, data, (size_t)(file.at - (const unsigned char *)data));
	while (!broken && criu_image_record(&file, &record)) {
		put_record(&buffer, &record, moves, count);
		broken = record.broken;
	}
	if (broken || file.broken || buffer.failed) {
		free(buffer.data);
		return buffer.failed ? -ENOMEM : -EBADMSG;
	}
	*ret_data = buffer.data;
	*ret_length = buffer.length;
	return 0;
}
