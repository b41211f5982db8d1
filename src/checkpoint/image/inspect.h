// Reads and checks the description of an image, which may come from an attacker. Any thread.
#pragma once
#include "checkpoint/image/files.h"
#include "checkpoint/image/image.h"
#include "virgate/status.h"

#include <jansson.h>

// Reads the description with image_read(), then runs schema_check(), consistency_check() and image_files_read().
// *ret_files: the list of files; ret_files may be NULL.
enum vg_status inspect_read(const struct image_dir *dir, json_t **ret_description, struct image_files *ret_files);
// Parses the text of a description, and runs the same checks as inspect_read(). `name` is for messages.
enum vg_status inspect_parse(const char *text, size_t length, const char *name, json_t **ret_description,
			     struct image_files *ret_files);
