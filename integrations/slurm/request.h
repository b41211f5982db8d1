// Parses what a job requests with the options --vgpu, --vgpu-memory and so on. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REQUEST_PROFILE_NAME = 64 };

struct request {
	char profile[REQUEST_PROFILE_NAME]; // "": none
	uint64_t memory;		    // bytes; 0: the share's part of the GPU's memory, or the profile's memory
	unsigned share;			    // percent of the GPU's time; 0: no share, or the profile's share
};

enum request_option { REQUEST_PROFILE, REQUEST_MEMORY, REQUEST_SHARE, REQUEST_OPTIONS };

struct request_option_text {
	const char *name, *argument, *usage;
};
extern const struct request_option_text request_options[REQUEST_OPTIONS];

// Parses a size such as "1536M", "1.5G" or "1.5GiB", with units of powers of 1024; without a unit, bytes. Returns false
// if the text is not a size.
bool request_parse_size(const char *text, uint64_t *ret_bytes);
// Formats a size as "1.5 GiB". Returns `buffer`.
enum { REQUEST_SIZE_TEXT = 32 };
const char *request_format_size(uint64_t bytes, char buffer[REQUEST_SIZE_TEXT]);
// Adds the value of one option. Returns NULL, or a sentence for the user, which is in `buffer`.
const char *request_add(struct request *request, enum request_option option, const char *value, char *buffer,
			size_t capacity);
// Checks that the options can be used together. Returns NULL, or a sentence for the user.
const char *request_check(const struct request *request);
// Returns whether the job asks for a vGPU.
bool request_is_made(const struct request *request);
