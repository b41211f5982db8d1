// The addresses of texture and surface instructions; queries (txq, suq).
#include <errno.h>

#include "sim/ptx/op_image.h"

static const struct {
	const char *name;
	enum ptx_geometry geometry;
	bool is_layered;
	uint8_t axes;
} geometries[] = {
	{"1d", PTX_GEOMETRY_1D, false, 1}, {"2d", PTX_GEOMETRY_2D, false, 2},	{"3d", PTX_GEOMETRY_3D, false, 3},
	{"a1d", PTX_GEOMETRY_1D, true, 1}, {"a2d", PTX_GEOMETRY_2D, true, 2},	{"cube", PTX_GEOMETRY_CUBE, false, 3},
	{"acube", PTX_GEOMETRY_CUBE, true, 3},
};

int ptx_decode_image_place(struct ptx_decoder *decoder, const struct ptx_operand *address,
			   struct ptx_image_place *ret_place)
{
	struct ptx_image_place place = {0};
	struct ptx_type type;

	for (size_t i = 0; i < sizeof geometries / sizeof *geometries; i++)
		if (ptx_has(decoder, geometries[i].name)) {
			place.geometry = geometries[i].geometry;
			place.is_layered = geometries[i].is_layered;
			place.axes = geometries[i].axes;
		}
	if (!place.axes)
		return PTX_REFUSED; // .2dms, .a2dms: samples of a pixel
	if (address->kind != PTX_OPERAND_ADDRESS || address->count < 2)
		return ptx_malformed(decoder, "an object and coordinates in brackets are wanted");
	if (address->count > 2)
		return PTX_REFUSED; // a sampler of its own
	// Coordinates of surfaces are integers, those of textures of the type named last.
	place.is_integer = decoder->instruction->opcode[0] == 's' ||
			   (ptx_last_type(decoder, &type) && type.class != 'f');
	const struct ptx_operand *at = &address->list[1], *list = at->kind == PTX_OPERAND_VECTOR ? at->list : at;
	unsigned count = at->kind == PTX_OPERAND_VECTOR ? at->count : 1;
	if (count < place.axes + place.is_layered)
		return ptx_malformed(decoder, "too few coordinates");
	int r = ptx_source(decoder, &address->list[0], 64, &place.object);
	if (r == 0 && place.is_layered)
		r = ptx_source(decoder, list++, 32, &place.layer);
	for (unsigned i = 0; i < place.axes && r == 0; i++)
		r = ptx_source(decoder, &list[i], 32, &place.coordinates[i]);
	if (r == 0)
		*ret_place = place;
	return r;
}

enum query { QUERY_WIDTH, QUERY_HEIGHT, QUERY_DEPTH, QUERY_NORMALIZED, QUERY_LAYERS, QUERY_LEVELS, QUERY_SAMPLES };

static uint32_t answer(const struct ptx_texture *texture, enum query query, uint32_t level)
{
	uint32_t last = texture->level_count - 1;
	const struct ptx_image *image = &texture->levels[level < last ? level : last];

	switch (query) {
	case QUERY_WIDTH: return image->width;
	case QUERY_HEIGHT: return texture->axes < 2 ? 0 : image->height;
	case QUERY_DEPTH: return texture->axes < 3 ? 0 : image->depth;
	case QUERY_NORMALIZED: return texture->is_normalized;
	case QUERY_LAYERS: return texture->layers;
	case QUERY_LEVELS: return texture->level_count;
	default: return 1;
	}
}

static const struct ptx_op *op_query(struct ptx_warp *warp, const struct ptx_op *op)
{
	bool is_surface = op->immediate & 256;

	PTX_FOR_LANES(lane, warp->mask) {
		const struct ptx_texture *texture =
			ptx_texture_get(warp, op, lane, ptx_operand64(warp, op->a)[lane], is_surface);
		if (!texture)
			return NULL;
		uint32_t level = op->b == PTX_NO_REF ? 0 : ptx_operand32(warp, op->b)[lane];
		ptx_operand32(warp, op->d)[lane] = answer(texture, op->immediate & 255, level);
	}
	return op + 1;
}

// txq.what.b32 d, [a]; txq.level.what.b32 d, [a], level; suq.what.b32 d, [a]
int ptx_decode_image_query(struct ptx_decoder *decoder)
{
	static const struct {
		const char *name;
		enum query query;
	} queries[] = {
		{"width", QUERY_WIDTH},
		{"height", QUERY_HEIGHT},
		{"depth", QUERY_DEPTH},
		{"normalized_coords", QUERY_NORMALIZED},
		{"array_size", QUERY_LAYERS},
		{"num_mipmap_levels", QUERY_LEVELS},
		{"num_samples", QUERY_SAMPLES},
	};
	const struct ptx_operand *operands = decoder->instruction->operands;
	bool of_level = ptx_has(decoder, "level");
	ptx_ref d, a, b = PTX_NO_REF;
	unsigned have;
	size_t i = 0;

	while (i < sizeof queries / sizeof *queries && !ptx_has(decoder, queries[i].name))
		i++;
	if (i == sizeof queries / sizeof *queries)
		return PTX_REFUSED; // enumerations whose values are not documented
	int r = ptx_wants(decoder, 2u + of_level);
	if (r == 0 && (operands[1].kind != PTX_OPERAND_ADDRESS || operands[1].count != 1))
		r = ptx_malformed(decoder, "an object in brackets is wanted");
	if (r == 0 && operands[1].list[0].kind == PTX_OPERAND_REGISTER && queries[i].query >= QUERY_NORMALIZED)
		return PTX_REFUSED; // the driver of a GPU finds no such kernel: only a reference can be asked that
	if (r == 0)
		r = ptx_source(decoder, &operands[1].list[0], 64, &a);
	if (r == 0 && of_level)
		r = ptx_source(decoder, &operands[2], 32, &b);
	if (r == 0)
		r = ptx_destination(decoder, &operands[0], 32, &d, &have);
	if (r == 0 && have != 32)
		r = ptx_malformed(decoder, "the destination is too wide");
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, op_query);
	if (!op)
		return r ? r : -ENOMEM;
	op->a = a;
	op->b = b;
	op->d = d;
	op->immediate = (uint32_t)queries[i].query | (decoder->instruction->opcode[0] == 's' ? 256 : 0);
	return 0;
}
