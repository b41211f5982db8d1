// Checks that the parts of an image's description agree about processes, trees and GPUs. Any thread.
#pragma once
#include "checkpoint/image/files.h"
#include "virgate/status.h"

#include <jansson.h>

// Checks a description that has passed schema_check(). `files` is its list of files, and `name` is for messages.
// INTEGRITY: parts of the description contradict each other, or cannot be restored.
enum vg_status consistency_check(const json_t *description, const struct image_files *files, const char *name);
