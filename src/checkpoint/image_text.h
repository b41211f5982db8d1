// What virgate.json looks like. Any thread.
#pragma once
#include <jansson.h>

// The text of a description, sealed with its checksum; to be freed. NULL: no memory.
char *image_text_seal(const json_t *description);
