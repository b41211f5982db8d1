// CRIU's image files: two magic numbers, and records, each a length and a protocol buffer. See https://criu.org/Images.
// One thread a reader.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct criu_reader {
	const unsigned char *at, *end;
	bool broken; // what is there is no such thing; from then on nothing is read
};

struct criu_field {
	uint64_t number, value;	  // the value of one that is a number
	struct criu_reader bytes; // of one that has a length
	bool has_length;
};

// `data` must outlive what is read of it. Broken, unless it is a file of that kind.
struct criu_reader criu_image_open(const void *data, size_t length, uint32_t magic);
// The next record of a file, the next field of a record. False: there is none any more, or it is broken.
bool criu_image_record(struct criu_reader *file, struct criu_reader *ret_record);
bool criu_image_field(struct criu_reader *record, struct criu_field *ret_field);
