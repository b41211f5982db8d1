// What virgate.json looks like. Any thread.
#pragma once
#include <jansson.h>

// The text of a description, sealed with its checksum; to be freed. NULL: no memory.
char *image_text_seal(const json_t *description);
// Writes the sealed text into a draft's directory, which has none yet, and syncs it. 0 or -errno.
int image_text_write(int folder, const char *text, size_t length);
