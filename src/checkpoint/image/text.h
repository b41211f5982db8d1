// Writes the description of an image as the text of virgate.json, and defines the limits for reading such a text. Any
// thread.
#pragma once
#include <jansson.h>

// Limits that are checked before anything is allocated. An image of 4 TiB lists two million chunks, in 75 MB of text.
// The largest allowed text takes less than 1 GiB when it is parsed.
enum { IMAGE_MOST_TEXT = 128 << 20, IMAGE_MOST_VALUES = 4 << 20 };

// Returns the text of a description with its checksum. The caller frees it. NULL: no memory.
char *image_text_seal(const json_t *description);
// Creates virgate.json in a draft's directory and syncs it. Returns 0 or -errno.
int image_text_write(int directory, const char *text, size_t length);
