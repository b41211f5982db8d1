// Tests textures: compares each kind of read with the formulas of the CUDA programming guide (appendix "Texture
// Fetching"), computed here. Linear filters use weights of 8 fractional bits, which determines the tolerance.
#include "texture.h"

// ---- the formulas ----------------------------------------------------------------------------------

static double wrapped(CUaddress_mode mode, long at, long size)
{
	long period = ((at % size) + size) % size;

	if (mode == CU_TR_ADDRESS_MODE_WRAP)
		return period;
	if (mode == CU_TR_ADDRESS_MODE_MIRROR)
		return ((at - period) / size) % 2 ? size - 1 - period : period;
	if (mode == CU_TR_ADDRESS_MODE_BORDER)
		return at < 0 || at >= size ? -1 : at;
	return at < 0 ? 0 : at >= size ? size - 1 : at;
}

static double texel(const struct picture *picture, const CUDA_TEXTURE_DESC *how, const long index[3], int channel)
{
	long at[3];

	for (int axis = 0; axis < 3; axis++) {
		at[axis] = (long)wrapped(how->addressMode[axis], index[axis], picture->size[axis]);
		if (at[axis] < 0)
			return how->borderColor[channel];
	}
	return picture->texels[((at[2] * picture->size[1] + at[1]) * picture->size[0] + at[0]) * CHANNELS + channel];
}

// Returns the filtered value of the picture. Filters along `axis` and all later axes.
static double filtered(const struct picture *picture, const CUDA_TEXTURE_DESC *how, int axes, int axis,
		       const double coordinate[3], long index[3], int channel)
{
	if (axis == axes)
		return texel(picture, how, index, channel);
	double place = coordinate[axis];
	if (how->flags & CU_TRSF_NORMALIZED_COORDINATES)
		place *= picture->size[axis];
	if (how->filterMode == CU_TR_FILTER_MODE_POINT) {
		index[axis] = (long)floor(place);
		return filtered(picture, how, axes, axis + 1, coordinate, index, channel);
	}
	double low = floor(place - 0.5), weight = place - 0.5 - low;
	index[axis] = (long)low;
	double first = filtered(picture, how, axes, axis + 1, coordinate, index, channel);
	index[axis] = (long)low + 1;
	return first * (1 - weight) + weight * filtered(picture, how, axes, axis + 1, coordinate, index, channel);
}

static double expected(const struct picture *picture, const CUDA_TEXTURE_DESC *how, int axes, const float *at,
		       int channel)
{
	double coordinate[3] = {at[0], at[1], at[2]};
	long index[3] = {0, 0, 0};

	double value = filtered(picture, how, axes, 0, coordinate, index, channel);
	// A linear filter of a 1D texture also follows the second address mode. If that is BORDER, half of the value
	// is the border colour.
	if (axes == 1 && how->filterMode == CU_TR_FILTER_MODE_LINEAR &&
	    how->addressMode[1] == CU_TR_ADDRESS_MODE_BORDER)
		value = (value + how->borderColor[channel]) / 2;
	return value;
}

// Returns the tolerance of a filtered read: a weight is off by at most 1/256, and texels differ by at most 1.
static double tolerance(const CUDA_TEXTURE_DESC *how, int axes)
{
	return how->filterMode == CU_TR_FILTER_MODE_LINEAR ? axes / 256.0 : 0;
}

// ---- the cases -------------------------------------------------------------------------------------

CONFORM(linear_memory)
{
	CUmodule module = need_reads();
	CUdeviceptr memory;
	CUtexObject object;
	float numbers[64];
	struct probe probes[4] = {0};
	struct value values[4];
	CUDA_TEXTURE_DESC how = {0};

	for (int i = 0; i < 64; i++)
		numbers[i] = i * 1.5f;
	NEED(cuMemAlloc(&memory, sizeof numbers));
	NEED(cuMemcpyHtoD(memory, numbers, sizeof numbers));
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR,
				       .res.linear = {.devPtr = memory,
						      .format = CU_AD_FORMAT_FLOAT,
						      .numChannels = 1,
						      .sizeInBytes = sizeof numbers}};
	NEED(cuTexObjectCreate(&object, &resource, &how, NULL));
	probes[0].in[0].i = 0, probes[1].in[0].i = 63, probes[2].in[0].i = 17, probes[3].in[0].i = 64;
	probe_image(module, "fetch", object, probes, values, 4);
	NEAR(values[0].at[0].f, 0, 0);
	NEAR(values[1].at[0].f, 63 * 1.5, 0);
	NEAR(values[2].at[0].f, 17 * 1.5, 0);
	NEAR(values[3].at[0].f, 0, 0); // the index is beyond the end
	WORKS(cuTexObjectDestroy(object));
	resource.res.linear.format = CU_AD_FORMAT_SIGNED_INT16; // the same bytes in another format
	resource.res.linear.numChannels = 4;
	how.flags = CU_TRSF_READ_AS_INTEGER;
	NEED(cuTexObjectCreate(&object, &resource, &how, NULL));
	int16_t shorts[4] = {-5, 32767, -32768, 9};
	NEED(cuMemcpyHtoD(memory + 8 * 3, shorts, sizeof shorts));
	probes[0].in[0].i = 3;
	probe_image(module, "fetch_integer", object, probes, values, 1);
	for (int i = 0; i < 4; i++)
		EQUALS(values[0].at[i].i, shorts[i]);
	WORKS(cuTexObjectDestroy(object));
	how.flags = 0;
	NEED(cuTexObjectCreate(&object, &resource, &how, NULL));
	probe_image(module, "fetch", object, probes, values, 1);
	NEAR(values[0].at[0].f, -5 / 32767.0, 1e-7);
	NEAR(values[0].at[1].f, 1, 1e-7);
	NEAR(values[0].at[2].f, -1, 1e-7);
	WORKS(cuTexObjectDestroy(object));
	WORKS(cuMemFree(memory));
}

// Checks every address mode and both filters, in 1, 2 and 3 dimensions, with coordinates far outside.
static void check_reads(int axes, const char *kernel, unsigned flags, CUaddress_mode mode, CUfilter_mode filter)
{
	enum { PROBES = 200 };
	static struct probe probes[PROBES];
	static struct value values[PROBES];
	CUmodule module = need_reads();
	struct picture picture = make_picture(16, axes > 1 ? 8 : 1, axes > 2 ? 4 : 1);
	CUDA_TEXTURE_DESC how = reading(mode, filter, flags);
	CUarray array = make_array(16, axes > 1 ? 8 : 0, axes > 2 ? 4 : 0, CU_AD_FORMAT_FLOAT, CHANNELS, 0);
	uint32_t state = 99;

	fill_array(array, picture.texels, 16 * sizeof(float) * CHANNELS, picture.size[1], picture.size[2]);
	CUtexObject object = make_object(array, &how);
	for (int i = 0; i < PROBES; i++)
		for (int axis = 0; axis < axes; axis++) {
			state = state * 1664525 + 1013904223;
			int texels = (int)(state >> 8) % (3 * picture.size[axis]) - picture.size[axis];
			double place = texels + (1 + (state >> 4) % 15) / 16.0; // never exactly between two texels
			probes[i].in[axis].f =
				(float)(flags & CU_TRSF_NORMALIZED_COORDINATES ? place / picture.size[axis] : place);
		}
	probe_image(module, kernel, object, probes, values, PROBES);
	for (int i = 0; i < PROBES; i++) {
		const float at[3] = {probes[i].in[0].f, probes[i].in[1].f, probes[i].in[2].f};
		for (int c = 0; c < CHANNELS; c++)
			NEAR(values[i].at[c].f, expected(&picture, &how, axes, at, c), tolerance(&how, axes));
	}
	WORKS(cuTexObjectDestroy(object));
	WORKS(cuArrayDestroy(array));
	free(picture.texels);
}

static void check_modes(int axes, const char *kernel)
{
	for (int filter = CU_TR_FILTER_MODE_POINT; filter <= CU_TR_FILTER_MODE_LINEAR; filter++) {
		for (int mode = CU_TR_ADDRESS_MODE_WRAP; mode <= CU_TR_ADDRESS_MODE_BORDER; mode++)
			check_reads(axes, kernel, CU_TRSF_NORMALIZED_COORDINATES, mode, filter);
		check_reads(axes, kernel, 0, CU_TR_ADDRESS_MODE_CLAMP, filter);
	}
}

CONFORM(one_dimension)
{
	check_modes(1, "read_1d");
}

CONFORM(two_dimensions)
{
	check_modes(2, "read_2d");
}

CONFORM(three_dimensions)
{
	check_modes(3, "read_3d");
}

CONFORM(weights_have_eight_bits)
{
	CUmodule module = need_reads();
	CUDA_TEXTURE_DESC how = reading(CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_LINEAR, 0);
	CUarray array = make_array(2, 0, 0, CU_AD_FORMAT_FLOAT, 1, 0);
	const float texels[2] = {0, 1};
	struct probe probes[257] = {0};
	struct value values[257];

	fill_array(array, texels, sizeof texels, 1, 1);
	CUtexObject object = make_object(array, &how);
	for (int i = 0; i <= 256; i++)
		probes[i].in[0].f = 0.5f + i / 256.0f;
	probe_image(module, "read_1d", object, probes, values, 257);
	for (int i = 0; i <= 256; i++)
		NEAR(values[i].at[0].f, i / 256.0, 0);
	for (int i = 0; i < 256; i++)
		probes[i].in[0].f = 0.5f + (i + 0.25f) / 256.0f;
	probe_image(module, "read_1d", object, probes, values, 256);
	for (int i = 0; i < 256; i++) // multiples of 1/256
		NEAR(values[i].at[0].f * 256, round(values[i].at[0].f * 256), 0);
	WORKS(cuTexObjectDestroy(object));
	WORKS(cuArrayDestroy(array));
}

// Reads one row of four texels in a format, at the second and fourth texel.
static void check_format(CUarray_format format, unsigned channels, size_t bytes, const void *texels, unsigned flags,
			 const double want[2][4])
{
	bool as_integer = flags & CU_TRSF_READ_AS_INTEGER;
	CUmodule module = need_reads();
	CUDA_TEXTURE_DESC how = reading(CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_POINT, flags);
	CUarray array = make_array(4, 1, 0, format, channels, 0);
	struct probe probes[2] = {{{{1.5f}, {0.5f}}}, {{{3.5f}, {0.5f}}}};
	struct value values[2];

	fill_array(array, texels, 4 * bytes, 1, 1);
	CUtexObject object = make_object(array, &how);
	probe_image(module, as_integer ? "read_2d_integer" : "read_2d", object, probes, values, 2);
	for (int i = 0; i < 2; i++)
		for (unsigned c = 0; c < channels; c++) {
			if (as_integer)
				EQUALS(values[i].at[c].i, (int32_t)(int64_t)want[i][c]);
			else
				NEAR(values[i].at[c].f, want[i][c], flags & CU_TRSF_SRGB ? 1.0 / 256 : 2e-7);
		}
	WORKS(cuTexObjectDestroy(object));
	WORKS(cuArrayDestroy(array));
}

CONFORM(formats)
{
	static const uint8_t u8[4][4] = {{0}, {1, 2, 128, 255}, {0}, {0, 77, 254, 3}};
	static const int8_t s8[4][2] = {{0}, {-1, 127}, {0}, {-128, 64}};
	static const uint16_t u16[4][4] = {{0}, {1, 2, 32768, 65535}, {0}, {0, 777, 65534, 3}};
	static const int16_t s16[4] = {0, -1, 0, -32768};
	static const uint32_t u32[4][2] = {{0}, {7, 0xffffffff}, {0}, {0x80000000, 1}};
	static const int32_t s32[4] = {0, -9, 0, INT32_MIN};
	static const uint16_t half[4][4] = {
		{0}, {0x3c00, 0xc000, 0x0001, 0x7bff}, {0}, {0x3555, 0x8000, 0x0400, 0x2e66}};
	static const float single[4][2] = {{0}, {-1.5f, 3e30f}, {0}, {1e-30f, 0.1f}};
	const unsigned integer = CU_TRSF_READ_AS_INTEGER;

	check_format(CU_AD_FORMAT_UNSIGNED_INT8, 4, 4, u8, integer,
		     (const double[2][4]){{1, 2, 128, 255}, {0, 77, 254, 3}});
	check_format(CU_AD_FORMAT_UNSIGNED_INT8, 4, 4, u8, 0,
		     (const double[2][4]){{1 / 255., 2 / 255., 128 / 255., 1}, {0, 77 / 255., 254 / 255., 3 / 255.}});
	check_format(CU_AD_FORMAT_SIGNED_INT8, 2, 2, s8, integer, (const double[2][4]){{-1, 127}, {-128, 64}});
	check_format(CU_AD_FORMAT_SIGNED_INT8, 2, 2, s8, 0, (const double[2][4]){{-1 / 127., 1}, {-1, 64 / 127.}});
	check_format(CU_AD_FORMAT_UNSIGNED_INT16, 4, 8, u16, integer,
		     (const double[2][4]){{1, 2, 32768, 65535}, {0, 777, 65534, 3}});
	check_format(CU_AD_FORMAT_UNSIGNED_INT16, 4, 8, u16, 0,
		     (const double[2][4]){{1 / 65535., 2 / 65535., 32768 / 65535., 1},
					  {0, 777 / 65535., 65534 / 65535., 3 / 65535.}});
	check_format(CU_AD_FORMAT_SIGNED_INT16, 1, 2, s16, integer, (const double[2][4]){{-1}, {-32768}});
	check_format(CU_AD_FORMAT_SIGNED_INT16, 1, 2, s16, 0, (const double[2][4]){{-1 / 32767.}, {-1}});
	check_format(CU_AD_FORMAT_UNSIGNED_INT32, 2, 8, u32, integer,
		     (const double[2][4]){{7, 4294967295.}, {2147483648., 1}});
	check_format(CU_AD_FORMAT_SIGNED_INT32, 1, 4, s32, integer, (const double[2][4]){{-9}, {INT32_MIN}});
	check_format(CU_AD_FORMAT_HALF, 4, 8, half, 0,
		     (const double[2][4]){{1, -2, 5.9604644775390625e-8, 65504},
					  {0.333251953125, 0, 6.103515625e-5, 0.0999755859375}});
	check_format(CU_AD_FORMAT_FLOAT, 2, 8, single, 0, (const double[2][4]){{-1.5, 3e30f}, {1e-30f, 0.1f}});
	// sRGB does not convert the alpha channel.
	double srgb[2][4];
	for (int i = 0; i < 2; i++)
		for (int c = 0; c < 4; c++) {
			double value = u8[2 * i + 1][c] / 255.;
			double linear = value <= 0.04045 ? value / 12.92 : pow((value + 0.055) / 1.055, 2.4);
			srgb[i][c] = c == 3 ? value : linear;
		}
	check_format(CU_AD_FORMAT_UNSIGNED_INT8, 4, 4, u8, CU_TRSF_SRGB, srgb);
}

CONFORM(pitched_memory)
{
	enum { WIDTH = 12, HEIGHT = 5 };
	CUmodule module = need_reads();
	CUDA_TEXTURE_DESC how = reading(CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_LINEAR, 0);
	struct picture picture = make_picture(WIDTH, HEIGHT, 1);
	CUdeviceptr memory;
	CUtexObject object;
	size_t pitch;
	struct probe probes[40];
	struct value values[40];

	NEED(cuMemAllocPitch(&memory, &pitch, WIDTH * 16, HEIGHT, 16));
	CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			      .srcHost = picture.texels,
			      .srcPitch = WIDTH * 16,
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstDevice = memory,
			      .dstPitch = pitch,
			      .WidthInBytes = WIDTH * 16,
			      .Height = HEIGHT};
	NEED(cuMemcpy2D(&copy));
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_PITCH2D,
				       .res.pitch2D = {.devPtr = memory,
						       .format = CU_AD_FORMAT_FLOAT,
						       .numChannels = 4,
						       .width = WIDTH,
						       .height = HEIGHT,
						       .pitchInBytes = pitch}};
	NEED(cuTexObjectCreate(&object, &resource, &how, NULL));
	for (int i = 0; i < 40; i++)
		probes[i] = (struct probe){{{i * 0.4f - 2}, {i * 0.3f - 3}}};
	probe_image(module, "read_2d", object, probes, values, 40);
	for (int i = 0; i < 40; i++)
		for (int c = 0; c < 4; c++)
			NEAR(values[i].at[c].f,
			     expected(&picture, &how, 2, (float[]){probes[i].in[0].f, probes[i].in[1].f, 0}, c),
			     tolerance(&how, 2));
	WORKS(cuTexObjectDestroy(object));
	resource.res.pitch2D.pitchInBytes = pitch + 4;
	GIVES(cuTexObjectCreate(&object, &resource, &how, NULL), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemFree(memory));
	free(picture.texels);
}

CONFORM(layers)
{
	enum { LAYERS = 3 };
	CUmodule module = need_reads();
	CUDA_TEXTURE_DESC how = reading(CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_LINEAR, 0);
	struct picture picture = make_picture(8, 4, LAYERS), row = make_picture(8, 1, LAYERS);
	CUarray array = make_array(8, 4, LAYERS, CU_AD_FORMAT_FLOAT, 4, CUDA_ARRAY3D_LAYERED);
	CUarray rows = make_array(8, 0, LAYERS, CU_AD_FORMAT_FLOAT, 4, CUDA_ARRAY3D_LAYERED);

	fill_array(array, picture.texels, 8 * 16, 4, LAYERS);
	fill_array(rows, row.texels, 8 * 16, 1, LAYERS);
	CUtexObject object = make_object(array, &how), object_1d = make_object(rows, &how);
	for (int layer = 0; layer < LAYERS; layer++) {
		struct picture one = {{8, 4, 1}, picture.texels + layer * 8 * 4 * CHANNELS};
		struct picture one_row = {{8, 1, 1}, row.texels + layer * 8 * CHANNELS};
		struct probe probe = {{{2.8f}, {1.3f}, {0}, {.i = layer}}};
		struct value value = probe_once(module, "read_a2d", object, probe);
		for (int c = 0; c < 4; c++)
			NEAR(value.at[c].f, expected(&one, &how, 2, (float[]){2.8f, 1.3f, 0}, c), tolerance(&how, 2));
		value = probe_once(module, "read_a1d", object_1d, probe);
		for (int c = 0; c < 4; c++)
			NEAR(value.at[c].f, expected(&one_row, &how, 1, (float[]){2.8f, 0, 0}, c), tolerance(&how, 1));
	}
	WORKS(cuTexObjectDestroy(object));
	WORKS(cuTexObjectDestroy(object_1d));
	WORKS(cuArrayDestroy(array));
	WORKS(cuArrayDestroy(rows));
	free(picture.texels);
	free(row.texels);
}

// Computes the direction from the centre of a cube to a point of a face, by the table of the programming guide.
static void direction(int face, double s, double t, float ret_direction[3])
{
	const double all[6][3] = {{1, -t, -s}, {-1, -t, s}, {s, 1, t}, {s, -1, -t}, {s, -t, 1}, {-s, -t, -1}};

	for (int i = 0; i < 3; i++)
		ret_direction[i] = (float)(all[face][i] * 1.7); // the length of the vector has no effect
}

CONFORM(cube_maps)
{
	enum { SIZE = 8 };
	CUmodule module = need_reads();
	CUDA_TEXTURE_DESC how =
		reading(CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_POINT, CU_TRSF_NORMALIZED_COORDINATES);
	struct picture picture = make_picture(SIZE, SIZE, 12);
	CUarray cube = make_array(SIZE, SIZE, 6, CU_AD_FORMAT_FLOAT, 4, CUDA_ARRAY3D_CUBEMAP);
	CUarray cubes = make_array(SIZE, SIZE, 12, CU_AD_FORMAT_FLOAT, 4, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED);

	fill_array(cube, picture.texels, SIZE * 16, SIZE, 6);
	fill_array(cubes, picture.texels, SIZE * 16, SIZE, 12);
	CUtexObject object = make_object(cube, &how), layered = make_object(cubes, &how);
	for (int face = 0; face < 6; face++)
		for (int i = 0; i < SIZE * SIZE; i += 5) {
			int x = i % SIZE, y = i / SIZE;
			struct probe probe = {{{0}, {0}, {0}, {.i = 1}}};
			float to[3];
			direction(face, (2 * x + 1.) / SIZE - 1, (2 * y + 1.) / SIZE - 1, to);
			for (int axis = 0; axis < 3; axis++)
				probe.in[axis].f = to[axis];
			const float *want = picture.texels + ((face * SIZE + y) * SIZE + x) * CHANNELS;
			NEAR(probe_once(module, "read_cube", object, probe).at[2].f, want[2], 0);
			want += 6 * SIZE * SIZE * CHANNELS;
			NEAR(probe_once(module, "read_acube", layered, probe).at[1].f, want[1], 0);
		}
	WORKS(cuTexObjectDestroy(object));
	WORKS(cuTexObjectDestroy(layered));
	// On the edge between the faces +x and +z, a seamless filter takes the mean of the two faces' texels.
	how.filterMode = CU_TR_FILTER_MODE_LINEAR;
	how.flags |= CU_TRSF_SEAMLESS_CUBEMAP;
	object = make_object(cube, &how);
	struct value value = probe_once(module, "read_cube", object, (struct probe){{{1}, {0.125f}, {1.00001f}}});
	int y = 3; // on a face with heights from -1 to 1, the height 1/8 is in row 3 from the top
	for (int c = 0; c < 4; c++) {
		float x_face = picture.texels[((0 * SIZE + y) * SIZE + 0) * CHANNELS + c];
		float z_face = picture.texels[((4 * SIZE + y) * SIZE + SIZE - 1) * CHANNELS + c];
		NEAR(value.at[c].f, (x_face + z_face) / 2, 2 / 256.);
	}
	WORKS(cuTexObjectDestroy(object));
	CUarray flat = make_array(8, 8, 0, CU_AD_FORMAT_FLOAT, 4, 0);
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = flat};
	GIVES(cuTexObjectCreate(&object, &resource, &how, NULL), CUDA_ERROR_INVALID_VALUE); // the array is no cube map
	WORKS(cuArrayDestroy(flat));
	WORKS(cuArrayDestroy(cube));
	WORKS(cuArrayDestroy(cubes));
	free(picture.texels);
}
