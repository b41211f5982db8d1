// Changes paths in CRIU's files.img. Any thread.
#pragma once
#include "checkpoint/criu/criu.h"

#include <stddef.h>

// Returns a copy of the contents of files.img. In the copy, each regular file whose path is the `from` of a move has
// the path `to` instead. The copy does not contain the mode of such a file, so that CRIU does not compare the mode. The
// caller frees the copy. Returns 0, -ENOMEM, or -EBADMSG: not a valid files.img.
int criu_files_move(const void *data, size_t length, const struct criu_move *moves, size_t count,
		    unsigned char **ret_data, size_t *ret_length);
