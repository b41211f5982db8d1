// Texture and surface objects as kernels see them: images in device memory, and how they are read. A launch names the
// function that finds an object by its handle. Objects do not change while a kernel may use them.
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

// One mipmap level, or a whole image without levels.
struct ptx_image {
	uint64_t address;		// of the first texel, in device memory
	uint64_t pitch, slice;		// bytes from row to row, from slice (or layer, or face) to slice
	uint32_t width, height, depth;	// texels; depth: slices, layers or faces; none is 0
};

enum { PTX_TEXTURE_LEVELS = 20 };

struct ptx_texture {
	bool is_surface;
	bool is_linear; // a buffer: no filter; what is outside reads as zero
	enum ptx_texel_format format;
	uint8_t channels; // 1, 2 or 4
	uint8_t texel_bytes;
	uint8_t axes;	 // for queries: 1, 2 or 3
	uint32_t layers; // for queries: 0 if it has none
	// How a texture is read. A surface has none of it.
	bool is_float; // reads give floats: of a float format, or integers as fractions of their range
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

// Finds an object by its handle, from any thread of a launch. NULL: no such object.
typedef const struct ptx_texture *ptx_texture_find_fn(uint64_t handle);

static inline uint32_t ptx_texel_channel_bytes(enum ptx_texel_format format)
{
	return format <= PTX_TEXEL_S8 ? 1 : format <= PTX_TEXEL_S16 || format == PTX_TEXEL_F16 ? 2 : 4;
}
