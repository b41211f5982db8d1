// Implements the driver's functions for texture and surface objects.
#include "context.h"
#include "entry.h"
#include "texture.h"

CUresult cuTexObjectCreate(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc,
			   const CUDA_TEXTURE_DESC *pTexDesc, const CUDA_RESOURCE_VIEW_DESC *pResViewDesc)
{
	struct sim_context *context;
	struct sim_texture *texture;

	SIM_ENTER(cuTexObjectCreate);
	if (!pTexObject || !pResDesc || !pTexDesc)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_context_current(&context));
	struct sim_texture_description description = {
		.resource = *pResDesc, .reading = *pTexDesc, .has_view = pResViewDesc != NULL};
	if (pResViewDesc)
		description.view = *pResViewDesc;
	SIM_TRY(sim_texture_create(context, &description, &texture));
	*pTexObject = texture->handle;
	return CUDA_SUCCESS;
}

enum object_kind { TEXTURE, SURFACE };

// Returns a live object of the kind. CUDA_ERROR_INVALID_VALUE: not found.
static CUresult find_object(unsigned long long handle, enum object_kind kind, struct sim_texture **ret_texture)
{
	struct sim_context *context;

	SIM_TRY(sim_context_current(&context));
	struct sim_texture *texture = sim_texture_get(handle);
	if (!texture || texture->description.is_surface != (kind == SURFACE))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_texture = texture;
	return CUDA_SUCCESS;
}

CUresult cuTexObjectDestroy(CUtexObject texObject)
{
	struct sim_texture *texture;

	SIM_ENTER(cuTexObjectDestroy);
	SIM_TRY(find_object(texObject, TEXTURE, &texture));
	sim_texture_destroy(texture);
	return CUDA_SUCCESS;
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject)
{
	struct sim_texture *texture;

	SIM_ENTER(cuTexObjectGetResourceDesc);
	if (!pResDesc)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(find_object(texObject, TEXTURE, &texture));
	*pResDesc = texture->description.resource;
	return CUDA_SUCCESS;
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *pTexDesc, CUtexObject texObject)
{
	struct sim_texture *texture;

	SIM_ENTER(cuTexObjectGetTextureDesc);
	if (!pTexDesc)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(find_object(texObject, TEXTURE, &texture));
	*pTexDesc = texture->description.reading;
	return CUDA_SUCCESS;
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *pResViewDesc, CUtexObject texObject)
{
	struct sim_texture *texture;

	SIM_ENTER(cuTexObjectGetResourceViewDesc);
	if (!pResViewDesc)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(find_object(texObject, TEXTURE, &texture));
	if (texture->description.has_view)
		*pResViewDesc = texture->description.view;
	return CUDA_SUCCESS;
}

CUresult cuSurfObjectCreate(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc)
{
	struct sim_context *context;
	struct sim_texture *surface;

	SIM_ENTER(cuSurfObjectCreate);
	if (!pSurfObject || !pResDesc)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_context_current(&context));
	struct sim_texture_description description = {.resource = *pResDesc, .is_surface = true};
	SIM_TRY(sim_texture_create(context, &description, &surface));
	*pSurfObject = surface->handle;
	return CUDA_SUCCESS;
}

CUresult cuSurfObjectDestroy(CUsurfObject surfObject)
{
	struct sim_texture *surface;

	SIM_ENTER(cuSurfObjectDestroy);
	SIM_TRY(find_object(surfObject, SURFACE, &surface));
	sim_texture_destroy(surface);
	return CUDA_SUCCESS;
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUsurfObject surfObject)
{
	struct sim_texture *surface;

	SIM_ENTER(cuSurfObjectGetResourceDesc);
	if (!pResDesc)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(find_object(surfObject, SURFACE, &surface));
	*pResDesc = surface->description.resource;
	return CUDA_SUCCESS;
}
