// Parses sizes such as 1536M, 1.5G and 1.5 GiB, and formats sizes as text such as "1.5 GiB". Any thread.
#pragma once
#include <stddef.h>
#include <stdint.h>

enum vg_size_error {
	VG_SIZE_EMPTY = 1, // the text is empty or only spaces
	VG_SIZE_MALFORMED, // the text has no number, or an unknown unit
	VG_SIZE_NEGATIVE,
	VG_SIZE_OVERFLOW, // the size is above 2^63 - 1 bytes
};

// Parses "<number>[.<fraction>][ ]<unit>". The units are B, K, M, G, T and P, also written as KB or KiB, in any case;
// all are powers of 1024. Without a unit, the number is bytes. A fraction of a byte is rounded down. Returns 0 or a
// vg_size_error.
int vg_size_parse(const char *text, uint64_t *ret_bytes);

// Returns the end of an error message for a vg_size_error, such as "is not a size: use 512M or 1.5G".
const char *vg_size_error_text(int error);

enum { VG_SIZE_TEXT = 24 };
// Formats a size such as "0 B", "512 B" or "1.5 GiB", with at most one decimal, never as "1024.0 MiB". Returns
// `buffer`.
const char *vg_size_format(uint64_t bytes, char buffer[VG_SIZE_TEXT]);

static inline uint64_t vg_size_min(uint64_t left, uint64_t right)
{
	return left < right ? left : right;
}
