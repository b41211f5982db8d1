// Reads the description of an image, which may come from an attacker. Any thread.
#pragma once
#include "checkpoint/image/files.h"
#include "checkpoint/image/image.h"
#include "virgate/status.h"

#include <jansson.h>

// Reads it as image_read(), then runs schema_check(), consistency_check() and image_files_read(). ret_files receives
// the list of files; may be NULL.
enum vg_status inspect_read(const struct image_dir *dir, json_t **ret_description, struct image_files *ret_files);
// The same for a text. `name` is for messages.
enum vg_status inspect_parse(const char *text, size_t length, const char *name, json_t **ret_description,
			     struct image_files *ret_files);
