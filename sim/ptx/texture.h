// Declares texture and surface objects as kernels see them: images in device memory, and how they are read.
// ptx_launch.texture finds an object by its handle. Objects do not change while a kernel may use them. Any thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum ptx_texel_format {
	PTX_TEXEL_U8,
	PTX_TEXEL_S8,
	PTX_TEXEL_U16,
	PTX_TEXEL_S16,
	PTX_TEXEL_U32,
	PTX_TEXEL_S32,
	PTX_TEXEL_F16,
	PTX_TEXEL_F32,
};

enum ptx_texture_address { PTX_ADDRESS_WRAP, PTX_ADDRESS_CLAMP, PTX_ADDRESS_MIRROR, PTX_ADDRESS_BORDER };

#define PTX_TILE_BYTES 65536

// The memory of a sparse image: tiles of PTX_TILE_BYTES. Each has an address in device memory, or 0 if it has no
// memory. The addresses may change while kernels run.
struct ptx_tiles {
	uint64_t *addresses; // atomic
	// The extent of a tile. If row_bytes is 0, the tiles contain the rows one after the other.
	uint32_t row_bytes, height, depth;
	uint32_t across, down, deep; // number of tiles along each axis
	uint64_t start;		     // offset in the tiles at which the image begins, if row_bytes is 0
};

// A level of a mipmap, or an image without levels.
struct ptx_image {
	uint64_t address;	       // device address of the first texel
	uint64_t pitch, slice;	       // bytes from row to row, and from slice (or layer, or face) to slice
	uint32_t width, height, depth; // texels, at least 1; depth: slices, layers or faces
	uint32_t first_slice;	       // for a view of a sparse image: the first slice of the view
	const struct ptx_tiles *tiles; // NULL: the image is contiguous memory at `address`
};

// Returns the address of a byte of a sparse image, which must be inside the image. Returns 0 if its tile has no memory.
// *ret_span: how many bytes of the row follow at consecutive addresses.
static inline uint64_t ptx_tiles_find(const struct ptx_tiles *tiles, uint64_t pitch, uint64_t slice, uint64_t x,
				      uint64_t y, uint64_t z, uint64_t *ret_span)
{
	uint64_t index, within;

	if (tiles->row_bytes) {
		index = (z / tiles->depth * tiles->down + y / tiles->height) * tiles->across + x / tiles->row_bytes;
		within = (z % tiles->depth * tiles->height + y % tiles->height) * tiles->row_bytes;
		within += x % tiles->row_bytes;
		*ret_span = tiles->row_bytes - x % tiles->row_bytes;
	} else {
		uint64_t offset = tiles->start + z * slice + y * pitch + x;
		index = offset / PTX_TILE_BYTES;
		within = offset % PTX_TILE_BYTES;
		*ret_span = PTX_TILE_BYTES - within;
	}
	uint64_t address = __atomic_load_n(&tiles->addresses[index], __ATOMIC_RELAXED);
	return address ? address + within : 0;
}

// Returns the address of a byte, which must be inside the image. Returns 0 if its tile has no memory.
static inline uint64_t ptx_image_address(const struct ptx_image *image, uint64_t x, uint64_t y, uint64_t z)
{
	uint64_t span;

	if (!image->tiles)
		return image->address + z * image->slice + y * image->pitch + x;
	return ptx_tiles_find(image->tiles, image->pitch, image->slice, x, y, z + image->first_slice, &span);
}

enum { PTX_TEXTURE_LEVELS = 20 };

struct ptx_texture {
	bool is_surface;
	bool is_linear; // linear memory; reads are not filtered, and return zero outside
	enum ptx_texel_format format;
	uint8_t channels; // number of channels: 1, 2 or 4
	uint8_t texel_bytes;
	uint8_t axes;	 // number of dimensions for queries: 1, 2 or 3
	uint32_t layers; // number of layers for queries; 0: not layered
	// How a texture is read; not used for surfaces.
	bool is_float; // reads return floats, either stored ones or integers as fractions of their range
	bool is_normalized, is_filtered, filters_levels, is_srgb, is_seamless;
	enum ptx_texture_address address[3];
	union {
		float value[4];
		uint32_t bits[4];
	} border;
	float level_bias, level_least, level_most;
	uint32_t level_count;
	struct ptx_image levels[PTX_TEXTURE_LEVELS];
};

// Finds an object by its handle, in any thread of a launch. NULL: no such object.
typedef const struct ptx_texture *ptx_texture_find_fn(uint64_t handle);

static inline uint32_t ptx_texel_channel_bytes(enum ptx_texel_format format)
{
	return format <= PTX_TEXEL_S8 ? 1 : format <= PTX_TEXEL_S16 || format == PTX_TEXEL_F16 ? 2 : 4;
}
