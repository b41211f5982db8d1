// Reading an image's description as something that anybody may have written. Any thread.
#pragma once
#include "checkpoint/image/files.h"
#include "checkpoint/image/image.h"
#include "virgate/status.h"

#include <jansson.h>

// As image_read(), and what it says has passed schema_check(), consistency_check() and image_files_read(), whose list
// ret_files takes unless it is NULL.
enum vg_status inspect_read(const struct image_dir *dir, json_t **ret_description, struct image_files *ret_files);
// The same of a text. `name`: what errors call it.
enum vg_status inspect_parse(const char *text, size_t length, const char *name, json_t **ret_description,
			     struct image_files *ret_files);
