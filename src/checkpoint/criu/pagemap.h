// CRIU's pagemaps: which pages of a process lie in its file of pages, in their
// order. Any thread.
#pragma once
#include "checkpoint/image/files.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Whose pages "pagemap-NUMBER.img" tells of. 0, or -EBADMSG: it is none such.
int pagemap_pages_id(const void *pagemap, size_t length, uint32_t *ret_id);
// The pagemap without the chunks of zeros that need not be given to CRIU: what
// is anonymous and private is zero where no page is restored. `mm`:
// "mm-NUMBER.img", the same process's; `pages`: what pagemap_pages_id() named.
// *ret_pagemap, and *ret_without, a flag for each chunk of `pages`, are to be
// freed. 0; -ENOMEM; -EBADMSG: there is something in them that is not known
// here, and all of it is to be given as it is.
int pagemap_thin(const void *pagemap, size_t length, const void *mm, size_t mm_length, const struct image_file *pages,
		 unsigned char **ret_pagemap, size_t *ret_length, bool **ret_without);
