// Declares texture and surface objects: the program's description of them, and what kernels see (texture*.c). Any
// thread.
#pragma once

#include "ptx/texture.h"
#include "sim.h"

struct sim_texture_description {
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC reading; // of textures
	CUDA_RESOURCE_VIEW_DESC view;
	bool has_view, is_surface;
	bool needs_ldst; // the array needs CUDA_ARRAY3D_SURFACE_LDST, since it is for a surface reference
};

struct sim_texture {
	struct ptx_texture seen; // the object as kernels see it
	struct sim_texture_description description;
	struct sim_context *context;
	uint32_t handle; // never 0
	_Atomic bool is_live;
	_Atomic bool is_visible; // kernels can see the object, also after its end if they were launched before
	struct sim_texture *next_free;
};

// Checks a description as the driver does, and converts it to what kernels see.
CUresult sim_texture_read(const struct sim_texture_description *description, struct ptx_texture *ret_texture);
CUresult sim_texture_create(struct sim_context *context, const struct sim_texture_description *description,
			    struct sim_texture **ret_texture);
void sim_texture_destroy(struct sim_texture *texture);
// Finds an object. NULL: the handle is not that of a live object.
struct sim_texture *sim_texture_get(unsigned long long handle);
const struct ptx_texture *sim_texture_find(uint64_t handle); // finds an object for launches; takes no lock
void sim_textures_refresh(void); // updates the objects after the addresses of arrays have changed
// Replaces the images that have these tiles by empty ones, because the tables of the tiles are freed.
void sim_textures_forget(const struct ptx_tiles *tiles, unsigned count);
void sim_texture_context_finish(struct sim_context *context); // destroys its objects
// Returns the bytes of a texel; 0: invalid format.
size_t sim_texture_bytes(CUarray_format format, unsigned channels);
