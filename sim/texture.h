// Texture and surface objects: what a program described, and what kernels see of it. Any thread.
#pragma once

#include "ptx/texture.h"
#include "sim.h"

// Everything that describes an object.
struct sim_texture_description {
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC reading; // of textures
	CUDA_RESOURCE_VIEW_DESC view;
	bool has_view, is_surface;
	bool needs_ldst; // only arrays with CUDA_ARRAY3D_SURFACE_LDST: for surface references
};

struct sim_texture {
	struct ptx_texture seen; // by kernels
	struct sim_texture_description description;
	struct sim_context *context;
	uint32_t handle; // never 0
	_Atomic bool is_live;
	_Atomic bool is_visible; // to kernels: those that were launched before its end may still read it
	struct sim_texture *next_free;
};

// Checks a description as the driver does.
CUresult sim_texture_read(const struct sim_texture_description *description, struct ptx_texture *ret_texture);
CUresult sim_texture_create(struct sim_context *context, const struct sim_texture_description *description,
			    struct sim_texture **ret_texture);
void sim_texture_destroy(struct sim_texture *texture);
// NULL: not the handle of a live object.
struct sim_texture *sim_texture_get(unsigned long long handle);
const struct ptx_texture *sim_texture_find(uint64_t handle); // for launches; takes no lock
void sim_textures_refresh(void); // arrays have moved
void sim_textures_forget(const struct ptx_tiles *tiles, unsigned count); // the tables go with their sparse array
void sim_texture_context_finish(struct sim_context *context); // its objects go with it
// Bytes of a texel; 0: no such format.
size_t sim_texture_bytes(CUarray_format format, unsigned channels);
