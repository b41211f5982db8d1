// Declares what the decoders of textures and surfaces have in common. One thread.
#pragma once

#include "sim/ptx/decode.h"
#include "sim/ptx/sample.h"

// The address of an image instruction: [object, coordinates]. The coordinates are in the order of the instruction.
struct ptx_image_address {
	enum ptx_geometry geometry;
	bool is_layered, is_integer;
	unsigned axes; // number of coordinates besides the layer
	ptx_ref object, layer, coordinates[3];
};

struct ptx_image_address ptx_image_address_operand(struct ptx_decoder *decoder, const struct ptx_operand *operand);
