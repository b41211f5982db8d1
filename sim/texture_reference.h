// Texture and surface references: variables of a module that a program binds to memory or arrays. Any thread.
#pragma once

#include "module.h"
#include "texture.h"

enum { SIM_TEXTURE_REFERENCE = 0x54585246, SIM_SURFACE_REFERENCE = 0x53465246 };

struct CUtexref_st { // also a CUsurfref
	uint32_t magic;
	struct CUmod_st *module; // NULL: of cuTexRefCreate
	CUdeviceptr variable;	 // in the module; contains the object's handle
	bool is_bound;
	struct sim_texture_description description;
	CUarray_format format; // of memory
	unsigned channels;
	CUdeviceptr address; // of memory, as the program gave it
	struct sim_texture *object;
	struct CUtexref_st *next; // in the module
};

// Returns CUDA_ERROR_INVALID_VALUE if the handle is not a reference of this kind.
CUresult sim_reference_get(CUtexref handle, uint32_t magic, struct CUtexref_st **ret_reference);
// Changes the state of a reference. Fails if a kernel could not read what the new state describes.
CUresult sim_reference_change(struct CUtexref_st *reference, const struct CUtexref_st *changed);
