// Sizes for people: 1536M, 1.5G and 1.5 GiB in, "1.5 GiB" out. Any thread.
#pragma once
#include <stddef.h>
#include <stdint.h>

enum vg_size_error {
	VG_SIZE_EMPTY = 1, // nothing, or only spaces
	VG_SIZE_MALFORMED, // no number, or a unit we do not know
	VG_SIZE_NEGATIVE,
	VG_SIZE_OVERFLOW, // does not fit 2^63 - 1 bytes
};

// "<number>[.<fraction>][ ]<unit>": units B, K, M, G, T, P, also as KB and KiB, any case, all
// binary; none means bytes. A fraction of a byte is rounded down. Returns 0 or a vg_size_error.
int vg_size_parse(const char *text, uint64_t *ret_bytes);

// One sentence for a vg_size_error, such as "is not a size: use 512M or 1.5G".
const char *vg_size_error_text(int error);

enum { VG_SIZE_TEXT = 24 };
// "0 B", "512 B", "1.5 GiB": at most one decimal, never "1024.0 MiB". Returns `buffer`.
const char *vg_size_format(uint64_t bytes, char buffer[VG_SIZE_TEXT]);

static inline uint64_t vg_size_min(uint64_t left, uint64_t right)
{
	return left < right ? left : right;
}
