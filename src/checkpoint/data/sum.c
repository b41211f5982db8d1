#define XXH_INLINE_ALL
#include <xxhash.h>

#include "checkpoint/data/sum.h"

#include "base/descriptor.h"

#include <errno.h>
#include <stdlib.h>

enum { PIECE = 256 << 10 }; // fits into the cache of a core

uint64_t sum_bytes(const void *data, size_t length)
{
	return XXH3_64bits(data, length);
}

int sum_file(int fd, uint64_t *ret_bytes, uint64_t *ret_sum)
{
	XXH3_state_t state;
	uint64_t bytes = 0;
	ssize_t length;

	char *buffer = malloc(PIECE);
	if (!buffer)
		return -ENOMEM;
	XXH3_64bits_reset(&state);
	while ((length = vg_read_all(fd, buffer, PIECE, (off_t)bytes)) > 0) {
		XXH3_64bits_update(&state, buffer, (size_t)length);
		bytes += (uint64_t)length;
	}
	free(buffer);
	if (length < 0)
		return (int)length;
	*ret_bytes = bytes;
	*ret_sum = XXH3_64bits_digest(&state);
	return 0;
}
