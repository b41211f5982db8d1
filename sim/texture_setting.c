// Implements the settings of texture references: formats, address modes, filters, levels.
#include "entry.h"
#include "texture_reference.h"

CUresult cuTexRefSetFormat(CUtexref hTexRef, CUarray_format fmt, int NumPackedComponents)
{
	struct CUtexref_st *reference, changed;

	SIM_ENTER(cuTexRefSetFormat);
	SIM_TRY(sim_reference_get(hTexRef, SIM_TEXTURE_REFERENCE, &reference));
	if (NumPackedComponents < 1 || NumPackedComponents > 4 || NumPackedComponents == 3 ||
	    !sim_texture_bytes(fmt, 1))
		return CUDA_ERROR_INVALID_VALUE;
	changed = *reference;
	changed.format = fmt;
	changed.channels = (unsigned)NumPackedComponents;
	if (changed.is_bound && changed.description.resource.resType == CU_RESOURCE_TYPE_LINEAR) {
		changed.description.resource.res.linear.format = fmt;
		changed.description.resource.res.linear.numChannels = changed.channels;
	}
	return sim_reference_change(reference, &changed);
}

CUresult cuTexRefGetFormat(CUarray_format *pFormat, int *pNumChannels, CUtexref hTexRef)
{
	struct CUtexref_st *reference;

	SIM_ENTER(cuTexRefGetFormat);
	SIM_TRY(sim_reference_get(hTexRef, SIM_TEXTURE_REFERENCE, &reference));
	if (!pFormat || !pNumChannels)
		return CUDA_ERROR_INVALID_VALUE;
	*pFormat = reference->format;
	*pNumChannels = (int)reference->channels;
	return CUDA_SUCCESS;
}

// Defines the setter and the getter of one field of CUDA_TEXTURE_DESC.
#define SETTING(name, set_type, get_type, argument, field)                              \
	CUresult cuTexRefSet##name(CUtexref hTexRef, set_type argument)                 \
	{                                                                               \
		struct CUtexref_st *reference, changed;                                 \
		SIM_ENTER(cuTexRefSet##name);                                           \
		SIM_TRY(sim_reference_get(hTexRef, SIM_TEXTURE_REFERENCE, &reference)); \
		changed = *reference;                                                   \
		changed.description.reading.field = argument;                           \
		return sim_reference_change(reference, &changed);                       \
	}                                                                               \
	CUresult cuTexRefGet##name(get_type *ret_value, CUtexref hTexRef)               \
	{                                                                               \
		struct CUtexref_st *reference;                                          \
		SIM_ENTER(cuTexRefGet##name);                                           \
		SIM_TRY(sim_reference_get(hTexRef, SIM_TEXTURE_REFERENCE, &reference)); \
		if (!ret_value)                                                         \
			return CUDA_ERROR_INVALID_VALUE;                                \
		*ret_value = (get_type)reference->description.reading.field;            \
		return CUDA_SUCCESS;                                                    \
	}
SETTING(FilterMode, CUfilter_mode, CUfilter_mode, fm, filterMode)
SETTING(MipmapFilterMode, CUfilter_mode, CUfilter_mode, fm, mipmapFilterMode)
SETTING(MipmapLevelBias, float, float, bias, mipmapLevelBias)
SETTING(MaxAnisotropy, unsigned, int, maxAniso, maxAnisotropy)
SETTING(Flags, unsigned, unsigned, Flags, flags)

CUresult cuTexRefSetAddressMode(CUtexref hTexRef, int dim, CUaddress_mode am)
{
	struct CUtexref_st *reference, changed;

	SIM_ENTER(cuTexRefSetAddressMode);
	SIM_TRY(sim_reference_get(hTexRef, SIM_TEXTURE_REFERENCE, &reference));
	if (dim < 0 || dim > 2)
		return CUDA_ERROR_INVALID_VALUE;
	changed = *reference;
	changed.description.reading.addressMode[dim] = am;
	return sim_reference_change(reference, &changed);
}

CUresult cuTexRefGetAddressMode(CUaddress_mode *pam, CUtexref hTexRef, int dim)
{
	struct CUtexref_st *reference;

	SIM_ENTER(cuTexRefGetAddressMode);
	SIM_TRY(sim_reference_get(hTexRef, SIM_TEXTURE_REFERENCE, &reference));
	if (!pam || dim < 0 || dim > 2)
		return CUDA_ERROR_INVALID_VALUE;
	*pam = reference->description.reading.addressMode[dim];
	return CUDA_SUCCESS;
}

CUresult cuTexRefSetMipmapLevelClamp(CUtexref hTexRef, float minMipmapLevelClamp, float maxMipmapLevelClamp)
{
	struct CUtexref_st *reference, changed;

	SIM_ENTER(cuTexRefSetMipmapLevelClamp);
	SIM_TRY(sim_reference_get(hTexRef, SIM_TEXTURE_REFERENCE, &reference));
	changed = *reference;
	changed.description.reading.minMipmapLevelClamp = minMipmapLevelClamp;
	changed.description.reading.maxMipmapLevelClamp = maxMipmapLevelClamp;
	return sim_reference_change(reference, &changed);
}

CUresult cuTexRefGetMipmapLevelClamp(float *pminMipmapLevelClamp, float *pmaxMipmapLevelClamp, CUtexref hTexRef)
{
	struct CUtexref_st *reference;

	SIM_ENTER(cuTexRefGetMipmapLevelClamp);
	SIM_TRY(sim_reference_get(hTexRef, SIM_TEXTURE_REFERENCE, &reference));
	if (!pminMipmapLevelClamp || !pmaxMipmapLevelClamp)
		return CUDA_ERROR_INVALID_VALUE;
	*pminMipmapLevelClamp = reference->description.reading.minMipmapLevelClamp;
	*pmaxMipmapLevelClamp = reference->description.reading.maxMipmapLevelClamp;
	return CUDA_SUCCESS;
}

CUresult cuTexRefSetBorderColor(CUtexref hTexRef, float *pBorderColor)
{
	struct CUtexref_st *reference, changed;

	SIM_ENTER(cuTexRefSetBorderColor);
	SIM_TRY(sim_reference_get(hTexRef, SIM_TEXTURE_REFERENCE, &reference));
	if (!pBorderColor)
		return CUDA_ERROR_INVALID_VALUE;
	changed = *reference;
	memcpy(changed.description.reading.borderColor, pBorderColor, sizeof changed.description.reading.borderColor);
	return sim_reference_change(reference, &changed);
}

CUresult cuTexRefGetBorderColor(float *pBorderColor, CUtexref hTexRef)
{
	struct CUtexref_st *reference;

	SIM_ENTER(cuTexRefGetBorderColor);
	SIM_TRY(sim_reference_get(hTexRef, SIM_TEXTURE_REFERENCE, &reference));
	if (!pBorderColor)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(pBorderColor, reference->description.reading.borderColor,
	       sizeof reference->description.reading.borderColor);
	return CUDA_SUCCESS;
}
