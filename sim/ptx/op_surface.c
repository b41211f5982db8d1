// Implements suld, sust and sured, which access bytes of surfaces. The opcode says what happens to coordinates outside
// of the surface.
#include <errno.h>

#include "sim/ptx/half.h"
#include "sim/ptx/op_image.h"

enum outside { OUTSIDE_TRAPS, OUTSIDE_CLAMPS, OUTSIDE_IS_ZERO };
enum reduction { REDUCE_ADD, REDUCE_MIN, REDUCE_MAX, REDUCE_AND, REDUCE_OR };

struct surface_op {
	struct ptx_image_address address;
	enum outside outside;
	bool is_formatted; // x counts texels (sust.p and sured.p), not bytes
	enum reduction reduction;
	bool is_signed;
	ptx_move_fn *move;
	uint8_t bytes, count; // bytes of an element, number of elements
	ptx_ref refs[4];      // registers; PTX_NO_REF: a sink ("_")
};

// Returns whether a coordinate is inside the surface. With clamping, moves it inside first. `most` is the largest valid
// coordinate.
static bool keep_inside(enum outside outside, int64_t *at, int64_t most)
{
	if (*at >= 0 && *at <= most)
		return true;
	if (outside != OUTSIDE_CLAMPS || most < 0)
		return false;
	*at = *at < 0 ? 0 : most;
	return true;
}

// Finds the bytes that a lane accesses. *ret_host is NULL if the coordinate is outside, or if the tile of a sparse
// array has no memory. Then a read returns zero, and a write does nothing. Returns false after a fault.
static bool find_bytes(struct ptx_warp *warp, const struct ptx_op *op, unsigned lane, size_t length, bool write,
		       const struct ptx_texture **ret_surface, uint8_t **ret_host)
{
	const struct surface_op *how = op->data;
	const struct ptx_texture *surface =
		ptx_texture_find(warp, op, lane, ptx_operand64(warp, how->address.object)[lane], true);
	int64_t at[3] = {0};

	if (!surface)
		return false;
	const struct ptx_image *image = &surface->levels[0];
	for (unsigned axis = 0; axis < how->address.axes; axis++)
		at[axis] = (int32_t)ptx_operand32(warp, how->address.coordinates[axis])[lane];
	if (how->address.is_layered)
		at[2] = ptx_operand32(warp, how->address.layer)[lane];
	if (how->is_formatted) {
		at[0] *= surface->texel_bytes;
		length = surface->texel_bytes;
	}
	int64_t last = (int64_t)image->width * surface->texel_bytes - (int64_t)length;
	bool inside = keep_inside(how->outside, &at[0], last) && keep_inside(how->outside, &at[1], image->height - 1) &&
		      keep_inside(how->outside, &at[2], image->depth - 1);
	*ret_surface = surface;
	*ret_host = NULL;
	if (inside) {
		uint64_t address = ptx_image_address(image, (uint64_t)at[0], (uint64_t)at[1], (uint64_t)at[2]);
		if (!address && image->tiles)
			return true;
		*ret_host = ptx_address(warp, op, lane, address, length, write);
		return *ret_host != NULL;
	}
	if (how->outside != OUTSIDE_TRAPS)
		return true;
	ptx_fault(warp, op, lane, PTX_FAULT_TRAP, 0, "surface coordinates (%lld, %lld, %lld) outside of %u x %u x %u",
		  (long long)at[0], (long long)at[1], (long long)at[2], image->width, image->height, image->depth);
	return false;
}

static const struct ptx_op *op_surface_load(struct ptx_warp *warp, const struct ptx_op *op)
{
	static _Alignas(16) uint8_t zero[16]; // read only
	const struct surface_op *how = op->data;
	const struct ptx_texture *surface;
	struct ptx_access access = {.base = NULL};

	PTX_FOR_LANES(lane, warp->mask)
	{
		uint8_t *host;
		if (!find_bytes(warp, op, lane, (size_t)how->bytes * how->count, false, &surface, &host))
			return NULL;
		access.host[lane] = host ? host : zero;
	}
	for (unsigned i = 0; i < how->count; i++)
		if (how->refs[i] != PTX_NO_REF)
			how->move(ptx_operand(warp, how->refs[i]), &access, i * how->bytes, warp->mask);
	return op + 1;
}

static const struct ptx_op *op_surface_store(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct surface_op *how = op->data;
	const struct ptx_texture *surface;
	struct ptx_access access = {.base = NULL};
	uint32_t mask = 0;

	PTX_FOR_LANES(lane, warp->mask)
	{
		uint8_t *host;
		if (!find_bytes(warp, op, lane, (size_t)how->bytes * how->count, true, &surface, &host))
			return NULL;
		access.host[lane] = host;
		mask |= host ? 1u << lane : 0;
	}
	for (unsigned i = 0; i < how->count && mask; i++)
		how->move(ptx_operand(warp, how->refs[i]), &access, i * how->bytes, mask);
	warp->worker->changes++;
	return op + 1;
}

// Converts 32 bits to the surface's format and stores them as a channel of a texel, for sust.p.
static void store_channel(const struct ptx_texture *surface, uint8_t *texel, unsigned channel, uint32_t bits)
{
	unsigned bytes = ptx_texel_channel_bytes(surface->format);
	float value;

	if (surface->format == PTX_TEXEL_F16) {
		memcpy(&value, &bits, sizeof value);
		uint16_t half = ptx_float_to_half(value);
		memcpy(texel + 2 * channel, &half, sizeof half);
	} else {
		memcpy(texel + bytes * channel, &bits, bytes);
	}
}

static const struct ptx_op *op_surface_store_texel(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct surface_op *how = op->data;

	PTX_FOR_LANES(lane, warp->mask)
	{
		const struct ptx_texture *surface;
		uint8_t *texel;
		if (!find_bytes(warp, op, lane, 0, true, &surface, &texel))
			return NULL;
		for (unsigned i = 0; texel && i < how->count && i < surface->channels; i++)
			store_channel(surface, texel, i, ptx_operand32(warp, how->refs[i])[lane]);
	}
	warp->worker->changes++;
	return op + 1;
}

static uint64_t compute_reduction(const struct surface_op *how, uint64_t old, uint64_t by)
{
	bool less = old < by;

	if (how->is_signed)
		less = how->bytes == 8 ? (int64_t)old < (int64_t)by : (int32_t)old < (int32_t)by;
	switch (how->reduction) {
	case REDUCE_ADD:
		return old + by;
	case REDUCE_MIN:
		return less ? old : by;
	case REDUCE_MAX:
		return less ? by : old;
	case REDUCE_AND:
		return old & by;
	default:
		return old | by;
	}
}

#define REDUCE(bits)                                                                                                  \
	static void reduce##bits(const struct surface_op *how, uint##bits##_t *at, uint##bits##_t by)                 \
	{                                                                                                             \
		uint##bits##_t old = __atomic_load_n(at, __ATOMIC_SEQ_CST);                                           \
		while (!__atomic_compare_exchange_n(at, &old, (uint##bits##_t)compute_reduction(how, old, by), false, \
						    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))                              \
			;                                                                                             \
	}
REDUCE(32)
REDUCE(64)

static const struct ptx_op *op_surface_reduce(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct surface_op *how = op->data;

	PTX_FOR_LANES(lane, warp->mask)
	{
		const struct ptx_texture *surface;
		uint8_t *host;
		if (!find_bytes(warp, op, lane, how->bytes, true, &surface, &host))
			return NULL;
		if (!host)
			continue;
		if (how->bytes == 8)
			reduce64(how, (uint64_t *)host, ptx_operand64(warp, how->refs[0])[lane]);
		else
			reduce32(how, (uint32_t *)host, ptx_operand32(warp, how->refs[0])[lane]);
	}
	warp->worker->changes++;
	return op + 1;
}

static int decode_outside(struct ptx_decoder *decoder, struct surface_op *how)
{
	static const char *const names[] = {"trap", "clamp", "zero"}; // the names in the order of enum outside
	unsigned found = ptx_find_modifier(decoder, names, 3);

	if (found == 3)
		return ptx_malformed(decoder, "no rule for coordinates outside");
	how->outside = found;
	return 0;
}

static int decode_reduction(struct ptx_decoder *decoder, struct surface_op *how)
{
	// The names in the order of enum reduction.
	static const char *const names[] = {"add", "min", "max", "and", "or"};
	unsigned found = ptx_find_modifier(decoder, names, 5);

	if (found == 5)
		return ptx_malformed(decoder, "no such reduction");
	how->reduction = found;
	return how->bytes >= 4 ? 0 : ptx_malformed(decoder, "no such type of a reduction");
}

static void decode_data(struct ptx_decoder *decoder, const struct ptx_operand *data, bool write, struct surface_op *how)
{
	const struct ptx_operand *list = ptx_vector(decoder, data, how->count);
	unsigned bits = how->bytes == 1 ? 16 : how->bytes * 8u;

	for (unsigned i = 0; i < how->count && !decoder->error; i++)
		how->refs[i] =
			write ? ptx_source(decoder, &list[i], bits) : ptx_destination_or_sink(decoder, &list[i], bits);
	how->move = write ? ptx_store_mover(how->bytes, bits) : ptx_load_mover(how->bytes, bits, false);
}

// Decodes suld.b.geometry{.vector}.type.rule d, [a, c]. Also decodes sust.b, sust.p, sured.b.operation and sured.p,
// whose operands are [a, c], d.
int ptx_decode_surface(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	struct surface_op *how = ptx_allocate(decoder, sizeof *how);
	bool loads = ptx_part_is(decoder, 0, "suld"), reduces = ptx_part_is(decoder, 0, "sured");
	struct ptx_type type;

	if (!how)
		return -ENOMEM;
	if (ptx_expect_operands(decoder, 2))
		return decoder->error;
	if (!ptx_last_type(decoder, &type) || type.bits < 8 || type.bits > 64)
		return ptx_malformed(decoder, "no type");
	how->is_formatted = ptx_has(decoder, "p");
	if (loads && how->is_formatted)
		return PTX_REFUSED; // suld.p exists only in PTX 1
	how->bytes = (uint8_t)(type.bits / 8);
	how->count = ptx_has(decoder, "v4") ? 4 : ptx_has(decoder, "v2") ? 2 : 1;
	how->is_signed = type.class == 's';
	if (how->bytes * how->count > 16)
		return ptx_malformed(decoder, "more than 16 bytes");
	if (how->is_formatted && how->bytes != 4)
		return ptx_malformed(decoder, "elements of 32 bits are wanted");
	decode_outside(decoder, how);
	how->address = ptx_image_address_operand(decoder, &operands[loads]);
	if (how->address.geometry == PTX_GEOMETRY_CUBE)
		ptx_malformed(decoder, "a surface's cube map is a layered one");
	decode_data(decoder, &operands[!loads], !loads, how);
	if (reduces)
		decode_reduction(decoder, how);
	return ptx_emit(decoder, (struct ptx_op){.run = loads		    ? op_surface_load
							: reduces	    ? op_surface_reduce
							: how->is_formatted ? op_surface_store_texel
									    : op_surface_store,
						 .data = how});
}
