// Declares texture and surface references: variables of a module that a program binds to memory or arrays. Any thread.
#pragma once

#include "module.h"
#include "texture.h"

enum { SIM_TEXTURE_REFERENCE = 0x54585246, SIM_SURFACE_REFERENCE = 0x53465246 };

struct CUtexref_st { // a CUsurfref points to this struct, too
	uint32_t magic;
	struct CUmod_st *module; // module of the variable; NULL: made by cuTexRefCreate
	CUdeviceptr variable;	 // address of the variable, which contains the object's handle
	bool is_bound;
	struct sim_texture_description description;
	CUarray_format format; // of memory
	unsigned channels;
	CUdeviceptr address; // address of the memory, as the program passed it
	struct sim_texture *object;
	struct CUtexref_st *next; // next reference of the module
};

// Finds the reference of a handle. CUDA_ERROR_INVALID_VALUE: the handle is not a reference with this magic number.
CUresult sim_reference_get(CUtexref handle, uint32_t magic, struct CUtexref_st **ret_reference);
// Changes the state of a reference. Fails if kernels could not read a texture or surface of that state.
CUresult sim_reference_change(struct CUtexref_st *reference, const struct CUtexref_st *changed);
