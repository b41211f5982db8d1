// Decodes the addresses of texture and surface instructions, and implements their queries (txq, suq).
#include "sim/ptx/op_image.h"

static const struct {
	const char *name;
	enum ptx_geometry geometry;
	bool is_layered;
	uint8_t axes;
} geometries[] = {
	{"1d", PTX_GEOMETRY_1D, false, 1},     {"2d", PTX_GEOMETRY_2D, false, 2}, {"3d", PTX_GEOMETRY_3D, false, 3},
	{"a1d", PTX_GEOMETRY_1D, true, 1},     {"a2d", PTX_GEOMETRY_2D, true, 2}, {"cube", PTX_GEOMETRY_CUBE, false, 3},
	{"acube", PTX_GEOMETRY_CUBE, true, 3},
};

static struct ptx_image_address find_geometry(const struct ptx_decoder *decoder)
{
	struct ptx_image_address address = {0};

	for (size_t i = 0; i < sizeof geometries / sizeof *geometries; i++)
		if (ptx_has(decoder, geometries[i].name)) {
			address.geometry = geometries[i].geometry;
			address.is_layered = geometries[i].is_layered;
			address.axes = geometries[i].axes;
		}
	return address;
}

struct ptx_image_address ptx_image_address_operand(struct ptx_decoder *decoder, const struct ptx_operand *operand)
{
	struct ptx_image_address address = find_geometry(decoder);
	struct ptx_type type;

	if (!address.axes)
		ptx_fail(decoder, PTX_REFUSED); // .2dms and .a2dms (samples of a pixel) are not supported
	else if (operand->kind != PTX_OPERAND_ADDRESS || operand->count < 2)
		ptx_malformed(decoder, "an object and coordinates in brackets are wanted");
	else if (operand->count > 2)
		ptx_fail(decoder, PTX_REFUSED); // a sampler as a separate operand is not supported
	if (decoder->error)
		return address;
	// The coordinates of surfaces are integers. Those of textures have the type that the opcode names last.
	address.is_integer =
		decoder->instruction->opcode[0] == 's' || (ptx_last_type(decoder, &type) && type.class != 'f');
	const struct ptx_operand *at = &operand->list[1], *list = at->kind == PTX_OPERAND_VECTOR ? at->list : at;
	unsigned count = at->kind == PTX_OPERAND_VECTOR ? at->count : 1;
	if (count < address.axes + address.is_layered) {
		ptx_malformed(decoder, "too few coordinates");
		return address;
	}
	address.object = ptx_source(decoder, &operand->list[0], 64);
	if (address.is_layered)
		address.layer = ptx_source(decoder, list++, 32);
	for (unsigned i = 0; i < address.axes; i++)
		address.coordinates[i] = ptx_source(decoder, &list[i], 32);
	return address;
}

enum query {
	QUERY_WIDTH,
	QUERY_HEIGHT,
	QUERY_DEPTH,
	QUERY_NORMALIZED,
	QUERY_LAYERS,
	QUERY_LEVELS,
	QUERY_SAMPLES,
	QUERIES,
};

static uint32_t answer_query(const struct ptx_texture *texture, enum query query, uint32_t level)
{
	uint32_t last = texture->level_count - 1;
	const struct ptx_image *image = &texture->levels[level < last ? level : last];

	switch (query) {
	case QUERY_WIDTH:
		return image->width;
	case QUERY_HEIGHT:
		return texture->axes < 2 ? 0 : image->height;
	case QUERY_DEPTH:
		return texture->axes < 3 ? 0 : image->depth;
	case QUERY_NORMALIZED:
		return texture->is_normalized;
	case QUERY_LAYERS:
		return texture->layers;
	case QUERY_LEVELS:
		return texture->level_count;
	default:
		return 1;
	}
}

static const struct ptx_op *op_query(struct ptx_warp *warp, const struct ptx_op *op)
{
	bool is_surface = op->immediate & 256;

	PTX_FOR_LANES(lane, warp->mask)
	{
		const struct ptx_texture *texture =
			ptx_texture_find(warp, op, lane, ptx_operand64(warp, op->a)[lane], is_surface);
		if (!texture)
			return NULL;
		uint32_t level = op->b == PTX_NO_REF ? 0 : ptx_operand32(warp, op->b)[lane];
		ptx_operand32(warp, op->d)[lane] = answer_query(texture, op->immediate & 255, level);
	}
	return op + 1;
}

// Decodes txq.query.b32 d, [a]; txq.level.query.b32 d, [a], level; suq.query.b32 d, [a].
int ptx_decode_image_query(struct ptx_decoder *decoder)
{
	static const char *const names[QUERIES] = {
		[QUERY_WIDTH] = "width",	 [QUERY_HEIGHT] = "height",
		[QUERY_DEPTH] = "depth",	 [QUERY_NORMALIZED] = "normalized_coords",
		[QUERY_LAYERS] = "array_size",	 [QUERY_LEVELS] = "num_mipmap_levels",
		[QUERY_SAMPLES] = "num_samples",
	};
	const struct ptx_operand *operands = decoder->instruction->operands;
	bool has_level = ptx_has(decoder, "level"), is_surface = decoder->instruction->opcode[0] == 's';
	unsigned query = ptx_find_modifier(decoder, names, QUERIES);

	if (query == QUERIES)
		return PTX_REFUSED; // any other query returns a number whose meaning is not documented
	if (ptx_expect_operands(decoder, 2u + has_level))
		return decoder->error;
	if (operands[1].kind != PTX_OPERAND_ADDRESS || operands[1].count != 1)
		return ptx_malformed(decoder, "an object in brackets is wanted");
	if (operands[1].list[0].kind == PTX_OPERAND_REGISTER && query >= QUERY_NORMALIZED)
		return PTX_REFUSED; // these queries need a .texref or .surfref; as on a GPU, a handle is refused
	return ptx_emit(decoder, (struct ptx_op){.run = op_query,
						 .a = ptx_source(decoder, &operands[1].list[0], 64),
						 .b = has_level ? ptx_source(decoder, &operands[2], 32) : PTX_NO_REF,
						 .d = ptx_destination(decoder, &operands[0], 32),
						 .immediate = query | (is_surface ? 256 : 0)});
}
