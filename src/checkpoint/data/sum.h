// Computes 64-bit XXH3 checksums, as `xxhsum -H3` prints them. Any thread.
#pragma once
#include <stddef.h>
#include <stdint.h>

uint64_t sum_bytes(const void *data, size_t length);
// Computes the checksum of a whole file, which must not change meanwhile. *ret_bytes: length of the file. Returns 0 or
// -errno.
int sum_file(int fd, uint64_t *ret_bytes, uint64_t *ret_sum);
