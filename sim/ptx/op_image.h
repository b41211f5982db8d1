// What decoders of textures and surfaces share. One thread.
#pragma once

#include "sim/ptx/decode.h"
#include "sim/ptx/sample.h"

// [object, coordinates], as the instruction's geometry orders them.
struct ptx_image_place {
	enum ptx_geometry geometry;
	bool is_layered, is_integer;
	unsigned axes; // coordinates beside the layer
	ptx_ref object, layer, coordinates[3];
};

int ptx_decode_image_place(struct ptx_decoder *decoder, const struct ptx_operand *address,
			   struct ptx_image_place *ret_place);
