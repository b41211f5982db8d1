// Reads textures: converts coordinates to values. Any thread of a launch.
#pragma once

#include "sim/ptx/engine.h"
#include "sim/ptx/texture.h"

enum ptx_geometry { PTX_GEOMETRY_1D, PTX_GEOMETRY_2D, PTX_GEOMETRY_3D, PTX_GEOMETRY_CUBE };

struct ptx_texel { // floats or integers, as the texture says
	union {
		float f[4];
		uint32_t u[4];
	};
};

// A read of a texture by one lane.
struct ptx_sample {
	struct ptx_warp *warp;
	const struct ptx_op *op;
	unsigned lane;
	const struct ptx_texture *texture;
	enum ptx_geometry geometry;
	double coordinate[3]; // x, y, z; for a cube map, a direction
	uint32_t layer;	      // layer of a layered texture; of an array of cube maps, the number of the cube map
	bool is_integer;      // the coordinates are texel numbers
	int32_t offset[3];    // offsets that are added to the texel numbers
	double level;
	bool has_failed; // a fault was set, and the value has no meaning
	bool is_missing; // a texel is in a tile that has no memory
};

// Returns the texel at the coordinate. With filtering, returns a weighted mean of texels.
struct ptx_texel ptx_sample_read(struct ptx_sample *sample);
// Returns one component of each of the four texels that a linear filter would use. They are in counter-clockwise order,
// starting at the lower left.
struct ptx_texel ptx_sample_gather(struct ptx_sample *sample, unsigned component);
// Returns the level of detail, from the changes of the coordinate between neighbouring pixels.
double ptx_sample_level(const struct ptx_sample *sample, const double dx[3], const double dy[3]);

// Finds the object of a handle, or of the address of a .texref or .surfref. NULL after a fault.
const struct ptx_texture *ptx_texture_find(struct ptx_warp *warp, const struct ptx_op *op, unsigned lane,
					   uint64_t handle, bool is_surface);
