// Changes paths in CRIU's files.img. Any thread.
#pragma once
#include "checkpoint/criu/criu.h"

#include <stddef.h>

// Returns a copy of the contents, to be freed, in which each regular file at a `from` is at its `to` and has no mode:
// CRIU then does not compare it. Returns 0, -ENOMEM, or -EBADMSG: not a valid files.img.
int criu_files_move(const void *data, size_t length, const struct criu_move *moves, size_t count,
		    unsigned char **ret_data, size_t *ret_length);
