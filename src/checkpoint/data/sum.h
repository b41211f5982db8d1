// Checksums: XXH3 of 64 bits, as `xxhsum -H3` says them. Any thread.
#pragma once
#include <stddef.h>
#include <stdint.h>

uint64_t sum_bytes(const void *data, size_t length);
// Of a whole file that stays as it is meanwhile. *ret_bytes: how long it is. 0 or -errno.
int sum_file(int fd, uint64_t *ret_bytes, uint64_t *ret_sum);
