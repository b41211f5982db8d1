// Reads and shortens CRIU's pagemaps. A pagemap lists which pages of a process lie in its file of pages, in order. Any
// thread.
#pragma once
#include "checkpoint/image/files.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Returns in *ret_id the number of the file of pages that the pagemap, "pagemap-NUMBER.img", describes. Returns 0, or
// -EBADMSG: not a pagemap.
int pagemap_pages_id(const void *pagemap, size_t length, uint32_t *ret_id);
// Removes chunks of zeros from a pagemap if CRIU does not need them: anonymous private memory is zero where no page is
// restored. `mm`: the file "mm-NUMBER.img" of the same process. `pages`: the file that pagemap_pages_id() found. The
// caller frees *ret_pagemap and *ret_without. *ret_without has a flag for each chunk of `pages`, which is true if the
// chunk was removed. Returns 0, -ENOMEM, or -EBADMSG: a file has unknown contents, and CRIU must get everything
// unchanged.
int pagemap_thin(const void *pagemap, size_t length, const void *mm, size_t mm_length, const struct image_file *pages,
		 unsigned char **ret_pagemap, size_t *ret_length, bool **ret_without);
