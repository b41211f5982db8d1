#include "checkpoint/criu/records.h"

#include <endian.h>
#include <string.h>

enum { COMMON_MAGIC = 0x54564319 };

static uint64_t read_number(struct criu_reader *reader)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64 && reader->at < reader->end; shift += 7) {
		unsigned char byte = *reader->at++;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return value;
	}
	reader->broken = true;
	return 0;
}

static struct criu_reader take_bytes(struct criu_reader *reader, uint64_t length)
{
	struct criu_reader part = {.at = reader->at, .end = reader->at};

	if (length > (uint64_t)(reader->end - reader->at)) {
		reader->broken = true;
		return part;
	}
	part.end = reader->at += length;
	return part;
}

bool criu_image_field(struct criu_reader *reader, struct criu_field *ret_field)
{
	if (reader->at == reader->end)
		return false;
	uint64_t key = read_number(reader);
	*ret_field = (struct criu_field){.number = key >> 3, .has_length = (key & 7) == 2};
	if ((key & 7) == 0)
		ret_field->value = read_number(reader);
	else if (ret_field->has_length)
		ret_field->bytes = take_bytes(reader, read_number(reader));
	else
		reader->broken = true; // in these files, CRIU uses no other types of fields
	return !reader->broken;
}

static uint32_t read_word(struct criu_reader *reader)
{
	struct criu_reader part = take_bytes(reader, sizeof(uint32_t));
	uint32_t word = 0;

	if (!reader->broken)
		memcpy(&word, part.at, sizeof word);
	return le32toh(word);
}

bool criu_image_record(struct criu_reader *file, struct criu_reader *ret_record)
{
	if (file->at == file->end)
		return false;
	*ret_record = take_bytes(file, read_word(file));
	return !file->broken;
}

struct criu_reader criu_image_open(const void *data, size_t length, uint32_t magic)
{
	struct criu_reader file = {.at = data, .end = (const unsigned char *)data + length};

	if (read_word(&file) != COMMON_MAGIC || read_word(&file) != magic)
		file.broken = true;
	return file;
}
