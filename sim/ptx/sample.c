// Reads textures as the CUDA programming guide describes it (appendix "Texture Fetching"). Implements addressing modes,
// nearest points, linear filtering with weights of 8 fractional bits, levels of mipmaps, and faces of cube maps.
#include <math.h>

#include "sim/ptx/half.h"
#include "sim/ptx/sample.h"

#define FRACTION 256 // the unit of a filter's weights, which have 8 fractional bits
#define COORDINATE_MOST 1e15

struct position { // position of a texel in one level
	const struct ptx_image *image;
	int64_t index[3];
	bool is_outside; // the read returns the border
};

struct axis { // the two texels that a linear filter reads along an axis: first and first + 1
	int64_t first;
	uint32_t weight; // weight of the second texel, in parts of FRACTION
};

static struct ptx_texel add_weighted(struct ptx_texel sum, struct ptx_texel texel, double weight)
{
	for (int i = 0; i < 4; i++)
		sum.f[i] += (float)(texel.f[i] * weight);
	return sum;
}

static float srgb_to_linear(float value)
{
	return value <= 0.04045f ? value / 12.92f : powf((value + 0.055f) / 1.055f, 2.4f);
}

static void decode_channel(const struct ptx_texture *texture, const uint8_t *bytes, unsigned channel,
			   struct ptx_texel *texel)
{
	int32_t integer = 0;
	float most;

	switch (texture->format) {
	case PTX_TEXEL_U8:
		integer = bytes[channel], most = 255;
		break;
	case PTX_TEXEL_S8:
		integer = (int8_t)bytes[channel], most = 127;
		break;
	case PTX_TEXEL_U16:
		integer = ((const uint16_t *)bytes)[channel], most = 65535;
		break;
	case PTX_TEXEL_S16:
		integer = ((const int16_t *)bytes)[channel], most = 32767;
		break;
	case PTX_TEXEL_F16:
		texel->f[channel] = ptx_half_to_float(((const uint16_t *)bytes)[channel]);
		return;
	default:
		memcpy(&texel->u[channel], bytes + 4 * channel, 4);
		return;
	}
	if (!texture->is_float) {
		texel->u[channel] = (uint32_t)integer;
		return;
	}
	float value = (float)integer / most;
	value = value < -1 ? -1 : value;
	texel->f[channel] = texture->is_srgb && channel < 3 ? srgb_to_linear(value) : value;
}

// Reads a texel. If the format has fewer than four channels, the missing ones are 0, but the fourth one is 1.
static struct ptx_texel read_texel(struct ptx_sample *sample, const struct position *position)
{
	const struct ptx_texture *texture = sample->texture;
	const struct ptx_image *image = position->image;
	struct ptx_texel texel = {.u = {0}};

	if (texture->is_float)
		texel.f[3] = 1;
	else
		texel.u[3] = 1;
	if (position->is_outside) {
		if (!texture->is_linear)
			memcpy(texel.u, texture->border.bits, sizeof texel.u);
		else
			texel.u[3] = 0;
		return texel;
	}
	uint64_t address = ptx_image_address(image, (uint64_t)position->index[0] * texture->texel_bytes,
					     (uint64_t)position->index[1], (uint64_t)position->index[2]);
	if (!address && image->tiles) {
		static const uint8_t zero[16];
		sample->is_missing = true;
		for (unsigned i = 0; i < texture->channels; i++)
			decode_channel(texture, zero, i, &texel);
		return texel;
	}
	const uint8_t *bytes =
		ptx_address(sample->warp, sample->op, sample->lane, address, texture->texel_bytes, false);
	if (!bytes) {
		sample->has_failed = true;
		return texel;
	}
	for (unsigned i = 0; i < texture->channels; i++)
		decode_channel(texture, bytes, i, &texel);
	return texel;
}

// Applies an addressing mode to an index. Returns false if the border color must be returned.
static bool apply_address(enum ptx_texture_address mode, uint32_t size, int64_t *index)
{
	int64_t at = *index, period = size;

	if (at >= 0 && at < period)
		return true;
	switch (mode) {
	case PTX_ADDRESS_WRAP:
		at %= period;
		*index = at < 0 ? at + period : at;
		return true;
	case PTX_ADDRESS_MIRROR:
		at %= 2 * period;
		at = at < 0 ? at + 2 * period : at;
		*index = at < period ? at : 2 * period - 1 - at;
		return true;
	case PTX_ADDRESS_BORDER:
		return false;
	default:
		*index = at < 0 ? 0 : period - 1;
		return true;
	}
}

static uint32_t axis_size(const struct ptx_image *image, int axis)
{
	return axis == 0 ? image->width : axis == 1 ? image->height : image->depth;
}

static int axis_count(enum ptx_geometry geometry)
{
	return geometry == PTX_GEOMETRY_1D ? 1 : geometry == PTX_GEOMETRY_3D ? 3 : 2;
}

static void apply_address_modes(const struct ptx_sample *sample, struct position *position)
{
	const struct ptx_texture *texture = sample->texture;

	for (int i = 0; i < axis_count(sample->geometry); i++) {
		enum ptx_texture_address mode = texture->is_linear ? PTX_ADDRESS_BORDER : texture->address[i];
		bool repeats = mode == PTX_ADDRESS_WRAP || mode == PTX_ADDRESS_MIRROR;
		if (sample->geometry == PTX_GEOMETRY_CUBE || (repeats && !texture->is_normalized))
			mode = PTX_ADDRESS_CLAMP;
		position->is_outside |= !apply_address(mode, axis_size(position->image, i), &position->index[i]);
	}
}

// Converts a coordinate, which may be any number, to the number of a texel.
static int64_t to_index(double value)
{
	if (!(value > -COORDINATE_MOST))
		return value < 0 ? (int64_t)-COORDINATE_MOST : 0;
	return (int64_t)floor(value < COORDINATE_MOST ? value : COORDINATE_MOST);
}

static double scale_coordinate(const struct ptx_sample *sample, const struct ptx_image *image, int axis)
{
	double value = sample->coordinate[axis];

	return sample->texture->is_normalized && !sample->is_integer ? value * axis_size(image, axis) : value;
}

static int64_t clamp_layer(const struct ptx_sample *sample, const struct ptx_image *image)
{
	return sample->layer < image->depth ? sample->layer : image->depth - 1;
}

static struct ptx_texel read_nearest(struct ptx_sample *sample, const struct ptx_image *image)
{
	struct position position = {.image = image};

	if (sample->geometry != PTX_GEOMETRY_3D)
		position.index[2] = clamp_layer(sample, image);
	for (int i = 0; i < axis_count(sample->geometry); i++)
		position.index[i] = to_index(scale_coordinate(sample, image, i)) + sample->offset[i];
	apply_address_modes(sample, &position);
	return read_texel(sample, &position);
}

static struct axis filter_axis(const struct ptx_sample *sample, const struct ptx_image *image, int axis)
{
	int64_t fixed = to_index((scale_coordinate(sample, image, axis) - 0.5) * FRACTION + 0.5);
	int64_t first = fixed >> 8;

	return (struct axis){first + sample->offset[axis], (uint32_t)(fixed - first * FRACTION)};
}

// Finds which face of a cube map a direction points to, and where: two coordinates from 0 to 1.
static unsigned find_face(const double direction[3], double ret_point[2])
{
	double x = direction[0], y = direction[1], z = direction[2];
	double ax = fabs(x), ay = fabs(y), az = fabs(z), m, s, t;
	unsigned face;

	if (ax >= ay && ax >= az) {
		face = x < 0;
		m = ax, s = x < 0 ? z : -z, t = -y;
	} else if (ay >= az) {
		face = 2 + (y < 0);
		m = ay, s = x, t = y < 0 ? -z : z;
	} else {
		face = 4 + (z < 0);
		m = az, s = z < 0 ? -x : x, t = -y;
	}
	ret_point[0] = m > 0 ? (s / m + 1) / 2 : 0.5;
	ret_point[1] = m > 0 ? (t / m + 1) / 2 : 0.5;
	return face;
}

// Finds the direction of a point on a face: two coordinates from -1 to 1.
static void find_direction(unsigned face, double s, double t, double ret_direction[3])
{
	const double directions[6][3] = {{1, -t, -s}, {-1, -t, s}, {s, 1, t}, {s, -1, -t}, {s, -t, 1}, {-s, -t, -1}};

	memcpy(ret_direction, directions[face], sizeof directions[face]);
}

// Replaces a position beyond the edge of a face by the position on the neighbouring face.
static void cross_edge(struct position *position)
{
	double size = position->image->width, direction[3], at[2];
	double s = ((double)position->index[0] * 2 + 1) / size - 1, t = ((double)position->index[1] * 2 + 1) / size - 1;
	unsigned face = (unsigned)(position->index[2] % 6);

	find_direction(face, s, t, direction);
	position->index[2] += (int64_t)find_face(direction, at) - face;
	for (int i = 0; i < 2; i++)
		position->index[i] = to_index(at[i] * size);
}

static bool is_beyond_edge(const struct ptx_sample *sample, const struct position *position)
{
	int64_t size = position->image->width;
	bool x = position->index[0] < 0 || position->index[0] >= size;
	bool y = position->index[1] < 0 || position->index[1] >= size;

	return sample->geometry == PTX_GEOMETRY_CUBE && sample->texture->is_seamless && x != y;
}

// Returns whether a filtered read of a one-dimensional texture mixes in the border color. A GPU filters such a texture,
// if it has no layers, like the top row of a two-dimensional one. Half of the result comes from above that row. With
// the border addressing mode, that is the border color. With any other mode, it is the row itself.
static bool has_border_beside(const struct ptx_sample *sample)
{
	const struct ptx_texture *texture = sample->texture;

	return sample->geometry == PTX_GEOMETRY_1D && !texture->layers && texture->address[1] == PTX_ADDRESS_BORDER;
}

static struct ptx_texel mix_with_border(struct ptx_sample *sample, struct ptx_texel row)
{
	const struct position border = {.is_outside = true};
	struct ptx_texel sum = {.u = {0}};

	sum = add_weighted(sum, row, 0.5);
	return add_weighted(sum, read_texel(sample, &border), 0.5);
}

static struct ptx_texel read_linear(struct ptx_sample *sample, const struct ptx_image *image)
{
	int axes = axis_count(sample->geometry);
	struct ptx_texel sum = {.u = {0}};
	struct axis at[3];

	for (int i = 0; i < axes; i++)
		at[i] = filter_axis(sample, image, i);
	for (unsigned corner = 0; corner < 1u << axes; corner++) {
		struct position position = {.image = image};
		double weight = 1;
		if (sample->geometry != PTX_GEOMETRY_3D)
			position.index[2] = clamp_layer(sample, image);
		for (int i = 0; i < axes; i++) {
			bool second = corner >> i & 1;
			position.index[i] = at[i].first + second;
			weight *= (second ? at[i].weight : FRACTION - at[i].weight) / (double)FRACTION;
		}
		if (weight == 0)
			continue;
		if (is_beyond_edge(sample, &position))
			cross_edge(&position);
		apply_address_modes(sample, &position);
		sum = add_weighted(sum, read_texel(sample, &position), weight);
	}
	return has_border_beside(sample) ? mix_with_border(sample, sum) : sum;
}

static struct ptx_texel read_level(struct ptx_sample *sample, uint32_t level)
{
	const struct ptx_texture *texture = sample->texture;
	bool is_filtered = texture->is_filtered && texture->is_float && !texture->is_linear && !sample->is_integer;

	return (is_filtered ? read_linear : read_nearest)(sample, &texture->levels[level]);
}

// Converts a direction to a face, which is a layer, and to a point on it.
static struct ptx_sample project_on_face(const struct ptx_sample *sample)
{
	struct ptx_sample flat = *sample;

	if (sample->geometry == PTX_GEOMETRY_CUBE) {
		unsigned face = find_face(sample->coordinate, flat.coordinate);
		uint32_t cubes = sample->texture->levels[0].depth / 6;
		flat.layer = (sample->layer < cubes ? sample->layer : cubes ? cubes - 1 : 0) * 6 + face;
	}
	return flat;
}

struct ptx_texel ptx_sample_read(struct ptx_sample *sample)
{
	const struct ptx_texture *texture = sample->texture;
	struct ptx_sample flat = project_on_face(sample);
	uint32_t last = texture->level_count - 1;
	struct ptx_texel value;
	double level = 0;

	if (last > 0) {
		level = sample->level + texture->level_bias;
		level = level > texture->level_least ? level : texture->level_least; // also replaces a NaN
		level = level < texture->level_most ? level : texture->level_most;
		level = level < 0 ? 0 : level > last ? last : level;
	}
	if (texture->filters_levels && texture->is_float && level > 0) {
		uint32_t fixed = (uint32_t)(level * FRACTION + 0.5), first = fixed / FRACTION;
		double weight = fixed % FRACTION / (double)FRACTION;
		value = read_level(&flat, first);
		if (weight > 0) {
			struct ptx_texel sum = {.u = {0}};
			sum = add_weighted(sum, value, 1 - weight);
			value = add_weighted(sum, read_level(&flat, first + 1), weight);
		}
	} else {
		value = read_level(&flat, (uint32_t)(level + 0.5));
	}
	sample->has_failed = flat.has_failed;
	sample->is_missing = flat.is_missing;
	return value;
}

struct ptx_texel ptx_sample_gather(struct ptx_sample *sample, unsigned component)
{
	static const uint8_t corners[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
	struct ptx_sample flat = project_on_face(sample);
	const struct ptx_image *image = &sample->texture->levels[0];
	struct ptx_texel value = {.u = {0}};

	for (int i = 0; i < 4; i++) {
		struct position position = {.image = image, .index = {0, 0, clamp_layer(&flat, image)}};
		for (int axis = 0; axis < 2; axis++)
			position.index[axis] = filter_axis(&flat, image, axis).first + corners[i][axis];
		if (is_beyond_edge(&flat, &position))
			cross_edge(&position);
		apply_address_modes(&flat, &position);
		value.u[i] = read_texel(&flat, &position).u[component];
	}
	sample->has_failed = flat.has_failed;
	sample->is_missing = flat.is_missing;
	return value;
}

double ptx_sample_level(const struct ptx_sample *sample, const double dx[3], const double dy[3])
{
	const struct ptx_image *image = &sample->texture->levels[0];
	const double *changes[2] = {dx, dy};
	double largest = 0, major = sample->geometry == PTX_GEOMETRY_CUBE ? 0 : 1;
	int axes = sample->geometry == PTX_GEOMETRY_CUBE ? 3 : axis_count(sample->geometry);

	// `major` is the width of a cube's face. If the largest coordinate of a direction is 1, a face extends from -1
	// to 1.
	if (sample->geometry == PTX_GEOMETRY_CUBE)
		for (int axis = 0; axis < 3; axis++)
			major = fmax(major, 2 * fabs(sample->coordinate[axis]));
	for (int i = 0; i < 2; i++) {
		double sum = 0;
		for (int axis = 0; axis < axes; axis++) {
			double size = sample->geometry == PTX_GEOMETRY_CUBE ? image->width : axis_size(image, axis);
			double change = changes[i][axis] * (sample->texture->is_normalized ? size : 1) / major;
			sum += change * change;
		}
		largest = sum > largest ? sum : largest;
	}
	return largest > 0 ? log2(largest) / 2 : -126;
}

// A handle is a small number. A larger number is the address of a .texref or .surfref variable, which has the handle.
const struct ptx_texture *ptx_texture_find(struct ptx_warp *warp, const struct ptx_op *op, unsigned lane,
					   uint64_t handle, bool is_surface)
{
	ptx_texture_find_fn *find = warp->worker->run->launch->texture;
	const struct ptx_texture *texture = NULL;
	uint64_t object = handle;

	if (object > UINT32_MAX) {
		const void *reference = ptx_address(warp, op, lane, object, sizeof object, false);
		if (!reference)
			return NULL;
		memcpy(&object, reference, sizeof object);
	}
	texture = find && object <= UINT32_MAX ? find(object) : NULL;
	if (texture && texture->is_surface == is_surface)
		return texture;
	ptx_fault(warp, op, lane, PTX_FAULT_ILLEGAL_ADDRESS, handle, "0x%llx is no %s", (unsigned long long)handle,
		  is_surface ? "surface" : "texture");
	return NULL;
}
