// Whether the parts of an image's description speak of the same processes, trees and GPUs. Any thread.
#pragma once
#include "checkpoint/image/files.h"
#include "virgate/status.h"

#include <jansson.h>

// `description` has passed schema_check(); `files`: what it lists. INTEGRITY: what nothing could be made of, or something
// else than it says. `name`: what errors call the description.
enum vg_status consistency_check(const json_t *description, const struct image_files *files, const char *name);
