// Other paths for files in CRIU's files.img. Any thread.
#pragma once
#include "checkpoint/criu/criu.h"

#include <stddef.h>

// Makes a copy of the file's contents, to be freed, in which each regular file of a `from` is at its `to`, and has no
// mode: CRIU opens that one, whatever its mode is. 0, -ENOMEM, or -EBADMSG: it is not what CRIU writes.
int criu_files_move(const void *data, size_t length, const struct criu_move *moves, size_t count,
		    unsigned char **ret_data, size_t *ret_length);
