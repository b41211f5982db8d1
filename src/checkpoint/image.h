// An image: a folder with CRIU's files, and virgate.json, which describes them. It is written under a temporary name and
// moved to its own when all of it lies on the disk: a crash leaves a whole image, or none. One thread.
#pragma once
#include "virgate/status.h"

#include <jansson.h>
#include <limits.h>
#include <stdint.h>

enum { IMAGE_VERSION = 1 };
#define IMAGE_DESCRIPTION "virgate.json"

struct image_draft {
	char final[PATH_MAX];  // absolute
	char folder[PATH_MAX]; // where it is written
};
// Makes a folder of mode 0700 beside `path`. EXISTS (there is something at `path`: it is left as it is), SYSTEM.
enum vg_status image_begin(const char *path, const char *function, struct image_draft *ret_draft);
// Adds the files' sizes and checksums to `description`, writes it, brings all to the disk and moves the folder. *ret_bytes:
// of all files. EXISTS, SYSTEM; the draft then still stands.
enum vg_status image_commit(const struct image_draft *draft, json_t *description, const char *function,
			    uint64_t *ret_bytes);
// Removes the draft with all that is in it.
void image_abandon(const struct image_draft *draft);

// What virgate.json says; to be given back with json_decref(). NOT_FOUND (no image), INTEGRITY (unreadable, damaged),
// UNSUPPORTED (of a later version).
enum vg_status image_read(const char *path, const char *function, json_t **ret_description);
// Of all files, as the description says.
uint64_t image_bytes(const json_t *description);
// Reads all files again. INTEGRITY: which one differs, is missing, or is too many.
enum vg_status image_verify(const char *path, const json_t *description, const char *function);
