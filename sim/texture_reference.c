// Implements texture and surface references: variables of a module (.texref, .surfref) that the program binds to memory
// or arrays. Such a variable contains the handle of an object. Each change of the reference changes the object.
#include <stdlib.h>

#include "context.h"
#include "entry.h"
#include "memory.h"
#include "texture_reference.h"

enum { ALIGNMENT = 512 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // guards the modules' lists of references

static struct CUtexref_st *create_reference(uint32_t magic)
{
	struct CUtexref_st *reference = calloc(1, sizeof *reference);

	if (!reference)
		return NULL;
	reference->magic = magic;
	reference->description.is_surface = magic == SIM_SURFACE_REFERENCE;
	reference->description.needs_ldst = reference->description.is_surface;
	for (int i = 0; i < 3; i++)
		reference->description.reading.addressMode[i] = CU_TR_ADDRESS_MODE_CLAMP;
	reference->format = CU_AD_FORMAT_FLOAT;
	reference->channels = 1;
	return reference;
}

static void destroy_reference(struct CUtexref_st *reference)
{
	if (reference->object)
		sim_texture_destroy(reference->object);
	reference->magic = 0;
	free(reference);
}

void sim_texture_references_finish(struct CUmod_st *module)
{
	for (struct CUtexref_st *one = module->texture_references, *next; one; one = next) {
		next = one->next;
		destroy_reference(one);
	}
	module->texture_references = NULL;
}

CUresult sim_reference_get(CUtexref handle, uint32_t magic, struct CUtexref_st **ret_reference)
{
	if (!handle || handle->magic != magic)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_reference = handle;
	return CUDA_SUCCESS;
}

static bool is_same_resource(const struct CUtexref_st *one, const struct CUtexref_st *other)
{
	return memcmp(&one->description.resource, &other->description.resource, sizeof(CUDA_RESOURCE_DESC)) == 0;
}

CUresult sim_reference_change(struct CUtexref_st *reference, const struct CUtexref_st *changed)
{
	struct sim_context *context;
	struct ptx_texture seen;

	SIM_TRY(sim_context_current(&context));
	if (!changed->is_bound) {
		*reference = *changed;
		return CUDA_SUCCESS;
	}
	if (reference->object) {
		CUresult result = sim_texture_read(&changed->description, &seen);
		if (result == CUDA_ERROR_INVALID_HANDLE && is_same_resource(reference, changed)) {
			// the array was destroyed: keep the new settings, but bind the reference to nothing
			*reference = *changed;
			reference->is_bound = false;
			return CUDA_SUCCESS;
		}
		SIM_TRY(result);
		// Work that was launched before the change reads the old state, so wait for it.
		(void)sim_context_synchronize(reference->object->context);
		*reference = *changed;
		reference->object->seen = seen;
		reference->object->description = changed->description;
		return CUDA_SUCCESS;
	}
	struct sim_texture *object;
	if (reference->module)
		context = reference->module->context;
	SIM_TRY(sim_texture_create(context, &changed->description, &object));
	*reference = *changed;
	reference->object = object;
	if (reference->module) {
		uint64_t handle = object->handle;
		void *variable =
			sim_memory_translate(object->context->device, reference->variable, sizeof handle, SIM_WRITE);
		if (!variable)
			return CUDA_ERROR_INVALID_HANDLE;
		memcpy(variable, &handle, sizeof handle);
	}
	return CUDA_SUCCESS;
}

// ---- references of modules -------------------------------------------------------------------------

static CUresult find_reference(CUmodule handle, const char *name, uint32_t magic, struct CUtexref_st **ret_reference)
{
	struct CUmod_st *module;
	uint64_t variable;
	bool is_surface;
	CUresult result = CUDA_SUCCESS;

	SIM_TRY(sim_module_get(handle, &module));
	if (!ptx_module_reference(module->ptx, name, &variable, &is_surface) ||
	    is_surface != (magic == SIM_SURFACE_REFERENCE))
		return CUDA_ERROR_NOT_FOUND;
	pthread_mutex_lock(&lock);
	struct CUtexref_st *reference = module->texture_references;
	while (reference && reference->variable != variable)
		reference = reference->next;
	if (!reference) {
		reference = create_reference(magic);
		if (reference) {
			reference->module = module;
			reference->variable = variable;
			reference->next = module->texture_references;
			module->texture_references = reference;
		} else {
			result = CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	pthread_mutex_unlock(&lock);
	if (result == CUDA_SUCCESS)
		*ret_reference = reference;
	return result;
}

CUresult cuModuleGetTexRef(CUtexref *pTexRef, CUmodule hmod, const char *name)
{
	SIM_ENTER(cuModuleGetTexRef);
	if (!pTexRef || !name)
		return CUDA_ERROR_INVALID_VALUE;
	return find_reference(hmod, name, SIM_TEXTURE_REFERENCE, pTexRef);
}

CUresult cuModuleGetSurfRef(CUsurfref *pSurfRef, CUmodule hmod, const char *name)
{
	SIM_ENTER(cuModuleGetSurfRef);
	if (!pSurfRef || !name)
		return CUDA_ERROR_INVALID_VALUE;
	return find_reference(hmod, name, SIM_SURFACE_REFERENCE, (CUtexref *)pSurfRef);
}

CUresult cuTexRefCreate(CUtexref *pTexRef)
{
	struct sim_context *context;

	SIM_ENTER(cuTexRefCreate);
	if (!pTexRef)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_context_current(&context));
	CUtexref reference = create_reference(SIM_TEXTURE_REFERENCE);
	if (!reference)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*pTexRef = reference;
	return CUDA_SUCCESS;
}

CUresult cuTexRefDestroy(CUtexref hTexRef)
{
	struct CUtexref_st *reference;

	SIM_ENTER(cuTexRefDestroy);
	SIM_TRY(sim_reference_get(hTexRef, SIM_TEXTURE_REFERENCE, &reference));
	if (reference->module)
		return CUDA_ERROR_INVALID_VALUE; // the reference is destroyed with its module
	destroy_reference(reference);
	return CUDA_SUCCESS;
}

// Has no effect, because a kernel uses the references of its module.
CUresult cuParamSetTexRef(CUfunction hfunc, int texunit, CUtexref hTexRef)
{
	struct CUtexref_st *reference;

	SIM_ENTER(cuParamSetTexRef);
	if (!hfunc || texunit != CU_PARAM_TR_DEFAULT)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_reference_get(hTexRef, SIM_TEXTURE_REFERENCE, &reference);
}

// ---- binding -----------------------------------------------------------------------------------------

CUresult cuTexRefSetArray(CUtexref hTexRef, CUarray hArray, unsigned int Flags)
{
	struct CUtexref_st *reference, changed;

	SIM_ENTER(cuTexRefSetArray);
	(void)Flags; // a GPU's driver ignores the flags
	SIM_TRY(sim_reference_get(hTexRef, SIM_TEXTURE_REFERENCE, &reference));
	changed = *reference;
	changed.is_bound = true;
	changed.description.resource =
		(CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = hArray};
	return sim_reference_change(reference, &changed);
}

CUresult cuTexRefSetMipmappedArray(CUtexref hTexRef, CUmipmappedArray hMipmappedArray, unsigned int Flags)
{
	struct CUtexref_st *reference, changed;

	SIM_ENTER(cuTexRefSetMipmappedArray);
	SIM_TRY(sim_reference_get(hTexRef, SIM_TEXTURE_REFERENCE, &reference));
	if (Flags != CU_TRSA_OVERRIDE_FORMAT)
		return CUDA_ERROR_INVALID_VALUE;
	changed = *reference;
	changed.is_bound = true;
	changed.description.resource = (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY,
							    .res.mipmap.hMipmappedArray = hMipmappedArray};
	return sim_reference_change(reference, &changed);
}

CUresult cuTexRefSetAddress_v2(size_t *ByteOffset, CUtexref hTexRef, CUdeviceptr dptr, size_t bytes)
{
	struct CUtexref_st *reference, changed;
	size_t offset = dptr % ALIGNMENT;

	SIM_ENTER(cuTexRefSetAddress_v2);
	SIM_TRY(sim_reference_get(hTexRef, SIM_TEXTURE_REFERENCE, &reference));
	if (offset && !ByteOffset)
		return CUDA_ERROR_INVALID_VALUE;
	changed = *reference;
	changed.is_bound = true;
	changed.address = dptr;
	changed.description.resource = (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_LINEAR,
							    .res.linear = {.devPtr = dptr - offset,
									   .format = reference->format,
									   .numChannels = reference->channels,
									   .sizeInBytes = bytes + offset}};
	SIM_TRY(sim_reference_change(reference, &changed));
	if (ByteOffset)
		*ByteOffset = offset;
	return CUDA_SUCCESS;
}

static CUresult set_address_2d(CUtexref handle, const CUDA_ARRAY_DESCRIPTOR *desc, CUdeviceptr address, size_t pitch)
{
	struct CUtexref_st *reference, changed;

	SIM_TRY(sim_reference_get(handle, SIM_TEXTURE_REFERENCE, &reference));
	if (!desc)
		return CUDA_ERROR_INVALID_VALUE;
	changed = *reference;
	changed.is_bound = true;
	changed.address = address;
	changed.description.resource = (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_PITCH2D,
							    .res.pitch2D = {.devPtr = address,
									    .format = desc->Format,
									    .numChannels = desc->NumChannels,
									    .width = desc->Width,
									    .height = desc->Height,
									    .pitchInBytes = pitch}};
	return sim_reference_change(reference, &changed);
}

CUresult cuTexRefSetAddress2D_v2(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR *desc, CUdeviceptr dptr, size_t Pitch)
{
	SIM_ENTER(cuTexRefSetAddress2D_v2);
	return set_address_2d(hTexRef, desc, dptr, Pitch);
}

CUresult cuTexRefSetAddress2D_v3(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR *desc, CUdeviceptr dptr, size_t Pitch)
{
	SIM_ENTER(cuTexRefSetAddress2D_v3);
	return set_address_2d(hTexRef, desc, dptr, Pitch);
}

CUresult cuTexRefGetAddress_v2(CUdeviceptr *pdptr, CUtexref hTexRef)
{
	struct CUtexref_st *reference;

	SIM_ENTER(cuTexRefGetAddress_v2);
	SIM_TRY(sim_reference_get(hTexRef, SIM_TEXTURE_REFERENCE, &reference));
	CUresourcetype type = reference->description.resource.resType;
	if (!pdptr || !reference->is_bound || (type != CU_RESOURCE_TYPE_LINEAR && type != CU_RESOURCE_TYPE_PITCH2D))
		return CUDA_ERROR_INVALID_VALUE;
	*pdptr = reference->address;
	return CUDA_SUCCESS;
}

static CUresult get_array(CUarray *ret_array, CUtexref handle, uint32_t magic)
{
	struct CUtexref_st *reference;

	SIM_TRY(sim_reference_get(handle, magic, &reference));
	if (!ret_array || !reference->is_bound || reference->description.resource.resType != CU_RESOURCE_TYPE_ARRAY)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_array = reference->description.resource.res.array.hArray;
	return CUDA_SUCCESS;
}

CUresult cuTexRefGetArray(CUarray *phArray, CUtexref hTexRef)
{
	SIM_ENTER(cuTexRefGetArray);
	return get_array(phArray, hTexRef, SIM_TEXTURE_REFERENCE);
}

CUresult cuSurfRefGetArray(CUarray *phArray, CUsurfref hSurfRef)
{
	SIM_ENTER(cuSurfRefGetArray);
	return get_array(phArray, (CUtexref)hSurfRef, SIM_SURFACE_REFERENCE);
}

CUresult cuTexRefGetMipmappedArray(CUmipmappedArray *phMipmappedArray, CUtexref hTexRef)
{
	struct CUtexref_st *reference;

	SIM_ENTER(cuTexRefGetMipmappedArray);
	SIM_TRY(sim_reference_get(hTexRef, SIM_TEXTURE_REFERENCE, &reference));
	if (!phMipmappedArray || !reference->is_bound ||
	    reference->description.resource.resType != CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
		return CUDA_ERROR_INVALID_VALUE;
	*phMipmappedArray = reference->description.resource.res.mipmap.hMipmappedArray;
	return CUDA_SUCCESS;
}

CUresult cuSurfRefSetArray(CUsurfref hSurfRef, CUarray hArray, unsigned int Flags)
{
	struct CUtexref_st *reference, changed;

	SIM_ENTER(cuSurfRefSetArray);
	SIM_TRY(sim_reference_get((CUtexref)hSurfRef, SIM_SURFACE_REFERENCE, &reference));
	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	changed = *reference;
	changed.is_bound = true;
	changed.description.resource =
		(CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = hArray};
	return sim_reference_change(reference, &changed);
}
