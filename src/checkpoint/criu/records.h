// Reads CRIU's image files: two magic numbers, then records, each with a length and a protocol buffer. See
// https://criu.org/Images. One thread for each reader.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct criu_reader {
	const unsigned char *at, *end;
	bool broken; // the contents are invalid; nothing more is read
};

struct criu_field {
	uint64_t number, value;	  // value of a numeric field
	struct criu_reader bytes; // contents of a field with a length
	bool has_length;
};

// Opens a file in memory, which must outlive the reader. Sets `broken` if the file does not have the magic number.
struct criu_reader criu_image_open(const void *data, size_t length, uint32_t magic);
// Reads the next record of a file, or the next field of a record. Returns false at the end, or if the contents are
// invalid.
bool criu_image_record(struct criu_reader *file, struct criu_reader *ret_record);
bool criu_image_field(struct criu_reader *record, struct criu_field *ret_field);
