// Sizes as text: reads 1536M, 1.5G and 1.5 GiB, writes "1.5 GiB". Any thread.
#pragma once
#include <stddef.h>
#include <stdint.h>

enum vg_size_error {
	VG_SIZE_EMPTY = 1, // nothing, or only spaces
	VG_SIZE_MALFORMED, // no number, or an unknown unit
	VG_SIZE_NEGATIVE,
	VG_SIZE_OVERFLOW, // does not fit 2^63 - 1 bytes
};

// Parses "<number>[.<fraction>][ ]<unit>". Units are B, K, M, G, T and P, also as KB and KiB, in any case, all binary;
// without a unit the number is bytes. A fraction of a byte is rounded down. Returns 0 or a vg_size_error.
int vg_size_parse(const char *text, uint64_t *ret_bytes);

// Returns the end of a sentence for a vg_size_error, such as "is not a size: use 512M or 1.5G".
const char *vg_size_error_text(int error);

enum { VG_SIZE_TEXT = 24 };
// Writes "0 B", "512 B" or "1.5 GiB": at most one decimal, never "1024.0 MiB". Returns `buffer`.
const char *vg_size_format(uint64_t bytes, char buffer[VG_SIZE_TEXT]);

static inline uint64_t vg_size_min(uint64_t left, uint64_t right)
{
	return left < right ? left : right;
}
