#include "base/lz4.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct cursor {
	const uint8_t *at, *end;
};

// Reads the rest of a length, whose first four bits are in the token of the sequence. If these bits are 15, the
// following bytes are added to the length, up to and including the first byte that is not 255. Returns false at the
// end of the input.
static bool read_length(struct cursor *in, size_t *length)
{
	if (*length != 15)
		return true;
	uint8_t more;
	do {
		if (in->at == in->end)
			return false;
		more = *in->at++;
		*length += more;
	} while (more == 255);
	return true;
}

size_t vg_lz4_expand(const void *input, size_t input_size, void *output, size_t output_size)
{
	struct cursor in = {input, (const uint8_t *)input + input_size};
	uint8_t *start = output, *at = start, *end = start + output_size;

	while (in.at < in.end) {
		uint8_t token = *in.at++;
		size_t literals = token >> 4, match = token & 15;
		if (!read_length(&in, &literals) || literals > (size_t)(in.end - in.at) ||
		    literals > (size_t)(end - at))
			return SIZE_MAX;
		memcpy(at, in.at, literals);
		at += literals;
		in.at += literals;
		if (in.at == in.end)
			break; // the last sequence may have no match
		if (in.end - in.at < 2)
			return SIZE_MAX;
		size_t distance = in.at[0] | (size_t)in.at[1] << 8;
		in.at += 2;
		if (!read_length(&in, &match))
			return SIZE_MAX;
		match += 4;
		if (!distance || distance > (size_t)(at - start) || match > (size_t)(end - at))
			return SIZE_MAX;
		while (match--) { // byte by byte, because source and destination may overlap
			*at = *(at - distance);
			at++;
		}
	}
	return (size_t)(at - start);
}
