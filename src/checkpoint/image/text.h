// What virgate.json looks like. Any thread.
#pragma once
#include <jansson.h>

// A text longer than this, or with more values, is refused before anything is allocated for it. An image of 4 TiB lists
// two million chunks, in 75 MB. Parsed, the largest text that is allowed takes less than 1 GiB.
enum { IMAGE_MOST_TEXT = 128 << 20, IMAGE_MOST_VALUES = 4 << 20 };

// The text of a description, sealed with its checksum; to be freed. NULL: no memory.
char *image_text_seal(const json_t *description);
// Writes the sealed text into a draft's directory, which has none yet, and syncs it. 0 or -errno.
int image_text_write(int folder, const char *text, size_t length);
